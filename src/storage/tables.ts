import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { boundedTables } from "../registry/area-tables.ts";
import type { Stored } from "../registry/manifests.ts";

const count = (name: string) => integer(name).notNull().default(0);

/** A counter column for each table that has a row limit. */
const counters = Object.fromEntries(boundedTables.map(({ key, name }) => [key, count(name)])) as Record<Stored, ReturnType<typeof count>>;

/**
 * The storage that each account uses: the bytes of all its rows, and the number of its rows in tables with a row limit. Triggers maintain the
 * numbers, so every write is counted. Each table that is counted has a generated column `row_bytes` and up to three triggers. The column and the
 * triggers exist only in the migrations (`scripts/migration.ts`), and not in the Drizzle schema.
 */
export const accountStorage = sqliteTable("account_storage", {
  accountId: text("account_id").primaryKey(),
  /** The size of the account's rows in all tables, including indexes. `bytes` is the sum of the `row_bytes` of all rows. */
  bytes: integer().notNull().default(0),
  /** The number of events that were not stored because the account had used up its quota and its reserve. */
  droppedEvents: integer("dropped_events").notNull().default(0),
  ...counters,
});
