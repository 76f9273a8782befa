import { type SQL, sql } from "drizzle-orm";
import type { Db } from "./client.ts";

/** As many rows as one statement deletes of the log, or of an account that is erased: D1 does nothing else meanwhile. */
export const rowsAtOnce = 5000;
/** As many rows as one statement deletes where a row may have many kilobytes. */
const wideRowsAtOnce = 1000;

/** Repeats a deletion of at most `limit` rows until it finds fewer, or `atMost` are gone. Answers how many are. */
export async function deleteInChunks(db: Db, atMost: number, deletion: (limit: number) => SQL): Promise<number> {
  let deleted = 0;
  while (deleted < atMost) {
    // D1's own number has what triggers change, too.
    const rows = await db.all(sql`${deletion(wideRowsAtOnce)} RETURNING 1`);
    deleted += rows.length;
    if (rows.length < wideRowsAtOnce) break;
  }
  return deleted;
}
