import { blob, integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** The log of each account. A log writer changes a row only if the row still has the `revision` that the writer has read. */
export const activityLogs = sqliteTable("activity_logs", {
  /** The first part of the ids of the account's segments. A number is never used for a second account. */
  number: integer().primaryKey({ autoIncrement: true }),
  accountId: text("account_id").notNull().unique(),
  /** The number of the log writer that owns the log. */
  owner: integer().notNull(),
  /** The number of the last flush that was stored. */
  flush: integer().notNull(),
  /** The id of the last flush that was stored. Empty if there is none. */
  flushId: text("flush_id").notNull(),
  /** The number of the last segment that was stored. */
  segments: integer().notNull(),
  /** The segments contain all entries from before this time, in milliseconds since the epoch. 0 if no flush was stored yet. */
  asOf: integer("as_of").notNull(),
  /** Entries whose id sorts before this id are past their retention. */
  startId: text("start_id").notNull(),
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
