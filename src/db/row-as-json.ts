import { getTableColumns, type SQL, sql } from "drizzle-orm";
import type { SQLiteTable } from "drizzle-orm/sqlite-core";
import { inBatches } from "../lib/in-batches.ts";

/** The maximum number of arguments of an SQL function in D1. */
const maxArguments = 32;

/**
 * Encodes all columns of a row as one JSON value. A query can therefore return the row in a single column. The JSON value is an array of
 * arrays with at most 32 values each.
 */
export const rowAsJson = (table: SQLiteTable): SQL =>
  jsonArray(
    inBatches(Object.values(getTableColumns(table)), maxArguments).map((columns) => jsonArray(columns.map((column) => sql`${column}`))),
  );

/** Decodes a row that `rowAsJson` encoded. The result is the same as if Drizzle had read the row. */
export function rowOfJson<Table extends SQLiteTable>(table: Table, json: string): Table["$inferSelect"] {
  const values = (JSON.parse(json) as unknown[][]).flat();
  const members = Object.entries(getTableColumns(table)).map(([name, column], index) => {
    const value = values[index];
    return [name, value === null ? null : column.mapFromDriverValue(value)];
  });
  return Object.fromEntries(members);
}

const jsonArray = (values: SQL[]): SQL => sql`json_array(${sql.join(values, sql.raw(", "))})`;
