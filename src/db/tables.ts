import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** The size of each database when it was last measured. */
export const databaseSizes = sqliteTable("database_sizes", {
  binding: text().primaryKey(),
  bytes: integer().notNull(),
  /** Whether the database is full. A full database accepts only operations that end or delete something. */
  isFull: integer("is_full", { mode: "boolean" }).notNull(),
  measuredAt: integer("measured_at").notNull(),
});

/** The progress of each scheduled job and the result of its last run. */
export const jobs = sqliteTable("jobs", {
  name: text().primaryKey(),
  /** A human-readable description of the job. */
  description: text().notNull().default(""),
  /** The position at which the next run continues. Empty if the next run starts from the beginning. */
  cursor: text().notNull(),
  ranAt: integer("ran_at").notNull(),
  tookMs: integer("took_ms").notNull(),
  /** The amount of work that the last run did, in units that depend on the job. */
  done: integer().notNull(),
  /** Whether the last run left some of its work undone. If so, the job runs again in the next minute. */
  hasMore: integer("has_more", { mode: "boolean" }).notNull(),
  /** The error of the last run, or null if it succeeded. */
  error: text(),
});
