import { getTableColumns, type InferInsertModel, type SQL, sql } from "drizzle-orm";
import type { SQLiteTable } from "drizzle-orm/sqlite-core";
import { type Db, raw } from "./client.ts";

/**
 * Creates a statement that inserts one row if a condition is true. Pass the statement's result to `wrote` to find out whether the row was
 * inserted. The statement lists its columns by name. The previous release therefore still works after a migration adds a column.
 */
export function insertWhere<Table extends SQLiteTable>(db: Db, table: Table, row: InferInsertModel<Table>, condition: SQL) {
  const given = Object.entries(getTableColumns(table)).filter(([name]) => name in row);
  const columns = given.map(([, column]) => sql.identifier(column.name));
  const values = given.map(([name, column]) => sql`${sql.param(row[name as keyof typeof row], column)}`);
  const list = (parts: SQL[] | ReturnType<typeof sql.identifier>[]) => sql.join(parts as SQL[], sql.raw(", "));
  return raw<unknown>(db, sql`INSERT INTO ${table} (${list(columns)}) SELECT ${list(values)} WHERE ${condition} RETURNING 1`);
}
