import { dayMs } from "../time/clock.ts";

/** Two windows of thirty days need 62; a day that is computed anew needs all its hours, and a log may be kept for 90 days. */
const hoursKeptMs = 93 * dayMs;
const daysKeptMs = 400 * dayMs;

/** As many hours or days of accounts as one statement deletes, with all rows of each. */
const partsAtOnce = 100;

/**
 * Deletes roll-ups of accounts that no page or call shows any more: hours after 93 days, days after 400, a hundred of each at most. Answers
 * whether more may be left.
 */
export async function deleteOldUsage(d1: D1Database, accountIds: readonly string[], now: number): Promise<boolean> {
  const ids = JSON.stringify(accountIds);
  const deletion = (sql: string, keptMs: number) => d1.prepare(sql).bind(ids, now - keptMs);
  const [, hours, , days] = await d1.batch<{ parts: number }>([
    deletion(deleteTotals("usage_hour_totals", "usage_hours"), hoursKeptMs),
    deletion(deleteRows("usage_hours"), hoursKeptMs),
    deletion(deleteTotals("usage_day_totals", "usage_days"), daysKeptMs),
    deletion(deleteRows("usage_days"), daysKeptMs),
  ]);
  // One row of a part at least.
  return [hours, days].some((outcome) => (outcome?.meta.changes ?? 0) >= partsAtOnce);
}

const oldParts = (table: string) => `SELECT DISTINCT account_id, start FROM json_each(?1) AS due
  CROSS JOIN ${table} ON account_id = due.value AND start < ?2 LIMIT ${partsAtOnce}`;

// Totals lie by key, and by the empty one for all of them: which keys there were, the rows say. So they go first. (A UNION would scan the table.)
const deleteTotals = (totals: string, rows: string) => `DELETE FROM ${totals} WHERE (account_id, key_id, start) IN (
  WITH old AS (${oldParts(rows)})
  SELECT account_id, iif(of_all.value, '', key_id), start FROM old CROSS JOIN ${rows} USING (account_id, start), json_each('[0,1]') AS of_all)`;

const deleteRows = (table: string) => `DELETE FROM ${table} WHERE (account_id, start) IN (${oldParts(table)})`;
