import { getTableColumns, type InferInsertModel, type SQL, sql } from "drizzle-orm";
import type { SQLiteTable } from "drizzle-orm/sqlite-core";
import { type Db, raw } from "./client.ts";

/**
 * The INSERT of one row where a condition holds; `wrote` of what it returns says whether it did. Its columns are named, so that
 * a Worker from before a migration goes on working after it.
 */
export function insertWhere<Table extends SQLiteTable>(db: Db, table: Table, row: InferInsertModel<Table>, condition: SQL) {
  const given = Object.entries(getTableColumns(table)).filter(([name]) => name in row);
  const columns = given.map(([, column]) => sql.identifier(column.name));
  const values = given.map(([name, column]) => sql`${sql.param(row[name as keyof typeof row], column)}`);
  const list = (parts: SQL[] | ReturnType<typeof sql.identifier>[]) => sql.join(parts as SQL[], sql.raw(", "));
  return raw<unknown>(db, sql`INSERT INTO ${table} (${list(columns)}) SELECT ${list(values)} WHERE ${condition} RETURNING 1`);
}
