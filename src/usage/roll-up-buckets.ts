import { idBound } from "../ids/ids.ts";
import { bucketMs, dayMs, dayStart, hourMs, hourStart } from "../time/clock.ts";

// Roll-ups count each log entry exactly once, even if batches of log entries repeat, overlap or arrive late. A bucket is five minutes of an
// account's log. A bucket is dirty if its entries changed after its last roll-up. The table `usage_slices` contains the roll-ups of
// buckets, and the table `stale_slices` contains the dirty buckets. A roll-up recomputes a bucket from its log entries. The hour is then
// recomputed from its buckets, and the day is recomputed from its hours. The D1 batch that rolls up a bucket also deletes the dirty mark of
// the bucket. Counts are always recomputed, never incremented.

/** A five-minute bucket of an account's log. The bucket starts at `start`. */
export interface Bucket {
  accountId: string;
  start: number;
}

/** The maximum number of buckets that one batch rolls up. D1 does nothing else while the batch runs. */
export const bucketsAtOnce = 50;

/** Returns dirty buckets of an account, latest first. */
export const dirtyBucketsOf = (d1: D1Database, accountId: string, limit: number): Promise<Bucket[]> =>
  buckets(d1.prepare("SELECT account_id, start FROM stale_slices WHERE account_id = ? ORDER BY start DESC LIMIT ?").bind(accountId, limit));

/** Returns dirty buckets of a log writer that start before `before`, oldest first. */
export const dirtyBucketsOfWriter = (d1: D1Database, writer: number, before: number, limit: number): Promise<Bucket[]> =>
  buckets(
    d1
      .prepare("SELECT account_id, start FROM stale_slices WHERE writer = ? AND start < ? ORDER BY start, account_id LIMIT ?")
      .bind(writer, before, limit),
  );

async function buckets(statement: D1PreparedStatement): Promise<Bucket[]> {
  const { results } = await statement.all<{ account_id: string; start: number }>();
  return results.map(({ account_id, start }) => ({ accountId: account_id, start }));
}

/**
 * Rolls up dirty buckets. The buckets may belong to different accounts. Returns the longer of two times, in milliseconds: the time that D1
 * reports, and the elapsed time.
 */
export async function rollUpBuckets(d1: D1Database, dirty: readonly Bucket[]): Promise<number> {
  const parts = {
    buckets: JSON.stringify(
      dirty.map(({ accountId, start }) => [accountId, start, idBound("req", start), idBound("req", start + bucketMs)] as const),
    ),
    hours: startsOf(dirty, hourStart),
    days: startsOf(dirty, dayStart),
  };
  const startedAt = Date.now();
  const outcomes = await d1.batch(statements.map(([over, sql]) => d1.prepare(sql).bind(parts[over])));
  const ofStatements = outcomes.reduce((sum, { meta }) => sum + meta.duration, 0);
  return Math.max(ofStatements, Date.now() - startedAt);
}

/** The maximum number of buckets that a reader waits for. The alarm of the log writer rolls up the remaining buckets. */
const maxBuckets = 1000;

/**
 * Rolls up the dirty buckets of an account, latest first. Returns the time that D1 spent on the batches, in milliseconds, without the
 * network time.
 */
export async function rollUpAccount(d1: D1Database, accountId: string): Promise<number> {
  const startedAt = Date.now();
  const dirty = await dirtyBucketsOf(d1, accountId, maxBuckets);
  const wayMs = Date.now() - startedAt;
  let tookMs = 0;
  for (let from = 0; from < dirty.length; from += bucketsAtOnce)
    tookMs += Math.max(0, (await rollUpBuckets(d1, dirty.slice(from, from + bucketsAtOnce))) - wayMs);
  return tookMs;
}

/** Returns the hours or days that contain the buckets, as JSON. Each hour or day occurs only once. */
function startsOf(dirty: readonly Bucket[], startOf: (timeMs: number) => number): string {
  const starts = dirty.map(({ accountId, start }) => [accountId, startOf(start)] as const);
  return JSON.stringify([...new Map(starts.map((each) => [each.join(" "), each])).values()]);
}

