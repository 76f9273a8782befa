import { type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";

/**
 * The condition that an id is one of several, and that the row is the account's. The `+` keeps SQLite from reading all rows of the account by an
 * index of that column: it looks up each id.
 */
export const isOwnOneOf = (table: { id: SQLiteColumn; accountId: SQLiteColumn }, accountId: string, ids: readonly string[]): SQL =>
  sql`(${isOneOf(table.id, ids)} AND +${table.accountId} = ${accountId})`;

/** The condition that a column has one of several values: one bound parameter, however many they are. Undefined for undefined values, which stand for all. */
export const isOneOf = (column: SQLiteColumn | SQL, values: readonly (string | number)[] | undefined): SQL | undefined =>
  values && sql`${column} IN (SELECT value FROM json_each(${JSON.stringify(values)}))`;
