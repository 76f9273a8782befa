import { sql } from "drizzle-orm";
import { type Db, newRevision, raw } from "../db/client.ts";
import { idBound } from "../ids/ids.ts";
import { dayMs, hourStart } from "../time/clock.ts";
import type { AccountLogs } from "./log-writer/account-logs.ts";
import { hasNoSegments, joinSegments } from "./segments/segment-ids.ts";

/** The minimum and maximum retention of a log, in days. */
export const retentionDays = { min: 2, max: 90 };
/** The default retention of the log, in days. The operator can configure another number. */
export const defaultDays = 31;

/**
 * Returns the log retention of accounts that have no retention of their own, in days. Throws if `ACTIVITY_DAYS` is not a whole number from
 * 2 to 90.
 */
export function activityDays({ ACTIVITY_DAYS = String(defaultDays) }: { ACTIVITY_DAYS?: string }): number {
  const days = Number(ACTIVITY_DAYS);
  if (!Number.isInteger(days) || days < retentionDays.min || days > retentionDays.max)
    throw new Error(`ACTIVITY_DAYS must be a whole number from ${retentionDays.min} to ${retentionDays.max}`);
  return days;
}

export interface Retention {
  accountId: string;
  days: number;
}

/** The maximum number of segments that one call deletes. */
const segmentsAtOnce = 500;

/**
 * Raises the starts of logs, and deletes the segments that end before the start. A segment covers at most a day, so an entry is stored for at most a
 * day longer than its retention. Readers do not show entries from before the start. Returns whether there may be more segments to delete.
 */
export async function deleteOldSegments(
  { db, logs, now }: { db: Db; logs: AccountLogs; now: number },
  retentions: readonly Retention[],
): Promise<boolean> {
  const starts = retentions.map(({ accountId, days }) => [accountId, idBound("req", hourStart(now - days * dayMs))] as const);
  for (const [accountId, startId] of starts) logs.raiseStart(accountId, startId);
  const due = JSON.stringify(starts);
  const old = (columns: string) => sql`SELECT ${sql.raw(columns)} FROM json_each(${due}) AS due
    CROSS JOIN activity_logs AS log ON log.account_id = due.value ->> 0
    ${joinSegments}`;
  const [, deleted] = await db.batch([
    // The new revision keeps a merge that has already read the segments from writing them again. A log gets a new revision only if it has something
    // to delete or to hide, because D1 bills each written row.
    raw(
      db,
      sql`UPDATE activity_logs SET revision = ${newRevision()}, start_id = max(start_id, due.value ->> 1) FROM json_each(${due}) AS due
        WHERE activity_logs.account_id = due.value ->> 0 AND activity_logs.number IN (
          ${old("log.number")} WHERE segment.first_id < due.value ->> 1 AND (log.start_id < due.value ->> 1 OR segment.last_id < due.value ->> 1))`,
    ),
    raw<{ id: number }>(
      db,
      sql`DELETE FROM activity_segments WHERE id IN (${old("segment.id")} WHERE segment.last_id < due.value ->> 1 LIMIT ${segmentsAtOnce})
        RETURNING id`,
    ),
  ]);
  return deleted.length === segmentsAtOnce;
}

/** Deletes some segments of an erased account, and at last its log. Returns the number of deleted entries, or null if nothing is left. */
export async function eraseSegments(db: Db, accountId: string): Promise<number | null> {
  const [deleted, , gone] = await db.batch([
    raw<{ entries: number }>(
      db,
      sql`DELETE FROM activity_segments WHERE id IN (SELECT segment.id FROM activity_logs AS log
          ${joinSegments}
          WHERE log.account_id = ${accountId} LIMIT ${segmentsAtOnce}) RETURNING entries`,
    ),
    raw(db, sql`DELETE FROM activity_logs AS log WHERE account_id = ${accountId} AND ${hasNoSegments}`),
    raw<{ left: number }>(db, sql`SELECT count(*) AS left FROM activity_logs WHERE account_id = ${accountId}`),
  ]);
  const entries = deleted.reduce((sum, segment) => sum + segment.entries, 0);
  return entries === 0 && gone[0]?.left === 0 ? null : entries;
}