/**
 * The SQL that rounds a duration. Durations below 20 ms stay exact. There are ten rounded values between 20 and 40 ms, ten between 40 and
 * 80 ms, and so on.
 */
const roundedDuration = `CASE WHEN duration_ms < 20 THEN duration_ms ${Array.from({ length: 20 }, (_, doublings) => {
  const step = 2 ** (doublings + 1);
  return `WHEN duration_ms < ${20 * step} THEN (duration_ms + ${step / 2}) / ${step} * ${step}`;
}).join(" ")} ELSE duration_ms END`;

// INSERT statements name these columns. A Worker of an older release therefore keeps working after a migration.
const rollUpColumns = "account_id, start, key_id, route, status, requests, admitted, counted, duration_ms";

/**
 * Returns an upsert clause. If the number of requests in a row is unchanged, the clause skips the row, because D1 bills each written row.
 */
const replaceWhereChanged = (table: string, further: readonly string[] = []) =>
  `ON CONFLICT DO UPDATE SET ${["requests", "admitted", "counted", "duration_ms", ...further].map((name) => `${name} = excluded.${name}`).join(", ")}
    WHERE excluded.requests <> ${table}.requests`;

/**
 * Returns an SQL condition that is true if a bucket, hour or day ends after the start of the account's log. Older roll-ups are not
 * recomputed, because some of the data for them is already deleted.
 */
const isWhole = (part: string, lengthMs: number) =>
  `${part}.value ->> 1 > coalesce((SELECT starts_at FROM log_starts WHERE log_starts.account_id = ${part}.value ->> 0), 0) - ${lengthMs}`;

// If a SELECT contains max() only once, SQLite takes the other columns from the row with the maximum. Here, SQLite takes the path from that
// row.
const bucketsFromLog = `INSERT INTO usage_slices (${rollUpColumns}, durations, last_id, last_path)
  SELECT account_id, start, key_id, route, status, sum(requests), sum(admitted), sum(counted), sum(duration_ms),
    json_group_object(CAST(duration AS TEXT), admitted) FILTER (WHERE admitted > 0), max(last_id), last_path
  FROM (
    SELECT dirty.value ->> 0 AS account_id, dirty.value ->> 1 AS start, key_id, route, status, ${roundedDuration} AS duration,
      sum(count) AS requests, sum(count * admitted) AS admitted, sum(count * counted) AS counted,
      sum(duration_ms * count * admitted) AS duration_ms, max(iif(admitted, activity.id, NULL)) AS last_id, activity.path AS last_path
    FROM json_each(?) AS dirty
    CROSS JOIN activity ON activity.account_id = dirty.value ->> 0 AND activity.id >= dirty.value ->> 2 AND activity.id < dirty.value ->> 3
    WHERE ${isWhole("dirty", bucketMs)}
    GROUP BY 1, 2, key_id, route, status, duration
  )
  WHERE true GROUP BY account_id, start, key_id, route, status
  ${replaceWhereChanged("usage_slices", ["durations", "last_id", "last_path"])}`;

const lastUses = `INSERT INTO key_uses (account_id, key_id, entry_id, path)
  SELECT account_id, key_id, max(last_id), last_path
  FROM json_each(?) AS dirty CROSS JOIN usage_slices ON usage_slices.account_id = dirty.value ->> 0 AND usage_slices.start = dirty.value ->> 1
  WHERE last_id IS NOT NULL GROUP BY account_id, key_id
  ON CONFLICT DO UPDATE SET entry_id = excluded.entry_id, path = excluded.path WHERE excluded.entry_id > key_uses.entry_id`;

/** Returns the SQL that joins the given hours or days with their rows in `table`. `part.value` holds the account and the start of the hour or day. */
const within = (table: string, lengthMs: number) => `json_each(?1) AS part
    CROSS JOIN ${table} AS own ON own.account_id = part.value ->> 0 AND own.start >= part.value ->> 1 AND own.start < part.value ->> 1 + ${lengthMs}`;

const sumUp = (to: string, from: string, lengthMs: number) => `INSERT INTO ${to} (${rollUpColumns})
  SELECT part.value ->> 0, part.value ->> 1, key_id, route, status, sum(requests), sum(admitted), sum(counted), sum(duration_ms)
  FROM ${within(from, lengthMs)} WHERE ${isWhole("part", lengthMs)} GROUP BY 1, 2, key_id, route, status
  ${replaceWhereChanged(to)}`;

