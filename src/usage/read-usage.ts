import { hourMs } from "../lib/time/clock.ts";
import { averageOf, type Figures, figuresOf, notReportedOf, percentilesOf, requestsOf, statusTotalsOf, successesOf } from "./figures.ts";
import { mergeHistograms } from "./histogram.ts";
import { daysAndHoursOf, type Period, readPeriods, type Wanted } from "./read-periods.ts";
import type { UsageSnapshot } from "./usage-snapshot.ts";
import { type Covered, type Span, spansAt, stepOf } from "./windows.ts";

/** One bar of the chart. `start` is the start of a UTC hour or day. Part of this hour or day can be outside the window. */
export interface SeriesPoint {
  start: number;
  requests: number;
  successes: number;
  notReported: number;
  /** The requests over a limit, which have the status 429. */
  refused: number;
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

/** Returns the figures of an account or of one of its keys. The figures are for the covered time, and for the time that it is compared with. */
export async function readUsage(
  context: UsageSnapshot,
  { window: covered, keyId }: { window: Covered; keyId?: string | undefined },
): Promise<Usage> {
  const { window, previous } = spansAt(covered, context.now);
  const stepMs = stepOf(covered);
  const [wanted, formerWanted] = [wantedFor(window, stepMs, keyId), wantedFor(previous, stepMs, keyId)];
  const periods = await readPeriods(context, [...wanted, ...formerWanted]);
  const [current, former] = [periods.slice(0, wanted.length).flat(), periods.slice(wanted.length).flat()];
  const figures = figuresOf(current.flatMap(totalsOfPeriod), former.flatMap(totalsOfPeriod), histogramOf(current));
  return { window, previous, ...figures, series: seriesOf(current, window, stepMs), previousSeries: seriesOf(former, previous, stepMs) };
}

/** Returns one point for each hour or day of a span of whole hours, of an account or of one of its keys. */
export const readSeries = async (context: UsageSnapshot, span: Span, stepMs: number, keyId: string | undefined): Promise<SeriesPoint[]> =>
  seriesOf((await readPeriods(context, wantedFor(span, stepMs, keyId))).flat(), span, stepMs);

function wantedFor(span: Span, stepMs: number, keyId: string | undefined): Wanted[] {
  const keys = keyId === undefined ? "none" : { id: keyId };
  return stepMs === hourMs ? [{ by: "hour", spans: [span], keys }] : daysAndHoursOf(span, keys);
}

const totalsOfPeriod = ({ totals }: Period) => statusTotalsOf(totals);

const histogramOf = (periods: readonly Period[]) => mergeHistograms(periods.map(({ totals }) => totals.histogram));

/** Returns one point for each hour or day that overlaps with the span. */
function seriesOf(periods: readonly Period[], { from, to }: Span, stepMs: number): SeriesPoint[] {
  const startOf = (timeMs: number) => timeMs - (timeMs % stepMs);
  const byStart = Map.groupBy(periods, (period) => startOf(period.start));
  const points: SeriesPoint[] = [];
  for (let start = startOf(from); start < to; start += stepMs) {
    const own = byStart.get(start) ?? [];
    const rollups = own.flatMap(totalsOfPeriod);
    points.push({
      start,
      requests: requestsOf(rollups),
      successes: successesOf(rollups),
      notReported: notReportedOf(rollups),
      refused: requestsOf(rollups.filter(({ status }) => status === 429)),
      averageMs: averageOf(rollups),
      ...percentilesOf(histogramOf(own)),
    });
  }
  return points;
}
