import { and, desc, gte, type SQL } from "drizzle-orm";
import type { SQLiteColumn, SQLiteTable } from "drizzle-orm/sqlite-core";
import type { Db } from "./client.ts";

/**
 * The maximum number of rows that one page of a filtered list scans. Without this maximum, a filter with few matches would scan too many
 * rows and block D1 for other requests.
 */
export const scannedAtOnce = 2000;

/**
 * A page of a list. `next`: the position after which the next page starts, or null at the end of the list. In a filtered list, a page may
 * have fewer rows than its limit although `next` is not null.
 */
export interface Page<Row, Position> {
  rows: Row[];
  next: Position | null;
}

/**
 * Returns a page with the first `limit` rows of `found`. If `found` has more than `limit` rows, another page follows. `lastScanned`: the
 * position of the last scanned row, or null if the scan reached the end of the list.
 */
export function pageFrom<Row, Position>(
  found: readonly Row[],
  limit: number,
  positionOf: (row: Row) => Position,
  lastScanned: Position | null = null,
): Page<Row, Position> {
  const rows = found.slice(0, limit);
  const last = rows.at(-1);
  return { rows, next: found.length > limit && last ? positionOf(last) : lastScanned };
}

interface PageQuery<Row> {
  /** The SQL condition that selects the rows after the previous page. */
  range: SQL | undefined;
  /** The SQL condition of the filter, or undefined if the list has no filter. */
  matches: SQL | undefined;
  limit: number;
  /** The maximum number of rows that a filtered page scans. */
  scanned?: number;
  /** Reads the newest rows that match a condition. Returns at most `limit` + 1 rows. */
  rows: (where: SQL | undefined) => PromiseLike<Row[]>;
}

/**
 * Returns a page of a list that is sorted by id, newest first. In a filtered list, first finds the last row to scan. This step reads only
 * the index.
 */
export async function newestFirst<Row extends { id: string }>(
  db: Db,
  table: SQLiteTable & { id: SQLiteColumn },
  { range, matches, limit, scanned = scannedAtOnce, rows }: PageQuery<Row>,
): Promise<Page<Row, string>> {
  const [last] = matches
    ? await db
        .select({ id: table.id })
        .from(table)
        .where(range)
        .orderBy(desc(table.id))
        .limit(1)
        .offset(scanned - 1)
    : [];
  const lastScanned = last && String(last.id);
  const found = await rows(and(range, matches, lastScanned === undefined ? undefined : gte(table.id, lastScanned)));
  return pageFrom(found, limit, ({ id }) => id, lastScanned);
}
