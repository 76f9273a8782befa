import { sql } from "drizzle-orm";
import type { StoredKey, Totals } from "../db/areas/usage/log-tables.ts";
import { raw } from "../db/client.ts";
import { getOrInsert } from "../lib/get-or-insert.ts";
import { dayStart } from "../lib/time/clock.ts";
import type { LogReadContext } from "./log-context.ts";
import { addRollups, addTotals, noTotals, type Rollups, rollupsFrom, totalsOf } from "./rollups.ts";
import { flushOf, readWithOpen, type UsageSnapshot } from "./usage-snapshot.ts";
import { daysAndEdges, type Span } from "./windows.ts";

/** The requests of one UTC hour or day. */
export interface Period {
  /** The start of the hour or day, in milliseconds since the epoch. */
  start: number;
  /** The totals of the account, or of the wanted key. */
  totals: Totals;
  /** The rollups of the wanted keys. Empty if no keys are wanted. */
  rollups: Rollups;
}

/** Hours or days to read. `keys`: "none", "all", or the id of one key. */
export interface Wanted {
  by: "hour" | "day";
  spans: readonly Span[];
  keys: "none" | "all" | { id: string };
}

/** Returns the days of a span, and the hours before and after these days. */
export function daysAndHoursOf(span: Span, keys: Wanted["keys"]): Wanted[] {
  const { days, edges } = daysAndEdges(span);
  return [
    { by: "day", spans: [days], keys },
    { by: "hour", spans: edges, keys },
  ];
}

interface Row {
  start: number;
  totals: string | null;
  keys: string | null;
}

/** Returns the hours and days with requests, one list for each element of `wanted`. The order of a list is not defined. */
export async function readPeriods(context: UsageSnapshot, wanted: readonly Wanted[]): Promise<Period[][]> {
  const { result, open } = await readWithOpen(context, async () => {
    const [log, ...rows] = await context.activity.batch([flushOf(context), ...wanted.map((each) => rowsOf(context, each))]);
    return { flush: log[0]?.flush ?? 0, result: rows as Row[][] };
  });
  return wanted.map((each, at) => {
    const periods = new Map<number, Period>();
    const periodAt = (start: number) => getOrInsert(periods, start, (): Period => ({ start, totals: noTotals(), rollups: new Map() }));
    for (const { start, totals, keys } of result[at] ?? []) {
      const period = periodAt(start);
      const rollups = rollupsFrom(JSON.parse(keys ?? "[]") as StoredKey[]);
      addRollups(period.rollups, rollups);
      addTotals(period.totals, typeof each.keys === "object" ? totalsOf(rollups) : (JSON.parse(totals ?? "null") as Totals | null));
    }
    for (const [hour, rollups] of open) {
      const start = each.by === "hour" ? hour : dayStart(hour);
      if (!each.spans.some(({ from, to }) => hour >= from && hour < to)) continue;
      const own = typeof each.keys === "object" ? only(rollups, each.keys.id) : rollups;
      if (own.size === 0) continue;
      const period = periodAt(start);
      addTotals(period.totals, totalsOf(own));
      if (each.keys !== "none") addRollups(period.rollups, own);
    }
    return [...periods.values()];
  });
}

const only = (rollups: Rollups, keyId: string): Rollups => {
  const rollup = rollups.get(keyId);
  return new Map(rollup ? [[keyId, rollup]] : []);
};

function rowsOf({ activity, actor }: UsageSnapshot, { by, spans, keys }: Wanted) {
  const table = sql.raw(by === "hour" ? "hour_totals" : "day_totals");
  const within = sql.join(
    spans.map(({ from, to }) => sql`(start >= ${from} AND start < ${to})`),
    sql.raw(" OR "),
  );
  const ofKeys = {
    none: sql`totals, NULL AS keys`,
    all: sql`totals, keys`,
    one: sql`NULL AS totals,
      (SELECT json_group_array(json(key.value)) FROM json_each(keys) AS key WHERE key.value ->> 0 = ${typeof keys === "object" ? keys.id : ""}) AS keys`,
  };
  const columns = typeof keys === "object" ? ofKeys.one : ofKeys[keys];
  return raw<Row>(
    activity,
    sql`SELECT start, ${columns} FROM ${table}
      WHERE account_id = ${actor.accountId} AND (${spans.length > 0 ? within : sql`false`})${keys === "none" ? sql` AND part = 0` : sql``}`,
  );
}

/** Returns the first days from `from` on that have requests in D1, at most `limit`. Requests that are in no flush yet are missing. */
export async function readDays(
  { activity, actor }: LogReadContext,
  from: number,
  limit: number,
): Promise<{ start: number; rollups: Rollups }[]> {
  const rows = await raw<{ start: number; keys: string }>(
    activity,
    sql`SELECT start, keys FROM day_totals WHERE account_id = ${actor.accountId} AND start IN (
      SELECT DISTINCT start FROM day_totals WHERE account_id = ${actor.accountId} AND start >= ${from} ORDER BY start LIMIT ${limit})`,
  );
  return [...Map.groupBy(rows, ({ start }) => start)].map(([start, parts]) => ({
    start,
    rollups: rollupsFrom(parts.flatMap(({ keys }) => JSON.parse(keys) as StoredKey[])),
  }));
}
