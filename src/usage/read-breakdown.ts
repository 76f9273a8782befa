import { dayMs, iso } from "../lib/time/clock.ts";
import { averageOf, notReportedOf, requestsOf, type StatusTotals, successesOf } from "./figures.ts";
import { daysAndHoursOf, readPeriods } from "./read-periods.ts";
import { type Cell, notReported } from "./rollups.ts";
import type { UsageSnapshot } from "./usage-snapshot.ts";
import { type Span, usageWindowsAt, type WindowName } from "./windows.ts";

export const dimensions = ["key", "route", "status", "day"] as const;
export type Dimension = (typeof dimensions)[number];

/**
 * The number of requests of one key, route, status or day. `value` is the key's id, the route, the status code or the date. Requests without a
 * reported status have the status `none`.
 */
export interface Share {
  value: string;
  requests: number;
  successes: number;
  notReported: number;
  averageMs: number | null;
}

/** Requests with the same key, route and status, in one hour or day that begins at `start`. */
export interface LocatedCell extends Cell {
  keyId: string;
  start: number;
}

const dimensionOf: Record<Dimension, (cell: LocatedCell) => string> = {
  key: ({ keyId }) => keyId,
  route: ({ route }) => route,
  status: ({ status }) => (status === notReported ? "none" : String(status)),
  day: ({ start }) => iso(start - (start % dayMs)).slice(0, 10),
};

/** Returns the requests of a span of whole hours, for the account or for one of its keys. */
export async function readCells(context: UsageSnapshot, span: Span, keyId?: string | undefined): Promise<LocatedCell[]> {
  const periods = await readPeriods(context, daysAndHoursOf(span, keyId === undefined ? "all" : { id: keyId }));
  return periods
    .flat()
    .flatMap(({ start, rollups }) =>
      [...rollups].flatMap(([id, rollup]) => [...rollup.cells.values()].map((cell) => ({ ...cell, keyId: id, start }))),
    );
}

/**
 * Groups requests by one dimension. The sum of the shares is the total of the cells. Days are in chronological order. All other groups are
 * sorted by number of requests, highest first.
 */
export function sharesBy(by: Dimension, cells: readonly LocatedCell[]): Share[] {
  const shares = [...Map.groupBy(cells, dimensionOf[by])].map(([value, own]) => shareOf(value, own));
  return shares.toSorted(by === "day" ? byValue : byRequests);
}

/** Returns the requests of a window, grouped by one dimension. */
export async function readBreakdown(
  context: UsageSnapshot,
  { window: name, by, keyId }: { window: WindowName; by: Dimension; keyId?: string | undefined },
): Promise<{ window: Span; shares: Share[] }> {
  const { window } = usageWindowsAt(name, context.now);
  return { window, shares: sharesBy(by, await readCells(context, window, keyId)) };
}

const byValue = (a: Share, b: Share): number => (a.value < b.value ? -1 : 1);
const byRequests = (a: Share, b: Share): number => b.requests - a.requests || byValue(a, b);

const shareOf = (value: string, cells: readonly StatusTotals[]): Share => ({
  value,
  requests: requestsOf(cells),
  successes: successesOf(cells),
  notReported: notReportedOf(cells),
  averageMs: averageOf(cells),
});
