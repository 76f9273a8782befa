import { sql } from "drizzle-orm";
import { dayMs } from "../clock.ts";
import type { Db } from "../db/client.ts";
import { deleteInChunks } from "../db/delete-in-chunks.ts";
import { idBound } from "../ids.ts";

/** How long events, deliveries and attempts are kept. */
export const eventsKeptMs = 30 * dayMs;

/** Deletes events of an account that are older than 30 days, in bounded chunks. */
export function deleteOldEvents(db: Db, accountId: string, now: number, atMost: number): Promise<void> {
  const oldest = idBound("evt", now - eventsKeptMs);
  return deleteInChunks(
    db,
    atMost,
    (limit) => sql`DELETE FROM events WHERE account_id = ${accountId}
      AND id IN (SELECT id FROM events WHERE account_id = ${accountId} AND id < ${oldest} ORDER BY id LIMIT ${limit})`,
  );
}
