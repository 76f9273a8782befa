import type { SQL } from "drizzle-orm";
import type { Db } from "./client.ts";

const chunk = 5000;
/** Of one deletion in a run. What a run does not reach, the next ones do. */
const mostChunks = 100;

/** Repeats a deletion of at most `limit` rows until it finds fewer, or the run has had its share. */
export async function deleteInChunks(db: Db, deletion: (limit: number) => SQL): Promise<void> {
  for (let chunks = 0; chunks < mostChunks; chunks++) {
    const { meta } = await db.run(deletion(chunk));
    if (meta.changes < chunk) return;
  }
}
