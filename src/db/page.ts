/** As many rows as one page of a list looks at where a filter has to be tried on each: a rare match keeps nobody else waiting for D1. */
export const scannedAtOnce = 2000;

/** A page of a list. `next`: the position after which the next page goes on; null where the list ends here. Where a filter matches little, a page may be short and still have a `next`. */
export interface Page<Row, Position> {
  rows: Row[];
  next: Position | null;
}

/** The page of `found`, of which one row too many was read. `lastScanned`: the position of the last row that was looked at; null where that was the last of all. */
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
