import { type SQL, sql } from "drizzle-orm";
import type { Db } from "./client.ts";

/** The most rows that one statement deletes from the log or from an erased account. D1 runs no other statement during a deletion. */
export const rowsAtOnce = 5000;
/** The most rows that one statement deletes from tables whose rows may contain many kilobytes. */
const wideRowsAtOnce = 1000;

/** Repeats a deletion until no more rows match, or until at least `atMost` rows are deleted. Returns the number of deleted rows. */
export async function deleteInChunks(db: Db, atMost: number, deletion: (limit: number) => SQL): Promise<number> {
  let deleted = 0;
  while (deleted < atMost) {
    // The query counts the returned rows, because D1's own count also includes rows that triggers change.
    const rows = await db.all(sql`${deletion(wideRowsAtOnce)} RETURNING 1`);
    deleted += rows.length;
    if (rows.length < wideRowsAtOnce) break;
  }
  return deleted;
}
