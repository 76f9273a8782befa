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
 * Renders requests over time as bars, with failed requests at the top of each bar. A thin line shows the previous period. A table shows the
 * numbers of the bars.
 */
export const RequestsChart = ({ usage, window, marks = [] }: { usage: Usage; window: WindowName; marks?: readonly Mark[] }) => {
  const { series, previousSeries } = usage;
  const highest = Math.max(...series.map(({ requests }) => requests));
  const scale = scaleOf(series.length, Math.max(highest, ...previousSeries.map(({ requests }) => requests)));
  const before = previousSeries
    .slice(0, series.length)
    .map(({ requests }, index) => `${scale.middle(index).toFixed(1)},${scale.y(requests).toFixed(1)}`);
  const unit = window === "24h" ? "hour" : "day";
  return (
    <figure class="chart">
      <Axes
        id="requests-chart"
        title={`Requests by ${unit}`}
        description={`${integer(usage.totalRequests.value)} requests; at most ${integer(highest)} in one ${unit}. The thin line shows the previous period.`}
        scale={scale}
        starts={series.map(({ start }) => start)}
        window={window}
      >
        {series.map((point, index) => (
          <Bar point={point} x={scale.x(index)} step={scale.step} y={scale.y} name={barName(point.start, window)} />
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
        {usage.notReported > 0 && <span class="key unreported">not reported</span>} <span class="key before">the previous period</span>
        <span class="quiet"> · UTC</span>
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

const Bar = ({ point, x, step, y, name }: { point: SeriesPoint; x: number; step: number; y: (value: number) => number; name: string }) => {
  const inset = step > 6 ? 1.5 : 0.5;
  /** The requests that did not fail, as far as it is known. */
  const known = point.successes + point.notReported;
  const bar = { x: (x + inset).toFixed(1), width: Math.max(1, step - 2 * inset).toFixed(1) };
  return (
    <g>
      <title>
        {`${name}: ${integer(point.requests)} requests, including ${integer(point.requests - known)} that failed or were refused${point.notReported > 0 ? ` and ${integer(point.notReported)} without a reported status` : ""}`}
      </title>
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
