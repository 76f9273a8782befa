import type { SQL } from "drizzle-orm";
import type { Db } from "./client.ts";

/** As many rows as one statement deletes or changes: D1 does nothing else meanwhile. */
export const chunk = 5000;

/** Repeats a deletion of at most `limit` rows until it finds fewer, or `atMost` are gone. */
export async function deleteInChunks(db: Db, atMost: number, deletion: (limit: number) => SQL): Promise<void> {
  for (let deleted = 0; deleted < atMost; deleted += chunk) {
    const { meta } = await db.run(deletion(chunk));
    if (meta.changes < chunk) return;
  }
}
