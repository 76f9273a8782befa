import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { boundedTables } from "./area-tables.ts";
import type { Stored } from "./manifests.ts";

const count = (name: string) => integer(name).notNull().default(0);

/** A counter column for each table that has a row limit. */
const counters = Object.fromEntries(boundedTables.map(({ key, name }) => [key, count(name)])) as Record<Stored, ReturnType<typeof count>>;

/**
 * The storage of each account: the number of bytes in all of its rows, and its number of rows in each table with a row limit. Triggers
 * update these numbers on every write. Each counted table has a generated column `row_bytes` and up to three triggers. The column
 * `row_bytes` and the triggers are defined in the migrations (`scripts/migration.ts`), not in the Drizzle schema.
 */
export const accountStorage = sqliteTable("account_storage", {
  accountId: text("account_id").primaryKey(),
  /** The size of the account's rows in all tables, in bytes, including indexes. This size is the sum of `row_bytes` over all rows. */
  bytes: integer().notNull().default(0),
  /** The number of events that were not stored because the account had used up its quota and its reserve. */
  droppedEvents: integer("dropped_events").notNull().default(0),
  ...counters,
});
