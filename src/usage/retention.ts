import { dayMs } from "../lib/time/clock.ts";

/** The retention of hourly totals, in milliseconds. A window of 30 days and the window before it need the hourly totals of 62 days. */
const hourRetentionMs = 62 * dayMs;
const dayRetentionMs = 400 * dayMs;

/** The maximum number of rows that one statement deletes. */
const rowsAtOnce = 100;

/**
 * Deletes hourly totals after 62 days and daily totals after 400 days. No page or API response shows older totals. Deletes at most 100 hours
 * and 100 days per call. Returns whether more old totals may be left.
 */
export async function deleteOldUsage(d1: D1Database, accountIds: readonly string[], now: number): Promise<boolean> {
  const ids = JSON.stringify(accountIds);
  const deletion = (table: string, retentionMs: number) =>
    d1
      .prepare(
        `DELETE FROM ${table} WHERE (account_id, start, part) IN (SELECT account_id, start, part FROM json_each(?1) AS due
          CROSS JOIN ${table} ON account_id = due.value AND start < ?2 LIMIT ${rowsAtOnce})`,
      )
      .bind(ids, now - retentionMs);
  const outcomes = await d1.batch([deletion("hour_totals", hourRetentionMs), deletion("day_totals", dayRetentionMs)]);
  return outcomes.some(({ meta }) => meta.changes >= rowsAtOnce);
}
