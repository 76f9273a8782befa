import { dayMs, dayStart, hourMs } from "../../lib/time/clock.ts";
import { hourName } from "../../lib/time/moments.ts";
import type { SeriesPoint, Usage } from "../../usage/read-usage.ts";
import { type Span, stepOf, type WindowName } from "../../usage/windows.ts";
import type { PageContext } from "../context.ts";
import { barTime, counted, integer } from "../format.ts";
import { Above, Axes, type Scale, scaleOf, usualHighest } from "./axes.tsx";
import { barsOf, SeriesTable, spanOfBar } from "./series-table.tsx";

interface RequestsChartProps {
  series: readonly SeriesPoint[];
  /** The length of an hour or a day, in milliseconds. */
  stepMs: number;
  /** The time that the series covers. Bars that are only partly in it are hatched. */
  covered: Span;
  /** The series of an earlier time, and how long before it was. A line shows it behind the bars. */
  earlier?: { series: readonly SeriesPoint[]; ms: number } | undefined;
  /** The span that the page is about. Its bars are marked. */
  selected?: Span | undefined;
  /** The address to which a selected span is added. */
  list: string;
  /** Whether the highest bar decides on the scale, even if it flattens all others, and the address of the other choice. */
  scaling: { isFull: boolean; href: string };
}

/**
 * Renders requests over time as bars: at the top of each bar those that were refused, below them those that failed. A line shows the same weekdays before. A
 * table shows the numbers of the bars. With JavaScript, the reader selects a span, which opens `list` for it. Without JavaScript, the table has the links.
 */
export const RequestsChart = ({ series: all, stepMs, covered, earlier: other, selected, list, scaling }: RequestsChartProps) => {
  const spanOf = ({ start }: SeriesPoint) => spanOfBar(start, stepMs, covered);
  const isPartial = (point: SeriesPoint) => lengthOf(spanOf(point)) < stepMs;
  const series = barsOf(all, stepMs, covered);
  const requests = series.map((point) => point.requests);
  const highest = Math.max(...requests);
  // Nothing can be compared with a time before the first request.
  const earlier = other?.series.some((point) => point.requests > 0 && point.start < covered.from) ? other : undefined;
  const line = earlier ? requestsBefore(series, earlier) : [];
  const usual = usualHighest(requests);
  const scale = scaleOf(series.length, scaling.isFull ? Math.max(highest, ...line) : Math.max(usual, highestOfLine(usual, line)));
  // Only whole hours and days can be compared.
  const compared = series.flatMap((point, index) => {
    const before = line[index];
    return before === undefined || isPartial(point) ? [] : [{ index, before }];
  });
  const points = compared.flatMap(({ index, before }) => {
    const y = scale.y(Math.min(before, scale.max)).toFixed(1);
    return [`${scale.x(index).toFixed(1)},${y}`, `${scale.x(index + 1).toFixed(1)},${y}`];
  });
  const cut = series.filter((point) => point.requests > scale.max);
  const above = compared.filter(({ before }) => before > scale.max);
  const unit = stepMs === hourMs ? "hour" : "day";
  const before = earlier && beforeOf(earlier.ms);
  // If the whole chart is selected, no mark is needed.
  const isWhole = selected !== undefined && selected.from <= covered.from && selected.to >= covered.to;
  const isMarked = ({ start }: SeriesPoint) => selected !== undefined && !isWhole && start < selected.to && start + stepMs > selected.from;
  return (
    <figure class="chart" data-select={list}>
      <Axes
        id="requests-chart"
        title={`Requests by ${unit}`}
        description={`${integer(requests.reduce((sum, each) => sum + each, 0))} requests; at most ${integer(highest)} in one ${unit}.${before ? ` The line shows the requests ${before}.` : ""}`}
        scale={scale}
        starts={series.map(({ start }) => start)}
        nameOf={tickName(stepMs)}
      >
        {series.map((point, index) => (
          <Bar point={point} index={index} scale={scale} stepMs={stepMs} span={spanOf(point)} isSelected={isMarked(point)} />
        ))}
        {earlier && ["edge", "before"].map((name) => <polyline class={name} fill="none" points={points.join(" ")} />)}
        {[...above.map(({ index }) => index), ...cut.map((point) => series.indexOf(point))].map((index) => (
          <Above scale={scale} index={index} />
        ))}
      </Axes>
      <figcaption class="legend">
        <span class="key served">served</span> <span class="key refused">refused</span> <span class="key failed">failed</span>{" "}
        {series.some(({ notReported }) => notReported > 0) && <span class="key unreported">not reported</span>}{" "}
        {before && <span class="key before">{before}</span>}
        {earlier && earlier.ms >= 28 * dayMs && ", on the same weekdays"}
        {above.length > 0 && `, up to ${integer(Math.max(...above.map((each) => each.before)))}`}
        {cut.length > 0 && (
          <>
            {" "}
            <span class="key over">
              cut off: {cut.map((point) => `${barTime(point.start, stepMs)} with ${integer(point.requests)}`).join(", ")}
            </span>
          </>
        )}
        {series.some(isPartial) && <span class="quiet"> · hatched: the {unit} so far</span>} <span class="quiet">· UTC</span>
        {all.length > series.length && all[0] !== undefined && all[0].requests > 0 && (
          <span class="quiet"> · the rest of {barTime(covered.from, stepMs)} is in the table</span>
        )}
        {(cut.length > 0 || scaling.isFull) && (
          <>
            {" "}
            <a href={scaling.href}>{scaling.isFull ? "Cut off the spike" : "Show the full height"}</a>
          </>
        )}
      </figcaption>
      <details>
        <summary>Show as a table</summary>
        <SeriesTable series={all} stepMs={stepMs} covered={covered} list={list} />
      </details>
    </figure>
  );
};

