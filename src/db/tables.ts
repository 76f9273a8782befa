import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** What the clock last found of each database, by its binding. */
export const databaseSizes = sqliteTable("database_sizes", {
  binding: text().primaryKey(),
  bytes: integer().notNull(),
  /** Whether it takes no more rows but those that end something. */
  isFull: integer("is_full", { mode: "boolean" }).notNull(),
  measuredAt: integer("measured_at").notNull(),
});

/** The scheduled jobs: how far each is, and how its last run went. */
export const jobs = sqliteTable("jobs", {
  name: text().primaryKey(),
  /** What it does, for people. */
  description: text().notNull().default(""),
  /** Where the next run goes on; empty at a beginning. */
  cursor: text().notNull(),
  ranAt: integer("ran_at").notNull(),
  tookMs: integer("took_ms").notNull(),
  /** What it did, in the units of the job. */
  done: integer().notNull(),
  /** Whether more was left than it may do in one run. */
  hasMore: integer("has_more", { mode: "boolean" }).notNull(),
  /** What it failed with; null where it did not. */
  error: text(),
});
