import { dayMs, dayStart, hourMs } from "../../lib/time/clock.ts";
import { hourName } from "../../lib/time/moments.ts";
import type { SeriesPoint, Usage } from "../../usage/read-usage.ts";
import { type Span, stepOf, type WindowName } from "../../usage/windows.ts";
import { barTime, integer } from "../format.ts";
import { Above, Axes, scaleOf } from "./axes.tsx";
import { SeriesTable, spanOfBar } from "./series-table.tsx";

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
  /** Whether the chart is above a list, which needs the room. */
  isLow?: boolean;
}

/**
 * Renders requests over time as bars, with failed requests at the top of each bar. A line shows the same weekdays before. A table shows the
 * numbers of the bars. With JavaScript, the reader selects a span, which opens `list` for it. Without JavaScript, the table has the links.
 */
export const RequestsChart = ({ series, stepMs, covered, earlier, selected, list, isLow = false }: RequestsChartProps) => {
  const highest = Math.max(...series.map(({ requests }) => requests));
  const line = earlier ? requestsBefore(series, earlier) : [];
  const spanOf = ({ start }: SeriesPoint) => spanOfBar(start, stepMs, covered);
  const isPartial = (point: SeriesPoint) => lengthOf(spanOf(point)) < stepMs;
  const scale = scaleOf(series.length, highestShown(highest, line), isLow ? "low" : "usual");
  // Only whole hours and days can be compared.
  const compared = series.flatMap((point, index) => {
    const requests = line[index];
    return requests === undefined || isPartial(point) ? [] : [{ index, requests }];
  });
  const points = compared.flatMap(({ index, requests }) => {
    const y = scale.y(Math.min(requests, scale.max)).toFixed(1);
    return [`${scale.x(index).toFixed(1)},${y}`, `${scale.x(index + 1).toFixed(1)},${y}`];
  });
  const above = compared.filter(({ requests }) => requests > scale.max);
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
        description={`${integer(series.reduce((sum, { requests }) => sum + requests, 0))} requests; at most ${integer(highest)} in one ${unit}.${before ? ` The line shows the requests ${before}.` : ""}`}
        scale={scale}
        starts={series.map(({ start }) => start)}
        nameOf={tickName(stepMs)}
      >
        {series.map((point, index) => (
          <Bar
            point={point}
            x={scale.x(index)}
            step={scale.step}
            y={scale.y}
            name={barTime(point.start, stepMs)}
            stepMs={stepMs}
            span={spanOf(point)}
            isSelected={isMarked(point)}
          />
        ))}
        {earlier && ["edge", "before"].map((name) => <polyline class={name} fill="none" points={points.join(" ")} />)}
        {above.map(({ index }) => (
          <Above scale={scale} index={index} />
        ))}
      </Axes>
      <figcaption class="legend">
        <span class="key served">succeeded</span> <span class="key refused">failed or refused</span>{" "}
        {series.some(({ notReported }) => notReported > 0) && <span class="key unreported">not reported</span>}{" "}
        {before && <span class="key before">{before}</span>}
        {earlier && earlier.ms >= 28 * dayMs && ", on the same weekdays"}
        {above.length > 0 && (
          <>
            {" "}
            <span class="key over">
              {before}, up to {integer(Math.max(...above.map(({ requests }) => requests)))}
            </span>
          </>
        )}
        {series.some(isPartial) && <span class="quiet"> · hatched: only part of the {unit}</span>} <span class="quiet">· UTC</span>{" "}
        <span class="quiet" data-readout />
      </figcaption>
      <details>
        <summary>Show as a table</summary>
        <SeriesTable series={series} stepMs={stepMs} covered={covered} list={list} />
      </details>
    </figure>
  );
};

/** The space between the two parts of a bar. Their colours alone differ too little. */
const gap = 2;

/** Returns the highest number that a chart shows. If the compared line is far above the bars, it would flatten them, so it is cut off. */
const highestShown = (highest: number, line: readonly number[]): number => {
  const highestOfLine = Math.max(0, ...line);
  return highest > 0 && highestOfLine > 4 * highest ? highest : Math.max(highest, highestOfLine);
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

/**
 * Renders the requests of one hour or day. `name`: the name of the hour or day. `stepMs`: its length. `span`: what is counted of it.
 */
const Bar = ({
  point,
  x,
  step,
  y,
  name,
  stepMs,
  span,
  isSelected = false,
}: {
  point: SeriesPoint;
  x: number;
  step: number;
  y: (value: number) => number;
  name: string;
  stepMs: number;
  span: Span;
  isSelected?: boolean;
}) => {
  const inset = step > 6 ? 1.5 : 0.5;
  /** The requests that did not fail, if it is known. */
  const known = point.successes + point.notReported;
  const bar = { x: (x + inset).toFixed(1), width: Math.max(1, step - 2 * inset).toFixed(1) };
  return (
    <g
      data-from={span.from}
      data-to={span.to}
      data-ends={endName(point.start, stepMs)}
      data-requests={point.requests}
      data-failed={point.requests - known}
      class={isSelected ? "marked" : undefined}
    >
      <title>
        {`${name}: ${integer(point.requests)} requests, including ${integer(point.requests - known)} that failed or were refused${point.notReported > 0 ? ` and ${integer(point.notReported)} without a reported status` : ""}`}
      </title>
      <rect class="hit" x={x.toFixed(1)} width={step.toFixed(1)} y={0} height={y(0)} />
      <rect class="served" {...bar} y={y(point.successes)} height={y(0) - y(point.successes)} />
      {point.notReported > 0 && <rect class="unreported" {...bar} y={y(known)} height={y(point.successes) - y(known)} />}
      <rect
        class="refused"
        {...bar}
        y={y(point.requests)}
        height={Math.max(1, y(known) - y(point.requests) - (known > 0 ? gap : 0)) * Number(point.requests > known)}
      />
      {lengthOf(span) < stepMs && <rect fill="url(#part)" {...bar} y={y(point.requests)} height={y(0) - y(point.requests)} />}
    </g>
  );
};
