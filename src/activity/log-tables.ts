import { blob, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** The request log. The id of an entry contains the time of the request. */
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
    /** Whether the guard admitted the request. Response times are computed from admitted requests only. */
    admitted: integer({ mode: "boolean" }).notNull(),
    /** Whether the request counted against the limit. */
    counted: integer({ mode: "boolean" }).notNull(),
    /** The number of requests that the entry represents. Requests can share an entry only if they do not count against the limit. */
    count: integer().notNull(),
    /**
     * Whether the request used the key's current secret or a previous secret. Null in entries that were written before this column existed.
     */
    secret: text({ enum: ["current", "previous"] }),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.id] })],
);

/**
 * The start of each account's log. A log has a start only after retention has deleted entries from it. Entries that are older than the
 * start are rejected. Five-minute buckets that are older than the start are not rolled up.
 */
export const logStarts = sqliteTable("log_starts", {
  accountId: text("account_id").primaryKey(),
  /** The start of the log, in milliseconds since the epoch. The value is always the start of a five-minute bucket. */
  startsAt: integer("starts_at").notNull(),
  /** If the id of an entry sorts before this value, the entry is older than `startsAt`. */
  firstId: text("first_id").notNull(),
});

/** The log of each account. A log writer changes a row only if the row still has the `revision` that the writer has read. */
export const activityLogs = sqliteTable("activity_logs", {
  /** The first part of the ids of the account's segments. A number is never used for a second account. */
  number: integer().primaryKey({ autoIncrement: true }),
  accountId: text("account_id").notNull().unique(),
  /** The number of the log writer that owns the log. */
  owner: integer().notNull(),
  /** The number of the last cut that was stored. */
  cut: integer().notNull(),
  /** The number of the last segment that was stored. */
  segments: integer().notNull(),
  /** The log is complete up to this time, in milliseconds since the epoch. */
  asOf: integer("as_of").notNull(),
  revision: text().notNull(),
});

/** The segments of the logs. `id` is the number of the account's log, times 2^31, plus the number of the segment. */
export const activitySegments = sqliteTable("activity_segments", {
  id: integer().primaryKey(),
  accountId: text("account_id").notNull(),
  firstId: text("first_id").notNull(),
  lastId: text("last_id").notNull(),
  entries: integer().notNull(),
  /** The number of requests that the entries represent. */
  requests: integer().notNull(),
  /** A Bloom filter of the values by which entries can be filtered. */
  summary: blob({ mode: "buffer" }).notNull(),
  /** The entries in the form of `codec.ts`. This is the last column, because SQLite can read the other columns without it. */
  body: blob({ mode: "buffer" }).notNull(),
});
