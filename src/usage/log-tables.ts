import { index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** Slices of an account whose entries have changed since they were last folded. */
export const staleSlices = sqliteTable(
  "stale_slices",
  {
    accountId: text("account_id").notNull(),
    start: integer().notNull(),
    /** The number of the writer that folds it. */
    writer: integer().notNull(),
    /** When the first of these entries was written. */
    since: integer().notNull(),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.start] }), index("stale_slices_by_writer").on(table.writer, table.start)],
);

const rollUpColumns = () => ({
  accountId: text("account_id").notNull(),
  /** The start of the slice, hour or day. */
  start: integer().notNull(),
  keyId: text("key_id").notNull(),
  route: text().notNull(),
  status: integer().notNull(),
  requests: integer().notNull(),
  admitted: integer().notNull(),
  counted: integer().notNull(),
  /** Sum over the admitted requests. */
  durationMs: integer("duration_ms").notNull(),
});

/** Five minutes of the log. Hours are added up from these. */
export const usageSlices = sqliteTable(
  "usage_slices",
  {
    ...rollUpColumns(),
    /** Admitted requests by rounded duration in milliseconds: `{"3":120,"256":7}`. */
    durations: text({ mode: "json" }).$type<Record<string, number>>().notNull(),
    /** The latest admitted entry, whose id carries the time, and its path; null where none was admitted. */
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

/** What the figures of a window are added up from. */
const totalColumns = () => ({
  accountId: text("account_id").notNull(),
  /** The start of the hour or day. */
  start: integer().notNull(),
  /** Of one key or, where it is empty, of all keys of the account: so that figures cost the same however many there are. */
  keyId: text("key_id").notNull(),
  /** Requests, admitted requests and the sum of their durations: `{"200":[127,127,3120]}`. */
  byStatus: text("by_status", { mode: "json" }).$type<Record<string, [requests: number, admitted: number, durationMs: number]>>().notNull(),
  /** Admitted requests by rounded duration in milliseconds: `{"3":120,"256":7}`. */
  histogram: text({ mode: "json" }).$type<Record<string, number>>().notNull(),
});

export const usageHourTotals = sqliteTable("usage_hour_totals", totalColumns(), (table) => [
  primaryKey({ columns: [table.accountId, table.keyId, table.start] }),
]);

export const usageDayTotals = sqliteTable("usage_day_totals", totalColumns(), (table) => [
  primaryKey({ columns: [table.accountId, table.keyId, table.start] }),
]);

/** The latest admitted request of each key that has had one. */
export const keyUses = sqliteTable(
  "key_uses",
  {
    accountId: text("account_id").notNull(),
    keyId: text("key_id").notNull(),
    /** The id of the entry, which carries the time. */
    entryId: text("entry_id").notNull(),
    path: text().notNull(),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.keyId] })],
);
