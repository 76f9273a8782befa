import { rowsAtOnce } from "../db/delete-in-chunks.ts";
import { idBound } from "../ids/ids.ts";
import { dayMs, hourStart } from "../time/clock.ts";
import { deleteOldMarks, deleteOldSlices } from "../usage/stale-slices.ts";

/** How many days a log may be kept. */
export const keptDays = { fewest: 2, most: 90 };
/** Of the log, where the operator has not set another number. */
export const usualDays = 31;

/** How many days the log is kept where the account has no number of its own. Throws where that is not configured as a number from 2 to 90. */
export function activityDays({ ACTIVITY_DAYS = String(usualDays) }: { ACTIVITY_DAYS?: string }): number {
  const days = Number(ACTIVITY_DAYS);
  if (!Number.isInteger(days) || days < keptDays.fewest || days > keptDays.most)
    throw new Error(`ACTIVITY_DAYS must be a whole number from ${keptDays.fewest} to ${keptDays.most}`);
  return days;
}

/** Slices stay a day longer than entries: an hour that is computed anew has all of its parts. */
const slicesLongerMs = dayMs;

/** An account, and how long its log is kept. */
export interface Keeping {
  accountId: string;
  days: number;
}

/**
 * Deletes whole hours of entries past their retention, after raising the start of each log, and slices a day later. Deletes at most 5,000 rows
 * of each in one batch. Answers how many entries went, and whether more may be left of these accounts.
 */
export async function deleteOldEntries(
  d1: D1Database,
  keepings: readonly Keeping[],
  now: number,
): Promise<{ entries: number; hasMore: boolean }> {
  const bounds = keepings.map(({ accountId, days }) => {
    const startsAt = hourStart(now - days * dayMs);
    return [accountId, startsAt, idBound("req", startsAt), startsAt - slicesLongerMs] as const;
  });
  const [, , ...deleted] = await d1.batch(deletions.map((sql) => d1.prepare(sql).bind(JSON.stringify(bounds))));
  const [entries = 0, slices = 0] = deleted.map(({ meta }) => meta.changes);
  return { entries, hasMore: entries === rowsAtOnce || slices === rowsAtOnce };
}

const due = "json_each(?) AS due CROSS JOIN";

const deletions = [
  // Only where entries go: what D1 does not write costs nothing.
  `INSERT INTO log_starts (account_id, starts_at, first_id)
    SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?)
    WHERE EXISTS (SELECT 1 FROM activity WHERE account_id = value ->> 0 AND id < value ->> 2)
    ON CONFLICT DO UPDATE SET starts_at = excluded.starts_at, first_id = excluded.first_id WHERE excluded.starts_at > log_starts.starts_at`,
  deleteOldMarks,
  `DELETE FROM activity WHERE (account_id, id) IN
    (SELECT old.account_id, old.id FROM ${due} activity AS old ON old.account_id = due.value ->> 0 AND old.id < due.value ->> 2 LIMIT ${rowsAtOnce})`,
  deleteOldSlices,
];
