import { type SQL, sql } from "drizzle-orm";
import type { StoredKey } from "../db/areas/usage/log-tables.ts";
import { type Db, jsonRows, raw } from "../db/client.ts";
import { dayStart } from "../lib/time/clock.ts";
import { addRollups, type HourlyRollups, type Rollups, rollupsFrom, storedKeys, totalsOf } from "./rollups.ts";

// The totals of an hour or day are read, added to and written as a whole. The caller makes sure that nobody else writes the totals of the account
// in the meantime.

/** The id and the path of the latest admitted entry of each key, by the id of the key. */
export type LastUses = Map<string, { id: string; path: string }>;

/** New requests of an account. */
export interface NewTotals {
  accountId: string;
  rollups: HourlyRollups;
  lastUses: LastUses;
}

/** Keeps the later use of a key. */
export function addLastUse(uses: LastUses, keyId: string, use: { id: string; path: string }): void {
  const known = uses.get(keyId);
  if (!known || use.id > known.id) uses.set(keyId, use);
}

/** The maximum size of the JSON in one row, in characters. */
const maxRowLength = 200_000;

interface TotalsRow {
  accountId: string;
  start: number;
  keys: string;
}
type UsesRow = { accountId: string; uses: string };

/** The rows that `totalsQueries` has read, in the order of its statements. */
export type StoredTotals = readonly [hours: TotalsRow[], days: TotalsRow[], uses: UsesRow[]];

const startsOf = (changes: readonly NewTotals[], startOf: (hour: number) => number) =>
  changes.flatMap(({ accountId, rollups }) => [...new Set([...rollups.keys()].map(startOf))].map((start) => [accountId, start] as const));

/** Returns the statements that read the stored totals of all hours and days with new requests. */
export function totalsQueries(db: Db, changes: readonly NewTotals[]) {
  const totals = (table: TotalsTable, startOf: (hour: number) => number) =>
    raw<TotalsRow>(
      db,
      sql`SELECT account_id AS accountId, start, keys FROM json_each(${JSON.stringify(startsOf(changes, startOf))}) AS wanted
        CROSS JOIN ${sql.raw(table)} ON account_id = wanted.value ->> 0 AND start = wanted.value ->> 1 ORDER BY account_id, start, part`,
    );
  const accounts = JSON.stringify(changes.map(({ accountId }) => accountId));
  return [
    totals("hour_totals", (hour) => hour),
    totals("day_totals", dayStart),
    raw<UsesRow>(
      db,
      sql`SELECT account_id AS accountId, uses FROM last_uses WHERE account_id IN (SELECT value FROM json_each(${accounts})) ORDER BY account_id, part`,
    ),
  ] as const;
}

/**
 * Returns the statements that store the totals with the new requests. `mayWrite`: an SQL condition on `row.value ->> 0`, which is the id of the
 * account of a row.
 */
export function totalsStatements(db: Db, changes: readonly NewTotals[], [hours, days, uses]: StoredTotals, mayWrite: SQL) {
  return [
    ...storeTotals(db, "hour_totals", changes, hours, (hour) => hour, mayWrite),
    ...storeTotals(db, "day_totals", changes, days, dayStart, mayWrite),
    ...storeUses(db, changes, uses, mayWrite),
  ];
}

const storeTotals = (
  db: Db,
  table: TotalsTable,
  changes: readonly NewTotals[],
  stored: readonly TotalsRow[],
  startOf: (hour: number) => number,
  mayWrite: SQL,
) => {
  const totals = changes.flatMap(({ accountId, rollups }) =>
    [...Map.groupBy(rollups, ([hour]) => startOf(hour))].map(([start, added]) => {
      const before = stored.filter((row) => row.accountId === accountId && row.start === start);
      const sum: Rollups = rollupsFrom(before.flatMap(({ keys }) => JSON.parse(keys) as StoredKey[]));
      for (const [, more] of added) addRollups(sum, more);
      return { accountId, start, rollups: sum };
    }),
  );
  return insertTotals(db, table, totals, mayWrite);
};

type TotalsTable = "hour_totals" | "day_totals";

/**
 * Returns the statements that store the rollups of hours or days, in place of what is stored. `mayWrite`: an SQL condition on `row.value ->> 0`, which
 * is the id of the account of a row.
 */
function insertTotals(
  db: Db,
  table: TotalsTable,
  totals: readonly { accountId: string; start: number; rollups: Rollups }[],
  mayWrite: SQL,
) {
  const rows = totals.flatMap(({ accountId, start, rollups }) =>
    partsOf(storedKeys(rollups)).map((keys, part) => [accountId, start, part, part === 0 ? totalsOf(rollups) : null, keys] as const),
  );
  return jsonRows(rows).map((text) =>
    raw(
      db,
      sql`INSERT INTO ${sql.raw(table)} (account_id, start, part, totals, keys)
        SELECT row.value ->> 0, row.value ->> 1, row.value ->> 2, row.value -> 3, row.value -> 4 FROM json_each(${text}) AS row WHERE ${mayWrite}
        ON CONFLICT DO UPDATE SET totals = excluded.totals, keys = excluded.keys`,
    ),
  );
}

function storeUses(db: Db, changes: readonly NewTotals[], stored: readonly UsesRow[], mayWrite: SQL) {
  const rows = changes.flatMap(({ accountId, lastUses }) => {
    const all: LastUses = new Map();
    const own = stored.filter((row) => row.accountId === accountId);
    for (const row of own)
      for (const [keyId, id, path] of JSON.parse(row.uses) as [string, string, string][]) addLastUse(all, keyId, { id, path });
    for (const [keyId, use] of lastUses) addLastUse(all, keyId, use);
    const sorted = [...all].toSorted(([a], [b]) => (a < b ? -1 : 1));
    const parts = partsOf(sorted.map(([keyId, { id, path }]) => [keyId, id, path] as const));
    // Parts that are not needed anymore become empty.
    while (parts.length < own.length) parts.push([]);
    return parts.map((uses, part) => [accountId, part, uses] as const);
  });
  return jsonRows(rows).map((text) =>
    raw(
      db,
      sql`INSERT INTO last_uses (account_id, part, uses)
        SELECT row.value ->> 0, row.value ->> 1, row.value -> 2 FROM json_each(${text}) AS row WHERE ${mayWrite}
        ON CONFLICT DO UPDATE SET uses = excluded.uses`,
    ),
  );
}

/** Divides values into parts whose JSON fits into a row. There is at least one part. */
function partsOf<Value>(values: readonly Value[]): Value[][] {
  const parts: Value[][] = [[]];
  let length = 0;
  for (const value of values) {
    const size = JSON.stringify(value).length;
    if (length + size > maxRowLength && parts.at(-1)?.length) {
      parts.push([]);
      length = 0;
    }
    parts.at(-1)?.push(value);
    length += size;
  }
  return parts;
}
