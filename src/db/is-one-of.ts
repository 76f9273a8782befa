import { type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";

/** The condition that a column has one of several values: one bound parameter, however many they are. Undefined for undefined values, which stand for all. */
export const isOneOf = (column: SQLiteColumn | SQL, values: readonly (string | number)[] | undefined): SQL | undefined =>
  values && sql`${column} IN (SELECT value FROM json_each(${JSON.stringify(values)}))`;
