import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** The size of each database when it was last measured. */
export const databaseSizes = sqliteTable("database_sizes", {
  binding: text().primaryKey(),
  bytes: integer().notNull(),
  /** Whether the database is full and accepts only operations that end or delete something. */
  isFull: integer("is_full", { mode: "boolean" }).notNull(),
  measuredAt: integer("measured_at").notNull(),
});

/** The progress of each scheduled job and the result of its last run. */
export const jobs = sqliteTable("jobs", {
  name: text().primaryKey(),
  /** A human-readable description of the job. */
  description: text().notNull().default(""),
  /** The position at which the next run continues, or an empty text if the next run starts a round. */
  cursor: text().notNull(),
  ranAt: integer("ran_at").notNull(),
  tookMs: integer("took_ms").notNull(),
  /** The amount of work that the last run did, in the units of the job. */
  done: integer().notNull(),
  /** Whether the last run left work for the next minute. */
  hasMore: integer("has_more", { mode: "boolean" }).notNull(),
  /** The error of the last run, or null if it succeeded. */
  error: text(),
});
