import type { SQL } from "drizzle-orm";
import type { BatchItem } from "drizzle-orm/batch";
import { type DrizzleD1Database, drizzle } from "drizzle-orm/d1";

export type Db = DrizzleD1Database & { $client: D1Database };
export type Statement = BatchItem<"sqlite">;

export const connect = (d1: D1Database): Db => drizzle(d1);

/**
 * A statement written by hand, for `batch`, with its rows as D1 answers them. Drizzle's own (`db.all`) loses its parameters
 * in a D1 batch: it prepares no statement for them to be bound to.
 */
export function raw<Row>(db: Db, statement: SQL) {
  const query = db.all<Row>(statement);
  return Object.assign(query, { stmt: db.$client.prepare(query.getQuery().sql) });
}

/** Characters of one bound value: D1 takes 2 MB, and one may have three bytes. */
const maxValue = 600_000;

/** Rows as JSON arrays for `json_each`, as many as it takes for each to be a value that D1 takes; none where there are no rows. */
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

/** A new value for the `revision` of a row. */
export const newRevision = (): string => crypto.randomUUID().replaceAll("-", "").slice(0, 16);
