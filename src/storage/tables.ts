import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { boundedTables } from "../registry/area-tables.ts";
import type { Stored } from "../registry/manifests.ts";

const count = (name: string) => integer(name).notNull().default(0);

/** A counter for each table that bounds the rows of an account. */
const counters = Object.fromEntries(boundedTables.map(({ key, name }) => [key, count(name)])) as Record<Stored, ReturnType<typeof count>>;

/**
 * How much an account stores: rows of what is bounded by number, and the bytes of all its rows. Triggers of the tables keep it, so every writer is counted. Each
 * table that has rows of an account has a generated column `row_bytes` and three triggers, which stand in the migrations (`scripts/migration.ts`), where
 * Drizzle does not see them.
 */
export const accountStorage = sqliteTable("account_storage", {
  accountId: text("account_id").primaryKey(),
  /** What its rows take in all tables, indexes included: the sum of `row_bytes`. */
  bytes: integer().notNull().default(0),
  /** Events that were not stored, since the account was over its quota and its reserve. */
  droppedEvents: integer("dropped_events").notNull().default(0),
  ...counters,
});
