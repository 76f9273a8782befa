import { rowsAtOnce } from "../db/delete-in-chunks.ts";
import { idBound } from "../ids/ids.ts";
import { dayMs, hourStart } from "../time/clock.ts";
import { deleteOldBuckets, deleteOldMarks } from "../usage/dirty-buckets.ts";

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

/**
 * Five-minute buckets are kept one day longer than entries. If an hour is recomputed, all five-minute buckets of that hour therefore still
 * exist.
 */
const bucketsLongerMs = dayMs;

export interface Retention {
  accountId: string;
  days: number;
}

/**
 * Deletes entries whose retention has ended, in whole hours. Deletes five-minute buckets one day later. Before entries are deleted, the
 * start of their log is raised. One call deletes at most 5,000 entries and 5,000 buckets. Returns the number of deleted entries. `hasMore`:
 * whether there may be more entries or buckets to delete.
 */
export async function deleteOldEntries(
  d1: D1Database,
  retentions: readonly Retention[],
  now: number,
): Promise<{ entries: number; hasMore: boolean }> {
  const bounds = retentions.map(({ accountId, days }) => {
    const startsAt = hourStart(now - days * dayMs);
    return [accountId, startsAt, idBound("req", startsAt), startsAt - bucketsLongerMs] as const;
  });
  const [, , ...deleted] = await d1.batch(deletions.map((sql) => d1.prepare(sql).bind(JSON.stringify(bounds))));
  const [entries = 0, buckets = 0] = deleted.map(({ meta }) => meta.changes);
  return { entries, hasMore: entries === rowsAtOnce || buckets === rowsAtOnce };
}

const due = "json_each(?) AS due CROSS JOIN";

const deletions = [
  // Only logs with entries to delete get a new start, because D1 bills every written row.
  `INSERT INTO log_starts (account_id, starts_at, first_id)
    SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?)
    WHERE EXISTS (SELECT 1 FROM activity WHERE account_id = value ->> 0 AND id < value ->> 2)
    ON CONFLICT DO UPDATE SET starts_at = excluded.starts_at, first_id = excluded.first_id WHERE excluded.starts_at > log_starts.starts_at`,
  deleteOldMarks,
  `DELETE FROM activity WHERE (account_id, id) IN
    (SELECT old.account_id, old.id FROM ${due} activity AS old ON old.account_id = due.value ->> 0 AND old.id < due.value ->> 2 LIMIT ${rowsAtOnce})`,
  deleteOldBuckets,
];
