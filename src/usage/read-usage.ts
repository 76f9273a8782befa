import { and, eq, gte, lt, or, sql } from "drizzle-orm";
import { dayMs, dayStart, hourMs } from "../clock.ts";
import type { Db } from "../db/client.ts";
import { usageDayTotals, usageHourTotals } from "../db/schema.ts";
import { type Figures, figuresOf, isSuccess, type Tally } from "./figures.ts";
import { addUp } from "./histogram.ts";
import type { UpToDate } from "./refresh-roll-ups.ts";
import { daysAndEdges, type Span, type WindowName, windowsAt } from "./windows.ts";

/** One bar of the chart. `start`: the UTC hour or day that it stands for, which the window may hold in part. */
export interface SeriesPoint {
  start: number;
  requests: number;
  successes: number;
}

export interface Usage extends Figures {
  window: Span;
  previous: Span;
  series: SeriesPoint[];
}

type Totals = typeof usageHourTotals | typeof usageDayTotals;
interface TallyAt extends Tally {
  start: number;
}

/** The figures of an account, or of one of its keys, over a window and against the window before it. */
export async function readUsage(
  { db, actor, now }: UpToDate,
  { window: name, keyId }: { window: WindowName; keyId?: string | undefined },
): Promise<Usage> {
  const { window, previous } = windowsAt(name, now);
  const of = (table: Totals, ...spans: Span[]) => readTotals(db, table, { accountId: actor.accountId, keyId }, spans);
  const byHour = name === "24h";
  const parts = byHour ? { days: nothing, edges: [window] } : daysAndEdges(window);
  const formerParts = daysAndEdges(previous);
  const [days, hours, formerDays, formerHours] = await db.batch([
    of(usageDayTotals, parts.days),
    of(usageHourTotals, ...parts.edges),
    of(usageDayTotals, formerParts.days),
    of(usageHourTotals, ...formerParts.edges),
  ]);
  const current = [...days, ...hours];
  const histogram = addUp(current.map((row) => row.histogram));
  const tallies = current.flatMap(talliesOf);
  const series = byHour ? seriesOf(tallies, window.from, window.to, hourMs) : seriesOf(tallies, dayStart(window.from), window.to, dayMs);
  return { window, previous, ...figuresOf(tallies, [...formerDays, ...formerHours].flatMap(talliesOf), histogram), series };
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

const talliesOf = ({ start, byStatus }: Totals["$inferSelect"]): TallyAt[] =>
  Object.entries(byStatus).map(([status, [requests, admitted, durationMs]]) => ({
    start,
    status: Number(status),
    requests,
    admitted,
    durationMs,
  }));

function seriesOf(tallies: readonly TallyAt[], from: number, to: number, stepMs: number): SeriesPoint[] {
  const points: SeriesPoint[] = [];
  for (let start = from; start < to; start += stepMs) points.push({ start, requests: 0, successes: 0 });
  for (const tally of tallies) {
    const point = points[Math.floor((tally.start - from) / stepMs)];
    if (!point) continue;
    point.requests += tally.requests;
    if (isSuccess(tally.status)) point.successes += tally.requests;
  }
  return points;
}
