import { dayMs } from "../time/clock.ts";

/**
 * How long the roll-ups of hours are kept, in milliseconds. Two windows of 30 days need the hours of 62 days. A log can be kept for 90 days, and
 * recomputing a day needs all of its hours.
 */
const hourRetentionMs = 93 * dayMs;
const dayRetentionMs = 400 * dayMs;

/** The maximum number of hours or days that one statement deletes, with all of their rows. */
const partsAtOnce = 100;

/**
 * Deletes roll-ups that no page or API call shows any more: hours after 93 days and days after 400 days. Deletes at most 100 hours and 100 days per
 * call. Returns whether more may be left.
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
  // Each hour or day has at least one row, so nothing is left if fewer than `partsAtOnce` rows were deleted.
  return [hours, days].some((outcome) => (outcome?.meta.changes ?? 0) >= partsAtOnce);
}

const oldParts = (table: string) => `SELECT DISTINCT account_id, start FROM json_each(?1) AS due
  CROSS JOIN ${table} ON account_id = due.value AND start < ?2 LIMIT ${partsAtOnce}`;

// Totals are stored for each key. The totals of all keys together have an empty key id. Totals are deleted before the rows, because the rows say
// which keys had requests. A UNION instead of `json_each` would scan the whole table.
const deleteTotals = (totals: string, rows: string) => `DELETE FROM ${totals} WHERE (account_id, key_id, start) IN (
  WITH old AS (${oldParts(rows)})
  SELECT account_id, iif(of_all.value, '', key_id), start FROM old CROSS JOIN ${rows} USING (account_id, start), json_each('[0,1]') AS of_all)`;

const deleteRows = (table: string) => `DELETE FROM ${table} WHERE (account_id, start) IN (${oldParts(table)})`;
