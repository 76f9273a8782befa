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

/**
 * Returns one point for each hour or day of a span of whole hours. `keyId` and `route`: count only the requests of this key, or to this route. `counts`:
 * returns whether requests with a status count.
 */
export async function readSeries(
  context: UsageSnapshot,
  span: Span,
  stepMs: number,
  { keyId, ...of }: { keyId?: string | undefined } & Counted = {},
): Promise<SeriesPoint[]> {
  return seriesOf((await readPeriods(context, wantedFor(span, stepMs, keyId, of.route !== undefined))).flat(), span, stepMs, of);
}

/** Which requests count: those to a route, and those with certain statuses. */
interface Counted {
  route?: string | undefined;
  counts?: ((status: number) => boolean) | undefined;
}

/** `byRoute`: whether the periods must tell routes apart. The totals of an account do not, and those of its keys do. */
function wantedFor(span: Span, stepMs: number, keyId: string | undefined, byRoute = false): Wanted[] {
  const keys = keyId !== undefined ? { id: keyId } : byRoute ? "all" : "none";
  return stepMs === hourMs ? [{ by: "hour", spans: [span], keys }] : daysAndHoursOf(span, keys);
}

const cellsOf = ({ rollups }: Period) => [...rollups.values()].flatMap(({ cells }) => [...cells.values()]);

const totalsOfPeriod = ({ totals }: Period) => statusTotalsOf(totals);

const histogramOf = (periods: readonly Period[]) => mergeHistograms(periods.map(({ totals }) => totals.histogram));

/** Returns one point for each hour or day that overlaps with the span. */
function seriesOf(periods: readonly Period[], { from, to }: Span, stepMs: number, { route, counts }: Counted = {}): SeriesPoint[] {
  const startOf = (timeMs: number) => timeMs - (timeMs % stepMs);
  const byStart = Map.groupBy(periods, (period) => startOf(period.start));
  const points: SeriesPoint[] = [];
  for (let start = startOf(from); start < to; start += stepMs) {
    const own = byStart.get(start) ?? [];
    const rollups = own
      .flatMap((period) => (route === undefined ? totalsOfPeriod(period) : cellsOf(period).filter((cell) => cell.route === route)))
      .filter(({ status }) => counts?.(status) ?? true);
    points.push({
      start,
      requests: requestsOf(rollups),
      successes: successesOf(rollups),
      notReported: notReportedOf(rollups),
      averageMs: averageOf(rollups),
      // The histograms tell neither statuses nor routes apart.
      ...percentilesOf(counts || route !== undefined ? mergeHistograms([]) : histogramOf(own)),
    });
  }
  return points;
}
