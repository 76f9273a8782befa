import { dayMs } from "../time/clock.ts";

/**
 * The retention of hourly roll-ups, in milliseconds. A window of 30 days and the window before it need the hourly roll-ups of 62 days. A
 * log can be kept for 90 days. Recomputing a daily roll-up requires all hourly roll-ups of that day.
 */
const hourRetentionMs = 93 * dayMs;
const dayRetentionMs = 400 * dayMs;

/** The maximum number of hours or days whose rows one statement deletes. */
const partsAtOnce = 100;

/**
 * Deletes hourly roll-ups after 93 days and daily roll-ups after 400 days. No page or API response shows older roll-ups. Deletes at most
 * 100 hours and 100 days per call. Returns whether more old roll-ups may be left.
 */
export async function deleteOldUsage(d1: D1Database, accountIds: readonly string[], now: number): Promise<boolean> {
  const ids = JSON.stringify(accountIds);
  const deletion = (sql: string, keptMs: number) => d1.prepare(sql).bind(ids, now - keptMs);
  const [, hours, , days] = await d1.batch<{ parts: number }>([
    deletion(deleteTotals("usage_hour_totals", "usage_hours"), hourRetentionMs),
    deletion(deleteRows("usage_hours"), hourRetentionMs),
    deletion(deleteTotals("usage_day_totals", "usage_days"), dayRetentionMs),
    deletion(deleteRows("usage_days"), dayRetentionMs),
  ]);
  // Each hour or day has at least one row. If fewer than `partsAtOnce` rows were deleted, nothing is left to delete.
  return [hours, days].some((outcome) => (outcome?.meta.changes ?? 0) >= partsAtOnce);
}

const oldParts = (table: string) => `SELECT DISTINCT account_id, start FROM json_each(?1) AS due
  CROSS JOIN ${table} ON account_id = due.value AND start < ?2 LIMIT ${partsAtOnce}`;

// For each hour or day, `totals` has one row for each key, and one row with an empty key id for all keys together. The totals are deleted
// before the rows in the table `rows`, because those rows say which keys had requests. With a UNION instead of `json_each`, the query would
// scan the whole table.
const deleteTotals = (totals: string, rows: string) => `DELETE FROM ${totals} WHERE (account_id, key_id, start) IN (
  WITH old AS (${oldParts(rows)})
  SELECT account_id, iif(of_all.value, '', key_id), start FROM old CROSS JOIN ${rows} USING (account_id, start), json_each('[0,1]') AS of_all)`;

const deleteRows = (table: string) => `DELETE FROM ${table} WHERE (account_id, start) IN (${oldParts(table)})`;
