import { events } from "../db/areas/events/tables.ts";
import type { Db } from "../db/client.ts";
import { deleteOlder } from "../db/delete-in-chunks.ts";
import { idBound } from "../lib/ids.ts";
import { dayMs } from "../lib/time/clock.ts";

/** The retention of events, deliveries and attempts, in milliseconds. */
export const eventRetentionMs = 30 * dayMs;

/**
 * Deletes events that are older than 30 days. Stops when `atMost` or slightly more events are deleted. Returns the number of deleted
 * events.
 */
export const deleteOldEvents = (db: Db, accountIds: readonly string[], now: number, atMost: number): Promise<number> =>
  deleteOlder(db, events, { accountIds, bound: idBound("evt", now - eventRetentionMs), atMost });
