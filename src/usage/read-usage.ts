import { and, eq, gte, lt, or, sql } from "drizzle-orm";
import type { Db } from "../db/client.ts";
import { dayMs, hourMs } from "../time/clock.ts";
import { averageOf, type Figures, figuresOf, percentilesOf, requestsOf, successesOf, type Tally } from "./figures.ts";
import { mergeHistograms } from "./histogram.ts";
import { usageDayTotals, usageHourTotals } from "./log-tables.ts";
import type { Refreshed } from "./refresh-roll-ups.ts";
import { daysAndEdges, type Span, type WindowName, windowsAt } from "./windows.ts";

/** One bar of the chart. `start` is the start of a UTC hour or day. Part of this hour or day can be outside the window. */
export interface SeriesPoint {
  start: number;
  requests: number;
  successes: number;
  averageMs: number | null;
  p50Ms: number | null;
  p95Ms: number | null;
  p99Ms: number | null;
}

export interface Usage extends Figures {
  window: Span;
  previous: Span;
  series: SeriesPoint[];
  /** The series of the previous window, with one point for each point of `series`. */
  previousSeries: SeriesPoint[];
}

type Totals = typeof usageHourTotals | typeof usageDayTotals;
type TotalsRow = Totals["$inferSelect"];

/** Returns the figures of an account or of one of its keys. The figures are for a window and for the window before it. */
export async function readUsage(
  { activity, actor, now }: Refreshed,
  { window: name, keyId }: { window: WindowName; keyId?: string | undefined },
): Promise<Usage> {
  const { window, previous } = windowsAt(name, now);
  const of = (table: Totals, ...spans: Span[]) => readTotals(activity, table, { accountId: actor.accountId, keyId }, spans);
  const stepMs = name === "24h" ? hourMs : dayMs;
  const partsOf = (span: Span) => (stepMs === hourMs ? { days: nothing, edges: [span] } : daysAndEdges(span));
  const [parts, formerParts] = [partsOf(window), partsOf(previous)];
  const [days, hours, formerDays, formerHours] = await activity.batch([
    of(usageDayTotals, parts.days),
    of(usageHourTotals, ...parts.edges),
    of(usageDayTotals, formerParts.days),
    of(usageHourTotals, ...formerParts.edges),
  ]);
  const [current, former] = [
    [...days, ...hours],
    [...formerDays, ...formerHours],
  ];
  const figures = figuresOf(current.flatMap(talliesOf), former.flatMap(talliesOf), histogramOf(current));
  return { window, previous, ...figures, series: seriesOf(current, window, stepMs), previousSeries: seriesOf(former, previous, stepMs) };
}

const nothing: Span = { from: 0, to: 0 };

const readTotals = (db: Db, table: Totals, { accountId, keyId = "" }: { accountId: string; keyId?: string | undefined }, spans: Span[]) =>
  db
    .select()
    .from(table)
    .where(
      and(
        eq(table.accountId, accountId),
        eq(table.keyId, keyId),
        or(...spans.filter(({ from, to }) => from < to).map(({ from, to }) => and(gte(table.start, from), lt(table.start, to)))) ??
          sql`false`,
      ),
    );

const talliesOf = ({ byStatus }: TotalsRow): Tally[] =>
  Object.entries(byStatus).map(([status, [requests, admitted, durationMs]]) => ({
    status: Number(status),
    requests,
    admitted,
    durationMs,
  }));

const histogramOf = (rows: readonly TotalsRow[]) => mergeHistograms(rows.map(({ histogram }) => histogram));

/** Returns one point for each hour or day that overlaps with the span. */
function seriesOf(rows: readonly TotalsRow[], { from, to }: Span, stepMs: number): SeriesPoint[] {
  const startOf = (timeMs: number) => timeMs - (timeMs % stepMs);
  const byStart = Map.groupBy(rows, (row) => startOf(row.start));
  const points: SeriesPoint[] = [];
  for (let start = startOf(from); start < to; start += stepMs) {
    const own = byStart.get(start) ?? [];
    const tallies = own.flatMap(talliesOf);
    points.push({
      start,
      requests: requestsOf(tallies),
      successes: successesOf(tallies),
      averageMs: averageOf(tallies),
      ...percentilesOf(histogramOf(own)),
    });
  }
  return points;
}
