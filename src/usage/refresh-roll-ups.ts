import { and, asc, eq, inArray, sql } from "drizzle-orm";
import type { Reading } from "../accounts/actor.ts";
import { dayMs, dayStart, hourMs } from "../clock.ts";
import { type Db, raw } from "../db/client.ts";
import { staleHours } from "../db/schema.ts";
import { throwTogether } from "../errors.ts";
import { idBound } from "../ids.ts";

type StaleHour = typeof staleHours.$inferSelect;

declare const upToDate: unique symbol;
/** What verbs take that read usage. Made by `refreshRollUps` alone, once for all that a response shows. */
export type UpToDate<Asked extends Reading = Reading> = Asked & { readonly [upToDate]: true };

/**
 * Brings the roll-ups of an account up to its log: each stale hour is computed anew from its entries, then its day from its
 * hours, so that repeated, overlapping and late batches count each entry exactly once.
 */
export async function refreshRollUps<Asked extends Reading>(reading: Asked): Promise<UpToDate<Asked>> {
  const { db, actor } = reading;
  await refresh(db, await db.select().from(staleHours).where(eq(staleHours.accountId, actor.accountId)));
  return reading as UpToDate<Asked>;
}

/** The same for all accounts, the oldest hours first, at most `limit` of them. */
export async function refreshOldestRollUps(db: Db, limit: number): Promise<void> {
  await refresh(db, await db.select().from(staleHours).orderBy(asc(staleHours.hour)).limit(limit));
}

async function refresh(db: Db, stale: StaleHour[]): Promise<void> {
  const byDay = Map.groupBy(stale, ({ accountId, hour }) => `${accountId} ${dayStart(hour)}`);
  const errors: unknown[] = [];
  for (const [first, ...others] of byDay.values()) {
    if (!first) continue;
    await refreshDay(db, first.accountId, [first.hour, ...others.map(({ hour }) => hour)]).catch((error: unknown) => errors.push(error));
  }
  // One day that fails does not hold up the others.
  throwTogether(errors, "the roll-ups of some days could not be refreshed");
}

/** Computes stale hours of one account and day anew, and the day, in one transaction. */
async function refreshDay(db: Db, accountId: string, hours: number[]): Promise<void> {
  const day = dayStart(hours[0] ?? 0);
  await db.batch([
    db.delete(staleHours).where(and(eq(staleHours.accountId, accountId), inArray(staleHours.hour, hours))),
    ...hours.flatMap((hour) => [
      raw(db, hourFromLog(accountId, hour)),
      raw(db, hourTotals(accountId, hour)),
      raw(db, lastUsesFromLog(accountId, hour)),
    ]),
    raw(db, dayFromHours(accountId, day)),
    raw(db, dayTotals(accountId, day)),
  ]);
}

/** Exact below 20 ms; above, ten steps for each doubling. */
const roundedDuration = sql.raw(
  `CASE WHEN duration_ms < 20 THEN duration_ms ${Array.from({ length: 20 }, (_, doublings) => {
    const step = 2 ** (doublings + 1);
    return `WHEN duration_ms < ${20 * step} THEN (duration_ms + ${step / 2}) / ${step} * ${step}`;
  }).join(" ")} ELSE duration_ms END`,
);

const replaceWhereChanged = (table: string) =>
  sql.raw(`ON CONFLICT DO UPDATE SET requests = excluded.requests, admitted = excluded.admitted, counted = excluded.counted,
  duration_ms = excluded.duration_ms WHERE excluded.requests <> ${table}.requests`);

// Columns are named, so that a Worker from before a migration goes on after it.
const rollUpColumns = sql.raw("account_id, start, key_id, route, status, requests, admitted, counted, duration_ms");
const totalColumns = sql.raw("account_id, start, key_id, by_status, histogram");

const inHour = (accountId: string, hour: number) =>
  sql`account_id = ${accountId} AND id >= ${idBound("req", hour)} AND id < ${idBound("req", hour + hourMs)}`;

const inDay = (accountId: string, day: number) => sql`account_id = ${accountId} AND start >= ${day} AND start < ${day + dayMs}`;

const sums = sql.raw("sum(requests), sum(admitted), sum(counted), sum(duration_ms)");

