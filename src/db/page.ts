import { and, desc, gte, type SQL } from "drizzle-orm";
import type { SQLiteColumn, SQLiteTable } from "drizzle-orm/sqlite-core";
import type { Db } from "./client.ts";

/** As many rows as one page of a list looks at where a filter has to be tried on each: a rare match keeps nobody else waiting for D1. */
export const scannedAtOnce = 2000;

/**
 * A page of a list. `next`: the position after which the next page goes on; null where the list ends here. Where a filter matches little, a
 * page may be short and still have a `next`.
 */
export interface Page<Row, Position> {
  rows: Row[];
  next: Position | null;
}

/**
 * Returns the page of `found`, which has one row more than the page. `lastScanned`: the position of the last row that was looked at; null
 * where that was the last of all.
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

interface Asked<Row> {
  /** The rows that the list has, from where the page begins. */
  range: SQL | undefined;
  /** What of them is wanted; undefined where all are. */
  matches: SQL | undefined;
  limit: number;
  /** As many rows as a filtered page looks at. */
  scanned?: number;
  /** Reads rows under a condition, the latest first, one more than `limit`. */
  rows: (where: SQL | undefined) => PromiseLike<Row[]>;
}

/** A page of a list in the order of its ids, the latest first. Where a filtered page ends is found in the index, without the rows. */
export async function newestFirst<Row extends { id: string }>(
  db: Db,
  table: SQLiteTable & { id: SQLiteColumn },
  { range, matches, limit, scanned = scannedAtOnce, rows }: Asked<Row>,
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
