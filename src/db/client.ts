import type { SQL } from "drizzle-orm";
import type { BatchItem } from "drizzle-orm/batch";
import { type DrizzleD1Database, drizzle } from "drizzle-orm/d1";

export type Db = DrizzleD1Database & { $client: D1Database };
export type Statement = BatchItem<"sqlite">;

export const connect = (d1: D1Database): Db => drizzle(d1);

/**
 * Creates a statement from hand-written SQL. Callers can pass the statement to `batch`. The statement returns rows exactly as D1 returns
 * them. Drizzle's own `db.all` does not prepare the statement. A D1 batch would therefore lose the parameters of the statement.
 */
export function raw<Row>(db: Db, statement: SQL) {
  const query = db.all<Row>(statement);
  return Object.assign(query, { stmt: db.$client.prepare(query.getQuery().sql) });
}

/** The maximum length of a bound value, in characters. D1 accepts bound values of up to 2 MB, and a character can take three bytes. */
const maxValue = 600_000;

/**
 * Encodes rows as texts for `json_each`. Each text contains a JSON array of rows. Starts a new text when the next row would exceed the
 * maximum length. Returns an empty list if there are no rows.
 */
export function jsonRows(rows: readonly unknown[]): string[] {
  const values: string[] = [];
  let open: string[] = [];
  let length = 0;
  for (const row of rows) {
    const text = JSON.stringify(row);
    if (open.length > 0 && length + text.length > maxValue) {
      values.push(`[${open.join(",")}]`);
      [open, length] = [[], 0];
    }
    open.push(text);
    length += text.length;
  }
  return open.length > 0 ? [...values, `[${open.join(",")}]`] : values;
}

export const newRevision = (): string => crypto.randomUUID().replaceAll("-", "").slice(0, 16);
