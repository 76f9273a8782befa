import { sql } from "drizzle-orm";
import type { Db } from "../db/client.ts";
import { dayStart, monthStart } from "../lib/time/clock.ts";
import type { HourlyRollups } from "../usage/rollups.ts";
import type { AccountInTraffic } from "./accounts-in-traffic.ts";
import { flushesIn, flushesQuery, type LogsContext, readLogs, type Stored, total } from "./read-logs.ts";

// Finds the accounts and keys that are near a limit per hour, day or month, from the figures of the log. Limits per second and minute refill too quickly for
// such a list. A request that costs several units counts as one.

type Per = "hour" | "day" | "month";

/** A limit of a key, or a limit that all keys of an account share. In that case, `keyId` is null. */
export interface NearestLimit {
  keyId: string | null;
  per: Per;
  /** How much of the limit is used, in percent. */
  percent: number;
}

/** The counted requests of a key in the current hour, day or month. */
export interface Use {
  id: string;
  keyId: string;
  counted: number;
}

/** The counted requests of a key in the current day and month. */
interface LongUse {
  id: string;
  keyId: string;
  ofDay: number;
  ofMonth: number;
}

type Limit = { per: string; limit: number };

/** Returns the counted requests of each key since `from` that D1 does not have. */
export const usesIn = (id: string, hours: HourlyRollups, from: number): Use[] =>
  [...hours]
    .filter(([start]) => start >= from)
    .flatMap(([, rollups]) => [...rollups].map(([keyId, { cells }]) => ({ id, keyId, counted: total([...cells.values()], "counted") })));

/**
 * Returns for each account the limit of a key with the highest used share, and the same of the limits that all keys share. The higher share is first. Limits
 * of keys are considered for the keys in `hourly`, which are the keys with requests in the current hour.
 */
export async function nearestLimits(
  context: LogsContext,
  accounts: readonly AccountInTraffic[],
  hourly: readonly Use[],
  now: number,
): Promise<Map<string, NearestLimit[]>> {
  const limits = await limitsOf(context.db, [...new Set(hourly.map(({ keyId }) => keyId))]);
  const usedIn = Map.groupBy(hourly, ({ id }) => id);
  const isLong = ({ per }: Limit) => per === "day" || per === "month";
  const withLong = accounts.filter(
    ({ id, sharedLimits }) => sharedLimits.some(isLong) || usedIn.get(id)?.some(({ keyId }) => limits.get(keyId)?.some(isLong)),
  );
  const { ofDay, ofMonth } = await readLongUses(context, withLong, now);
  const usedPer = { hour: usedIn, day: Map.groupBy(ofDay, ({ id }) => id), month: Map.groupBy(ofMonth, ({ id }) => id) };
  const nearest = accounts.map(({ id, sharedLimits }) => {
    const sharesOf = (keyId: string | null, limitsOfIt: readonly Limit[]): NearestLimit[] =>
      limitsOfIt.flatMap(({ per, limit }) => {
        if (!isPer(per)) return [];
        const uses = (usedPer[per].get(id) ?? []).filter((use) => keyId === null || use.keyId === keyId);
        return [{ keyId, per, percent: (100 * total(uses, "counted")) / limit }];
      });
    const keys = new Set((usedIn.get(id) ?? []).map(({ keyId }) => keyId));
    const ofKeys = [...keys].flatMap((keyId) => sharesOf(keyId, limits.get(keyId) ?? []));
    const highest = [ofKeys, sharesOf(null, sharedLimits)].flatMap((each) => byShare(each).slice(0, 1));
    return [id, byShare(highest.filter(({ percent }) => percent > 0))] as const;
  });
  return new Map(nearest);
}

const byShare = (limits: readonly NearestLimit[]): NearestLimit[] => limits.toSorted((one, other) => other.percent - one.percent);

const isPer = (per: string): per is Per => per === "hour" || per === "day" || per === "month";

async function readLongUses(
  context: LogsContext,
  accounts: readonly AccountInTraffic[],
  now: number,
): Promise<{ ofDay: Use[]; ofMonth: Use[] }> {
  if (accounts.length === 0) return { ofDay: [], ofMonth: [] };
  const { stored, missing } = await readLogs(context, accounts, (ids) => readStored(context.activity, ids, now));
  const later = (from: number) => missing.flatMap(([id, hours]) => usesIn(id, hours, from));
  return {
    ofDay: [...stored.uses.map(({ id, keyId, ofDay }) => ({ id, keyId, counted: ofDay })), ...later(dayStart(now))],
    ofMonth: [...stored.uses.map(({ id, keyId, ofMonth }) => ({ id, keyId, counted: ofMonth })), ...later(monthStart(now))],
  };
}

async function readStored(activity: D1Database, ids: string, now: number): Promise<Stored & { uses: LongUse[] }> {
  const [logs, days] = await activity.batch([
    flushesQuery(activity, ids),
    activity
      .prepare(
        `SELECT account_id AS id, rollup.value ->> 0 AS keyId, sum(iif(day.start = ?2, cell.value ->> 3, 0)) AS ofDay, sum(cell.value ->> 3) AS ofMonth
        FROM json_each(?1) AS account CROSS JOIN day_totals AS day ON day.account_id = account.value AND day.start >= ?3, json_each(day.keys) AS rollup,
          json_each(rollup.value, '$[2]') AS cell GROUP BY 1, 2`,
      )
      .bind(ids, dayStart(now), monthStart(now)),
  ]);
  return { uses: (days?.results ?? []) as LongUse[], flushes: flushesIn(logs) };
}

async function limitsOf(db: Db, keyIds: readonly string[]): Promise<Map<string, Limit[]>> {
  const rows = await db.all<{ id: string; hourly: number; others: string }>(
    sql`SELECT id, hourly_limit AS hourly, other_limits AS others FROM api_keys WHERE id IN (SELECT value FROM json_each(${JSON.stringify(keyIds)}))`,
  );
  return new Map(rows.map(({ id, hourly, others }) => [id, [{ per: "hour", limit: hourly }, ...(JSON.parse(others) as Limit[])]]));
}
