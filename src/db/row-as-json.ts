import { getTableColumns, type SQL, sql } from "drizzle-orm";
import type { SQLiteTable } from "drizzle-orm/sqlite-core";

/** D1 lets a function have 32 arguments. */
const maxArguments = 32;

/** All columns of a row in one value, for a place that holds only one: arrays of at most 32 values, in an array. */
export const rowAsJson = (table: SQLiteTable): SQL =>
  jsonArray(inGroups(Object.values(getTableColumns(table))).map((columns) => jsonArray(columns.map((column) => sql`${column}`))));

/** The row that `rowAsJson` put into a value, as Drizzle would read it. */
export function rowOfJson<Table extends SQLiteTable>(table: Table, json: string): Table["$inferSelect"] {
  const values = (JSON.parse(json) as unknown[][]).flat();
  const members = Object.entries(getTableColumns(table)).map(([name, column], index) => {
    const value = values[index];
    return [name, value === null ? null : column.mapFromDriverValue(value)];
  });
  return Object.fromEntries(members);
}

const jsonArray = (values: SQL[]): SQL => sql`json_array(${sql.join(values, sql.raw(", "))})`;

const inGroups = <Item>(items: Item[]): Item[][] =>
  items.length <= maxArguments ? [items] : [items.slice(0, maxArguments), ...inGroups(items.slice(maxArguments))];
