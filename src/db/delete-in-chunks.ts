import { type SQL, sql } from "drizzle-orm";
import type { Db } from "./client.ts";

/** As many rows as one statement deletes: D1 does nothing else meanwhile. */
export const rowsAtOnce = 5000;

/** Repeats a deletion of at most `limit` rows until it finds fewer, or `atMost` are gone. Answers how many are. */
export async function deleteInChunks(db: Db, atMost: number, deletion: (limit: number) => SQL): Promise<number> {
  let deleted = 0;
  while (deleted < atMost) {
    // D1's own number has what triggers change, too.
    const rows = await db.all(sql`${deletion(rowsAtOnce)} RETURNING 1`);
    deleted += rows.length;
    if (rows.length < rowsAtOnce) break;
  }
  return deleted;
}
