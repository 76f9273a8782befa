import { index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

// The tables of an activity database: the log of its accounts and what follows from it. Times are milliseconds since the epoch.
// D1 bills each index as a row written, so all are WITHOUT ROWID (written into the migration by hand: Drizzle cannot say it).

/** The log of requests. The time of an entry is in its id. */
export const activity = sqliteTable(
  "activity",
  {
    accountId: text("account_id").notNull(),
    id: text().notNull(),
    keyId: text("key_id").notNull(),
    method: text().notNull(),
    path: text().notNull(),
    route: text().notNull(),
    status: integer().notNull(),
    durationMs: integer("duration_ms").notNull(),
    ip: text(),
    country: text(),
    userAgent: text("user_agent"),
    errorCode: text("error_code"),
    /** Whether the guard let the request run; response times are taken of these alone. */
    admitted: integer({ mode: "boolean" }).notNull(),
    /** Whether it used up one of the limit. */
    counted: integer({ mode: "boolean" }).notNull(),
    /** How many requests the entry stands for: more than one only for aggregated refusals. */
    count: integer().notNull(),
    /** Which secret of the key it came with; null in entries from before that was noted. */
    secret: text({ enum: ["current", "previous"] }),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.id] })],
);

/** Where the log of an account begins, once entries have been deleted: none from before is taken any more, and no slice from before is folded. */
export const logStarts = sqliteTable("log_starts", {
  accountId: text("account_id").primaryKey(),
  /** The start of a slice. */
  startsAt: integer("starts_at").notNull(),
  /** What ids of entries from then on are not below. */
  firstId: text("first_id").notNull(),
});

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
