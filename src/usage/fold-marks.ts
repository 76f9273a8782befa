import { and, desc, eq, inArray, sql } from "drizzle-orm";
import { dayMs, dayStart, hourMs } from "../clock.ts";
import { type Db, raw } from "../db/client.ts";
import { usageMarks } from "../db/schema.ts";
import { idBound } from "../ids.ts";

/** As many hours as one call folds. A read meets one or two; more wait only after an outage, and the cron job takes them. */
const marksAtOnce = 96;

/**
 * Brings usage up to the log: each marked hour is computed anew from its entries, then its day from its hours, so that
 * repeated, overlapping and late batches count each entry exactly once. `accountId` null: the marks of all accounts.
 * Answers how many it folded: 0 where nothing is left.
 */
export async function foldMarks(db: Db, accountId: string | null): Promise<number> {
  const marks = await db
    .select()
    .from(usageMarks)
    .where(accountId === null ? undefined : eq(usageMarks.accountId, accountId))
    .orderBy(desc(usageMarks.hour))
    .limit(marksAtOnce);
  const byDay = Map.groupBy(marks, (mark) => `${mark.accountId} ${dayStart(mark.hour)}`);
  for (const ofDay of byDay.values())
    await foldDay(
      db,
      ofDay[0]?.accountId ?? "",
      ofDay.map((mark) => mark.hour),
    );
  return marks.length;
}

/** Folds marked hours of one account and day, and the day, in one transaction. */
async function foldDay(db: Db, accountId: string, hours: number[]): Promise<void> {
  const day = dayStart(hours[0] ?? 0);
  await db.batch([
    db.delete(usageMarks).where(and(eq(usageMarks.accountId, accountId), inArray(usageMarks.hour, hours))),
    ...hours.map((hour) => raw(db, hourFromLog(accountId, hour))),
    raw(db, dayFromHours(accountId, day)),
  ]);
}

const roundedDuration = sql.raw(`CASE
  WHEN duration_ms < 100 THEN duration_ms
  WHEN duration_ms < 1000 THEN (duration_ms + 5) / 10 * 10
  WHEN duration_ms < 10000 THEN (duration_ms + 50) / 100 * 100
  WHEN duration_ms < 100000 THEN (duration_ms + 500) / 1000 * 1000
  ELSE (duration_ms + 5000) / 10000 * 10000 END`);

const replaceWhereChanged = (table: string) =>
  sql.raw(`ON CONFLICT DO UPDATE SET requests = excluded.requests, admitted = excluded.admitted, counted = excluded.counted,
  duration_ms = excluded.duration_ms, histogram = excluded.histogram, last_id = excluded.last_id, last_path = excluded.last_path
  WHERE excluded.requests <> ${table}.requests`);

// One row per rounded duration first, then the durations of a group gathered into its histogram. With a single max() in the
// select list, SQLite takes `path` from the row that holds it.
const hourFromLog = (accountId: string, hour: number) => sql`INSERT INTO usage_hours
      SELECT account_id, ${hour}, key_id, route, status, sum(requests), sum(admitted), sum(counted), sum(duration_ms),
        json_group_object(CAST(duration AS TEXT), admitted) FILTER (WHERE admitted > 0), max(last_id), path
      FROM (
        SELECT account_id, key_id, route, status, ${roundedDuration} AS duration, sum(count) AS requests,
          sum(count * admitted) AS admitted, sum(count * counted) AS counted, sum(duration_ms * count * admitted) AS duration_ms,
          max(CASE WHEN admitted THEN id END) AS last_id, path
        FROM activity
        WHERE account_id = ${accountId} AND id >= ${idBound("req", hour)} AND id < ${idBound("req", hour + hourMs)}
        GROUP BY key_id, route, status, duration
      ) WHERE true GROUP BY key_id, route, status
      ${replaceWhereChanged("usage_hours")}`;

const dayFromHours = (accountId: string, day: number) => sql`INSERT INTO usage_days
      WITH hours AS (
        SELECT * FROM usage_hours
        WHERE account_id = ${accountId} AND start >= ${day} AND start < ${day + dayMs}
      ), durations AS (
        SELECT key_id, route, status, bucket.key AS duration, sum(bucket.value) AS admitted
        FROM hours, json_each(hours.histogram) AS bucket GROUP BY key_id, route, status, duration
      ), histograms AS (
        SELECT key_id, route, status, json_group_object(duration, admitted) AS histogram
        FROM durations GROUP BY key_id, route, status
      ), sums AS (
        SELECT key_id, route, status, sum(requests) AS requests, sum(admitted) AS admitted, sum(counted) AS counted,
          sum(duration_ms) AS duration_ms, max(last_id) AS last_id, last_path
        FROM hours GROUP BY key_id, route, status
      )
      SELECT ${accountId}, ${day}, key_id, route, status, requests, admitted, counted, duration_ms,
        coalesce(histogram, '{}'), last_id, last_path
      FROM sums LEFT JOIN histograms USING (key_id, route, status) WHERE true
      ${replaceWhereChanged("usage_days")}`;