const hourFromLog = (accountId: string, hour: number) => sql`INSERT INTO usage_hours (${rollUpColumns})
      SELECT ${accountId}, ${hour}, key_id, route, status, sum(count), sum(count * admitted), sum(count * counted),
        sum(duration_ms * count * admitted)
      FROM activity WHERE ${inHour(accountId, hour)} GROUP BY key_id, route, status
      ${replaceWhereChanged("usage_hours")}`;

// With a single max() in the select list, SQLite takes `path` from the row that holds it.
const lastUsesFromLog = (accountId: string, hour: number) => sql`INSERT INTO key_uses (account_id, key_id, entry_id, path)
      SELECT ${accountId}, key_id, max(id), path FROM activity WHERE ${inHour(accountId, hour)} AND admitted GROUP BY key_id
      ON CONFLICT DO UPDATE SET entry_id = excluded.entry_id, path = excluded.path WHERE excluded.entry_id > key_uses.entry_id`;

const dayFromHours = (accountId: string, day: number) => sql`INSERT INTO usage_days (${rollUpColumns})
      SELECT ${accountId}, ${day}, key_id, route, status, ${sums}
      FROM usage_hours WHERE ${inDay(accountId, day)} GROUP BY key_id, route, status
      ${replaceWhereChanged("usage_days")}`;

const hourTotals = (accountId: string, hour: number) => sql`INSERT INTO usage_hour_totals (${totalColumns})
      WITH rows AS (SELECT key_id, status, requests, admitted, duration_ms FROM usage_hours WHERE account_id = ${accountId} AND start = ${hour}), durations AS (
        SELECT key_id, ${roundedDuration} AS duration, sum(count) AS admitted
        FROM activity WHERE ${inHour(accountId, hour)} AND admitted GROUP BY key_id, duration
      ) ${totals(accountId, hour)} ${replaceTotalsWhereChanged("usage_hour_totals")}`;

const dayTotals = (accountId: string, day: number) => sql`INSERT INTO usage_day_totals (${totalColumns})
      WITH rows AS (SELECT key_id, status, requests, admitted, duration_ms FROM usage_days WHERE account_id = ${accountId} AND start = ${day}), durations AS (
        SELECT key_id, CAST(bucket.key AS INTEGER) AS duration, sum(bucket.value) AS admitted
        FROM (SELECT DISTINCT key_id FROM rows) CROSS JOIN usage_hour_totals USING (key_id), json_each(histogram) AS bucket
        WHERE ${inDay(accountId, day)} GROUP BY key_id, duration
      ) ${totals(accountId, day)} ${replaceTotalsWhereChanged("usage_day_totals")}`;

const replaceTotalsWhereChanged = (table: string) =>
  sql.raw(`ON CONFLICT DO UPDATE SET by_status = excluded.by_status, histogram = excluded.histogram
  WHERE excluded.by_status <> ${table}.by_status`);

const byStatusOf = sql.raw("json_group_object(CAST(status AS TEXT), json_array(requests, admitted, duration_ms)) AS by_status");
const histogramOf = sql.raw("json_group_object(CAST(duration AS TEXT), admitted) AS histogram");

/** From the `rows` of an hour or day and its `durations`, the totals of each key and those of all of them. */
const totals = (accountId: string, start: number) => sql`, statuses AS (
        SELECT key_id, status, sum(requests) AS requests, sum(admitted) AS admitted, sum(duration_ms) AS duration_ms
        FROM rows GROUP BY key_id, status
      ), by_status AS (
        SELECT key_id, ${byStatusOf} FROM statuses GROUP BY key_id
        UNION ALL
        SELECT '', ${byStatusOf} FROM (
          SELECT status, sum(requests) AS requests, sum(admitted) AS admitted, sum(duration_ms) AS duration_ms FROM statuses GROUP BY status
        )
      ), histograms AS (
        SELECT key_id, ${histogramOf} FROM durations GROUP BY key_id
        UNION ALL
        SELECT '', ${histogramOf} FROM (SELECT duration, sum(admitted) AS admitted FROM durations GROUP BY duration)
      )
      SELECT ${accountId}, ${start}, key_id, by_status, coalesce(histogram, '{}') FROM by_status LEFT JOIN histograms USING (key_id) WHERE true`;