/** Reads whether the query of a page asks for the full height. `here`: the page without it. */
export function scalingOf(c: PageContext, here: string): RequestsChartProps["scaling"] {
  const isFull = c.req.query("scale") === "full";
  return { isFull, href: isFull ? here : `${here}${here.includes("?") ? "&" : "?"}scale=full` };
}

/** The space between the parts of a bar. Their colours alone differ too little. */
const gap = 2;

/** Returns the highest number of the compared line that a chart shows. If the line is far above the bars, it would flatten them, so it is cut off. */
const highestOfLine = (highest: number, line: readonly number[]): number => {
  const most = Math.max(0, ...line);
  return highest > 0 && most > 4 * highest ? 0 : most;
};

const lengthOf = ({ from, to }: Span): number => to - from;

/** Returns the last name of a span that ends with a bar: the day itself, or the end of the hour. */
const endName = (start: number, stepMs: number): string => barTime(stepMs === hourMs ? start + hourMs : start, stepMs);

/** Returns the name of a bar below a chart: a day, or an hour. Midnight has the name of the day that begins. */
export const tickName =
  (stepMs: number) =>
  (start: number): string =>
    stepMs === hourMs && start !== dayStart(start) ? hourName(start) : barTime(start, dayMs);

/** How long before a bar the compared time is, in milliseconds. It has the same weekday, because traffic follows the week. */
const earlierMs: Record<WindowName, number> = { "24h": dayMs, "7d": 7 * dayMs, "30d": 28 * dayMs };

export const chartOf = (usage: Usage, window: WindowName) => ({
  series: usage.series,
  stepMs: stepOf(window),
  covered: usage.window,
  earlier: { series: [...usage.previousSeries, ...usage.series], ms: earlierMs[window] },
});

const numerals = ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];

/** Returns how long before a time was, in words: "a week before". */
export function beforeOf(ms: number): string {
  if (ms === dayMs) return "a day before";
  const weeks = ms / (7 * dayMs);
  return weeks === 1 ? "a week before" : `${numerals[weeks - 2] ?? weeks} weeks before`;
}

/** Returns the requests of the compared time for each bar. */
function requestsBefore(series: readonly SeriesPoint[], { series: earlier, ms }: { series: readonly SeriesPoint[]; ms: number }): number[] {
  // The day on which one window ends and the next begins is in both, with a part of its requests in each.
  const byStart = new Map<number, number>();
  for (const { start, requests } of earlier) byStart.set(start, (byStart.get(start) ?? 0) + requests);
  return series.map(({ start }) => byStart.get(start - ms) ?? 0);
}

interface BarProps {
  point: SeriesPoint;
  index: number;
  scale: Scale;
  stepMs: number;
  /** What is counted of the hour or day. */
  span: Span;
  isSelected: boolean;
}

/** Renders the requests of one hour or day. */
const Bar = ({ point, index, scale, stepMs, span, isSelected }: BarProps) => {
  const { requests, successes, notReported, refused } = point;
  const failed = requests - successes - notReported - refused;
  const inset = scale.step > 6 ? 1.5 : 0.5;
  const bar = { x: (scale.x(index) + inset).toFixed(1), width: Math.max(1, scale.step - 2 * inset).toFixed(1) };
  const parts = { served: successes, unreported: notReported, failed, refused };
  const y = (value: number) => scale.y(Math.min(value, scale.max));
  let below = 0;
  const rects = Object.entries(parts).map(([name, count]) => {
    const from = below;
    below += count;
    const room = from > 0 && name !== "unreported" ? gap : 0;
    return count > 0 && <rect class={name} {...bar} y={y(below)} height={Math.max(1, y(from) - y(below) - room)} />;
  });
  return (
    <g
      data-from={span.from}
      data-to={span.to}
      data-ends={endName(point.start, stepMs)}
      data-requests={requests}
      data-failed={failed}
      data-refused={refused}
      class={isSelected ? "marked" : undefined}
    >
      <title>
        {`${barTime(point.start, stepMs)}: ${counted(requests, "request")}, ${integer(failed)} failed, ${integer(refused)} refused${notReported > 0 ? `, ${integer(notReported)} without a reported status` : ""}`}
      </title>
      <rect class="hit" x={scale.x(index).toFixed(1)} width={scale.step.toFixed(1)} y={0} height={y(0)} />
      {rects}
      {lengthOf(span) < stepMs && <rect fill="url(#part)" {...bar} y={y(requests)} height={y(0) - y(requests)} />}
    </g>
  );
};
