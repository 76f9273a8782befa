import { dayMs, hourMs } from "../../time/clock.ts";
import { rateOf } from "../../usage/figures.ts";
import type { SeriesPoint, Usage } from "../../usage/read-usage.ts";
import type { WindowName } from "../../usage/windows.ts";
import { barName, exactMilliseconds, integer, milliseconds, rate } from "../format.ts";
import { Axes, scaleOf } from "./axes.tsx";

/** A change in the account that a chart shows as a vertical line. */
export interface Mark {
  timeMs: number;
  text: string;
}

/**
 * Renders requests over time as bars, with failed requests at the top of each bar. A line shows the same weekdays before. A table shows the
 * numbers of the bars. With JavaScript, the reader selects a span, which opens the list of its requests. `list`: the address of this list.
 */
export const RequestsChart = ({
  usage,
  window,
  marks = [],
  list = "/activity",
}: {
  usage: Usage;
  window: WindowName;
  marks?: readonly Mark[];
  list?: string;
}) => {
  const { series, previousSeries } = usage;
  const highest = Math.max(...series.map(({ requests }) => requests));
  const earlier = earlierOf(series, previousSeries, window);
  const scale = scaleOf(series.length, Math.max(highest, ...earlier));
  const before = earlier.flatMap((requests, index) => {
    const y = scale.y(requests).toFixed(1);
    return [`${scale.x(index).toFixed(1)},${y}`, `${scale.x(index + 1).toFixed(1)},${y}`];
  });
  const unit = window === "24h" ? "hour" : "day";
  return (
    <figure class="chart" data-select={list}>
      <Axes
        id="requests-chart"
        title={`Requests by ${unit}`}
        description={`${integer(usage.totalRequests.value)} requests; at most ${integer(highest)} in one ${unit}. The line shows the requests ${comparedWith[window]}.`}
        scale={scale}
        starts={series.map(({ start }) => start)}
        nameOf={(start) => barName(start, window)}
      >
        {series.map((point, index) => (
          <Bar
            point={point}
            x={scale.x(index)}
            step={scale.step}
            y={scale.y}
            name={barName(point.start, window)}
            stepMs={window === "24h" ? hourMs : dayMs}
          />
        ))}
        <polyline class="before" fill="none" points={before.join(" ")} />
        {marks.map(({ timeMs, text }) => {
          const x = scale.middle(series.findLastIndex(({ start }) => start <= timeMs)).toFixed(1);
          return (
            <line class="mark" x1={x} x2={x} y1={0} y2={scale.y(0)}>
              <title>{`${barName(timeMs, window)}: ${text}`}</title>
            </line>
          );
        })}
      </Axes>
      <figcaption class="legend">
        <span class="key served">succeeded</span> <span class="key refused">failed or refused</span>{" "}
        {usage.notReported > 0 && <span class="key unreported">not reported</span>} <span class="key before">{comparedWith[window]}</span>
        <span class="quiet"> · UTC</span> <span class="quiet" data-readout />
      </figcaption>
      {marks.length > 0 && (
        <ul class="marks" aria-label="Changes in this period">
          {marks.map(({ timeMs, text }) => (
            <li>
              <span class="quiet">┆ {barName(timeMs, window)}</span> {text}
            </li>
          ))}
        </ul>
      )}
      <details>
        <summary>Show as a table</summary>
        <SeriesTable series={series} window={window} />
      </details>
    </figure>
  );
};

/** How long before a bar the compared time is, in milliseconds. It has the same weekday, because traffic follows the week. */
const earlierMs: Record<WindowName, number> = { "24h": dayMs, "7d": 7 * dayMs, "30d": 28 * dayMs };
const comparedWith: Record<WindowName, string> = { "24h": "a day before", "7d": "a week before", "30d": "four weeks before" };

/** Returns the requests of the compared time for each bar. */
function earlierOf(series: readonly SeriesPoint[], previousSeries: readonly SeriesPoint[], window: WindowName): number[] {
  const byStart = new Map([...previousSeries, ...series].map(({ start, requests }) => [start, requests]));
  return series.map(({ start }) => byStart.get(start - earlierMs[window]) ?? 0);
}

/** Renders the requests of one hour or day. `name`: the name of the hour or day. `stepMs`: its length. */
export const Bar = ({
  point,
  x,
  step,
  y,
  name,
  stepMs,
}: {
  point: SeriesPoint;
  x: number;
  step: number;
  y: (value: number) => number;
  name: string;
  stepMs: number;
}) => {
  const inset = step > 6 ? 1.5 : 0.5;
  /** The requests that did not fail, as far as it is known. */
  const known = point.successes + point.notReported;
  const bar = { x: (x + inset).toFixed(1), width: Math.max(1, step - 2 * inset).toFixed(1) };
  return (
    <g data-from={point.start} data-to={point.start + stepMs}>
      <title>
        {`${name}: ${integer(point.requests)} requests, including ${integer(point.requests - known)} that failed or were refused${point.notReported > 0 ? ` and ${integer(point.notReported)} without a reported status` : ""}`}
      </title>
      <rect class="hit" x={x.toFixed(1)} width={step.toFixed(1)} y={0} height={y(0)} />
      <rect class="served" {...bar} y={y(point.successes)} height={y(0) - y(point.successes)} />
      {point.notReported > 0 && <rect class="unreported" {...bar} y={y(known)} height={y(point.successes) - y(known)} />}
      <rect class="refused" {...bar} y={y(point.requests)} height={y(known) - y(point.requests)} />
    </g>
  );
};

/** Renders a table of requests and response times, by hour or by day. */
export const SeriesTable = ({ series, window }: { series: readonly SeriesPoint[]; window: WindowName }) => (
  <section class="scroll" tabindex={0} aria-label="Requests and response times over time">
    <table class="cards">
      <thead>
        <tr>
          <th scope="col">{window === "24h" ? "Hour (UTC)" : "Day (UTC)"}</th>
          <th scope="col" class="number">
            Requests
          </th>
          <th scope="col" class="number">
            Success rate
          </th>
          <th scope="col" class="number">
            Average
          </th>
          <th scope="col" class="number">
            p50
          </th>
          <th scope="col" class="number">
            p95
          </th>
          <th scope="col" class="number">
            p99
          </th>
        </tr>
      </thead>
      <tbody>
        {series.map((point) => (
          <tr>
            <th scope="row">{barName(point.start, window)}</th>
            <td class="number" data-label="Requests">
              {integer(point.requests)}
            </td>
            <td class="number" data-label="Success">
              {rate(rateOf(point))}
            </td>
            <td class="number" data-label="Average">
              {exactMilliseconds(point.averageMs)}
            </td>
            <td class="number" data-label="p50">
              {milliseconds(point.p50Ms)}
            </td>
            <td class="number" data-label="p95">
              {milliseconds(point.p95Ms)}
            </td>
            <td class="number" data-label="p99">
              {milliseconds(point.p99Ms)}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  </section>
);
