import { type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";

/**
 * Returns the SQL condition that a row has one of the given ids and belongs to the account. The `+` stops SQLite from using an index on the
 * account column. With such an index, SQLite would read all rows of the account. With the `+`, SQLite looks up each id instead.
 */
export const isOwnOneOf = (table: { id: SQLiteColumn; accountId: SQLiteColumn }, accountId: string, ids: readonly string[]): SQL =>
  sql`(${isOneOf(table.id, ids)} AND +${table.accountId} = ${accountId})`;

/**
 * Returns the SQL condition that a column has one of several values. The condition needs only one bound parameter for any number of values.
 * Returns undefined if `values` is undefined. An undefined condition matches all rows.
 */
export const isOneOf = (column: SQLiteColumn | SQL, values: readonly (string | number)[] | undefined): SQL | undefined =>
  values && sql`${column} IN (SELECT value FROM json_each(${JSON.stringify(values)}))`;
