import { index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** The dirty buckets. A bucket is five minutes of an account's log. A bucket is dirty if its entries changed after its last roll-up. */
export const dirtyBuckets = sqliteTable(
  "stale_slices",
  {
    accountId: text("account_id").notNull(),
    start: integer().notNull(),
    /** The number of the log writer that rolls up the bucket. */
    writer: integer().notNull(),
    /** The time of the first write that made the bucket dirty, in milliseconds since the epoch. */
    since: integer().notNull(),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.start] }), index("stale_slices_by_writer").on(table.writer, table.start)],
);

const rollUpColumns = () => ({
  accountId: text("account_id").notNull(),
  /** The start of the bucket, hour or day, in milliseconds since the epoch. */
  start: integer().notNull(),
  keyId: text("key_id").notNull(),
  route: text().notNull(),
  status: integer().notNull(),
  requests: integer().notNull(),
  admitted: integer().notNull(),
  counted: integer().notNull(),
  /** The sum of the response times of the admitted requests, in milliseconds. */
  durationMs: integer("duration_ms").notNull(),
});

/** The roll-ups of five-minute buckets. The roll-up of an hour is the sum of the roll-ups of its buckets. */
export const usageBuckets = sqliteTable(
  "usage_slices",
  {
    ...rollUpColumns(),
    /** The number of admitted requests by rounded duration in milliseconds, for example `{"3":120,"256":7}`. */
    durations: text({ mode: "json" }).$type<Record<string, number>>().notNull(),
    /**
     * The id and the path of the latest admitted entry. If no request was admitted, both are null. The id contains the time of the entry.
     */
    lastId: text("last_id"),
    lastPath: text("last_path"),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.start, table.keyId, table.route, table.status] })],
);

export const usageHours = sqliteTable("usage_hours", rollUpColumns(), (table) => [
  primaryKey({ columns: [table.accountId, table.start, table.keyId, table.route, table.status] }),
]);

export const usageDays = sqliteTable("usage_days", rollUpColumns(), (table) => [
  primaryKey({ columns: [table.accountId, table.start, table.keyId, table.route, table.status] }),
]);

/** The totals of an hour or day. The figures of a window are sums of these totals. */
const totalColumns = () => ({
  accountId: text("account_id").notNull(),
  /** The start of the hour or day, in milliseconds since the epoch. */
  start: integer().notNull(),
  /**
   * The id of one key, or an empty string for all keys of the account. The sum over all keys is stored, so the figures of an account cost
   * the same for any number of keys.
   */
  keyId: text("key_id").notNull(),
  /**
   * A list of three numbers for each status: requests, admitted requests, and the total duration of the admitted requests in milliseconds.
   * For example: `{"200":[127,127,3120]}`.
   */
  byStatus: text("by_status", { mode: "json" }).$type<Record<string, [requests: number, admitted: number, durationMs: number]>>().notNull(),
  /** The number of admitted requests by rounded duration in milliseconds. */
  histogram: text({ mode: "json" }).$type<Record<string, number>>().notNull(),
});

export const usageHourTotals = sqliteTable("usage_hour_totals", totalColumns(), (table) => [
  primaryKey({ columns: [table.accountId, table.keyId, table.start] }),
]);

export const usageDayTotals = sqliteTable("usage_day_totals", totalColumns(), (table) => [
  primaryKey({ columns: [table.accountId, table.keyId, table.start] }),
]);

/** The latest admitted request of each key. */
export const keyUses = sqliteTable(
  "key_uses",
  {
    accountId: text("account_id").notNull(),
    keyId: text("key_id").notNull(),
    /** The id of the log entry. The id contains the time of the request. */
    entryId: text("entry_id").notNull(),
    path: text().notNull(),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.keyId] })],
);

/** The totals of all keys together. */
export interface Totals {
  /** For each status: requests, counted requests, timed requests, and the sum of the response times in milliseconds. */
  byStatus: Record<string, [requests: number, counted: number, timed: number, durationMs: number]>;
  histogram: Record<string, number>;
}

/** The stored form of the tallies of a key: its id, its histogram, and its cells. */
export type StoredKey = readonly [
  keyId: string,
  histogram: readonly (readonly [durationMs: number, count: number])[],
  cells: readonly (readonly [route: string, status: number, requests: number, counted: number, timed: number, durationMs: number])[],
];

const totalsColumns = () => ({
  accountId: text("account_id").notNull(),
  /** The start of the UTC hour or day, in milliseconds since the epoch. */
  start: integer().notNull(),
  /** 0, unless the tallies of the keys need several rows. */
  part: integer().notNull(),
  /** The totals of the account (`Totals`). Only part 0 has them. */
  totals: text({ mode: "json" }).$type<Totals>().notNull(),
  /** The tallies of some keys (`storedKeys`). This is the last column, because SQLite can read the other columns without it. */
  keys: text({ mode: "json" }).$type<StoredKey[]>().notNull(),
});

/** The tallies of each account and UTC hour. */
export const hourTotals = sqliteTable("hour_totals", totalsColumns(), (table) => [
  primaryKey({ columns: [table.accountId, table.start, table.part] }),
]);

/** The tallies of each account and UTC day. */
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
