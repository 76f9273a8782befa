import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** The totals of all keys together. */
export interface Totals {
  /** For each status: requests, counted requests, timed requests, and the sum of the response times in milliseconds. */
  byStatus: Record<string, [requests: number, counted: number, timed: number, durationMs: number]>;
  histogram: Record<string, number>;
}

/**
 * The stored form of the rollups of a key: its id, its histogram, and its cells. The histogram is a flat list of rounded response times in
 * milliseconds, each followed by its number of requests. A list of pairs would need more room.
 */
export type StoredKey = readonly [
  keyId: string,
  histogram: readonly number[],
  cells: readonly (readonly [route: string, status: number, requests: number, counted: number, timed: number, durationMs: number])[],
];

const totalsColumns = () => ({
  accountId: text("account_id").notNull(),
  /** The start of the UTC hour or day, in milliseconds since the epoch. */
  start: integer().notNull(),
  /** 0, unless the rollups of the keys need several rows. */
  part: integer().notNull(),
  /** The totals of the account (`Totals`). Only part 0 has them. */
  totals: text({ mode: "json" }).$type<Totals>().notNull(),
  /** The rollups of some keys (`storedKeys`). This is the last column, because SQLite can read the other columns without it. */
  keys: text({ mode: "json" }).$type<StoredKey[]>().notNull(),
});

/** The rollups of each account and UTC hour. */
export const hourTotals = sqliteTable("hour_totals", totalsColumns(), (table) => [
  primaryKey({ columns: [table.accountId, table.start, table.part] }),
]);

/** The rollups of each account and UTC day. */
export const dayTotals = sqliteTable("day_totals", totalsColumns(), (table) => [
  primaryKey({ columns: [table.accountId, table.start, table.part] }),
]);

/** The last uses of the keys of each account. */
export const lastUses = sqliteTable(
  "last_uses",
  {
    accountId: text("account_id").notNull(),
    /** 0, unless the keys need several rows. */
    part: integer().notNull(),
    /** The id and the path of the latest admitted entry of some keys. */
    uses: text({ mode: "json" }).$type<[keyId: string, entryId: string, path: string][]>().notNull(),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.part] })],
);
