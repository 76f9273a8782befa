import { sql } from "drizzle-orm";
import type { Db } from "../db/client.ts";
import { deleteInChunks } from "../db/delete-in-chunks.ts";
import { idBound } from "../lib/ids.ts";
import { dayMs } from "../lib/time/clock.ts";

/** The retention of events, deliveries and attempts, in milliseconds. */
export const eventRetentionMs = 30 * dayMs;

/**
 * Deletes events that are older than 30 days. Stops when `atMost` or slightly more events are deleted. Returns the number of deleted
 * events.
 */
export const deleteOldEvents = (db: Db, accountIds: readonly string[], now: number, atMost: number): Promise<number> =>
  deleteInChunks(
    db,
    atMost,
    (limit) => sql`DELETE FROM events WHERE rowid IN (SELECT events.rowid FROM json_each(${JSON.stringify(accountIds)}) AS due
      CROSS JOIN events ON events.account_id = due.value AND events.id < ${idBound("evt", now - eventRetentionMs)} LIMIT ${limit})`,
  );