const byStatusOf = "json_group_object(CAST(status AS TEXT), json_array(requests, admitted, duration_ms))";
const histogramOf = "json_group_object(CAST(duration AS TEXT), admitted)";
const sums = "sum(requests) AS requests, sum(admitted) AS admitted, sum(duration_ms) AS duration_ms";

/**
 * `durationsOfHours` adds up the histograms of the buckets of an hour. `durationsOfDays` adds up the histograms of the hours of a day.
 * `durationsOfDays` looks up the hours of each API key separately.
 */
const durationsOfHours = `SELECT part.value ->> 0 AS account_id, part.value ->> 1 AS start, key_id, CAST(bucket.key AS INTEGER) AS duration, sum(bucket.value) AS admitted
    FROM ${within("usage_slices", hourMs)}, json_each(own.durations) AS bucket GROUP BY 1, 2, key_id, duration`;
const durationsOfDays = `SELECT account_id, keys.start, key_id, CAST(bucket.key AS INTEGER) AS duration, sum(bucket.value) AS admitted
    FROM (SELECT DISTINCT account_id, start, key_id FROM statuses) AS keys
    CROSS JOIN usage_hour_totals AS own USING (account_id, key_id), json_each(own.histogram) AS bucket
    WHERE own.start >= keys.start AND own.start < keys.start + ${dayMs} GROUP BY account_id, keys.start, key_id, duration`;

/**
 * Returns the SQL that writes the totals of each key. The SQL also writes the totals of all keys together, with an empty key id. The counts
 * come from the table `from`, and the durations come from the query `durations`.
 */
const totals = (
  to: string,
  from: string,
  durations: string,
  lengthMs: number,
) => `INSERT INTO ${to} (account_id, start, key_id, by_status, histogram)
  WITH statuses AS (
    SELECT part.value ->> 0 AS account_id, part.value ->> 1 AS start, key_id, status, ${sums}
    FROM json_each(?1) AS part CROSS JOIN ${from} AS own ON own.account_id = part.value ->> 0 AND own.start = part.value ->> 1
    WHERE ${isWhole("part", lengthMs)} GROUP BY 1, 2, key_id, status
  ), by_status AS (
    SELECT account_id, start, key_id, ${byStatusOf} AS by_status FROM statuses GROUP BY account_id, start, key_id
    UNION ALL
    SELECT account_id, start, '', ${byStatusOf} FROM (SELECT account_id, start, status, ${sums} FROM statuses GROUP BY account_id, start, status)
    GROUP BY account_id, start
  ), durations AS (
    ${durations}
  ), histograms AS (
    SELECT account_id, start, key_id, ${histogramOf} AS histogram FROM durations GROUP BY account_id, start, key_id
    UNION ALL
    SELECT account_id, start, '', ${histogramOf} FROM
      (SELECT account_id, start, duration, sum(admitted) AS admitted FROM durations GROUP BY account_id, start, duration)
    GROUP BY account_id, start
  )
  SELECT account_id, start, key_id, by_status, coalesce(histogram, '{}') FROM by_status LEFT JOIN histograms USING (account_id, start, key_id) WHERE true
  ON CONFLICT DO UPDATE SET by_status = excluded.by_status, histogram = excluded.histogram WHERE excluded.by_status <> ${to}.by_status`;

const unmark = `DELETE FROM stale_slices WHERE (account_id, start) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?))`;

/**
 * The statements that roll up buckets, in order. Each entry has a statement and the name of the list that is the parameter of the
 * statement.
 */
const statements = [
  ["buckets", bucketsFromLog],
  ["buckets", lastUses],
  ["hours", sumUp("usage_hours", "usage_slices", hourMs)],
  ["hours", totals("usage_hour_totals", "usage_hours", durationsOfHours, hourMs)],
  ["days", sumUp("usage_days", "usage_hours", dayMs)],
  ["days", totals("usage_day_totals", "usage_days", durationsOfDays, dayMs)],
  ["buckets", unmark],
] as const;
