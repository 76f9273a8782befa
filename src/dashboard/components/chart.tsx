import { percent } from "../../percent.ts";
import type { SeriesPoint, Usage } from "../../usage/read-usage.ts";
import type { WindowName } from "../../usage/windows.ts";
import { barName, exactMilliseconds, integer, milliseconds, rate, short } from "../format.ts";

const width = 960;
const height = 200;
const left = 60;
const bottom = 22;
const top = 8;
const plotWidth = width - left;
const plotHeight = height - bottom - top;

/** Names at the edges stay inside of the picture. */
const anchorAt = (index: number, count: number) => (index === 0 ? "start" : index > count - 2 ? "end" : "middle");

/** A number at or above the highest value, a quarter of which is round: 1, 2 or 5 times a power of ten. */
export function roundedUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value / 4)));
  return [1, 2, 5, 10].map((step) => 4 * step * power).find((top) => top >= value) ?? 40 * power;
}

/** Something that happened to the account in a window. */
export interface Mark {
  timeMs: number;
  text: string;
}

/** Requests over time as bars, what failed of them at their tops, the period before as a thin line; the same as a table. */
export const RequestsChart = ({ usage, window, marks = [] }: { usage: Usage; window: WindowName; marks?: readonly Mark[] }) => {
  const { series, previousSeries } = usage;
  const most = roundedUp(Math.max(...series.map(({ requests }) => requests), ...previousSeries.map(({ requests }) => requests), 1));
  const step = plotWidth / series.length;
  const y = (value: number) => top + plotHeight - (value / most) * plotHeight;
  const x = (index: number) => left + index * step;
  const labelled = Math.ceil(series.length / 6);
  const before = series
    .map((_, index) => previousSeries[index])
    .flatMap((point, index) => (point ? [`${(x(index) + step / 2).toFixed(1)},${y(point.requests).toFixed(1)}`] : []));
  return (
    <figure class="chart">
      <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-labelledby="chart-title chart-desc">
        <title id="chart-title">Requests by {window === "24h" ? "hour" : "day"}</title>
        <desc id="chart-desc">
          {`${integer(usage.totalRequests.value)} requests; at most ${integer(Math.max(...series.map(({ requests }) => requests)))} in one ${window === "24h" ? "hour" : "day"}. The thin line is the period before.`}
        </desc>
        {[0, 0.25, 0.5, 0.75, 1].map((share) => (
          <>
            <line class={share === 0 ? "zero" : "grid"} x1={left} x2={width} y1={y(most * share)} y2={y(most * share)} />
            <text class="tick" x={left - 6} y={y(most * share) + 4} text-anchor="end">
              {short(most * share)}
            </text>
          </>
        ))}
        {series.map((point, index) => (
          <Bar point={point} x={x(index)} step={step} y={y} name={barName(point.start, window)} />
        ))}
        <polyline class="before" fill="none" points={before.join(" ")} />
        {marks.map(({ timeMs, text }) => {
          const at = x(series.findLastIndex(({ start }) => start <= timeMs)) + step / 2;
          return (
            <g>
              <title>{`${barName(timeMs, window)}: ${text}`}</title>
              <path class="mark" d={`M${(at - 5).toFixed(1)} 0h10l-5 8z`} />
            </g>
          );
        })}
        {series.map((point, index) =>
          index % labelled === 0 ? (
            <text class="tick" x={x(index) + step / 2} y={height - 6} text-anchor={anchorAt(index, series.length)}>
              {barName(point.start, window)}
            </text>
          ) : null,
        )}
      </svg>
      <figcaption class="legend">
        <span class="key served">succeeded</span> <span class="key refused">failed or refused</span>{" "}
        <span class="key before">the period before</span>
        <span class="quiet"> · UTC</span>
      </figcaption>
      {marks.length > 0 && (
        <ul class="marks" aria-label="What happened">
          {marks.map(({ timeMs, text }) => (
            <li>
              <span class="quiet">▾ {barName(timeMs, window)}</span> {text}
            </li>
          ))}
        </ul>
      )}
      <details>
        <summary>The same as a table</summary>
        <SeriesTable series={series} window={window} />
      </details>
    </figure>
  );
};

const Bar = ({ point, x, step, y, name }: { point: SeriesPoint; x: number; step: number; y: (value: number) => number; name: string }) => {
  const inset = step > 6 ? 1.5 : 0.5;
  const bar = { x: (x + inset).toFixed(1), width: Math.max(1, step - 2 * inset).toFixed(1) };
  return (
    <g>
      <title>{`${name}: ${integer(point.requests)} requests, ${integer(point.requests - point.successes)} of them failed or refused`}</title>
      <rect class="served" {...bar} y={y(point.successes)} height={y(0) - y(point.successes)} />
      <rect class="refused" {...bar} y={y(point.requests)} height={y(point.successes) - y(point.requests)} />
    </g>
  );
};

/** Average response time as a line, and a band from p50 to p95. */
export const TimesChart = ({ usage, window }: { usage: Usage; window: WindowName }) => {
  const { series } = usage;
  const most = roundedUp(Math.max(...series.map(({ p95Ms, averageMs }) => Math.max(p95Ms ?? 0, averageMs ?? 0)), 1));
  const step = plotWidth / series.length;
  const y = (value: number) => top + plotHeight - (value / most) * plotHeight;
  const at = (index: number, value: number) => `${(left + (index + 0.5) * step).toFixed(1)},${y(value).toFixed(1)}`;
  const known = series.flatMap((point, index) => (point.averageMs === null ? [] : [{ ...point, index }]));
  const band = [
    ...known.map(({ index, p95Ms }) => at(index, p95Ms ?? 0)),
    ...known.toReversed().map(({ index, p50Ms }) => at(index, p50Ms ?? 0)),
  ];
  const labelled = Math.ceil(series.length / 6);
  return (
    <figure class="chart">
      <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-labelledby="times-title times-desc">
        <title id="times-title">Response time by {window === "24h" ? "hour" : "day"}</title>
        <desc id="times-desc">{`Average ${milliseconds(usage.avgResponseTimeMs.value)}, p50 ${milliseconds(usage.p50Ms)}, p95 ${milliseconds(usage.p95Ms)}, p99 ${milliseconds(usage.p99Ms)}.`}</desc>
        {[0, 0.25, 0.5, 0.75, 1].map((share) => (
          <>
            <line class={share === 0 ? "zero" : "grid"} x1={left} x2={width} y1={y(most * share)} y2={y(most * share)} />
            <text class="tick" x={left - 6} y={y(most * share) + 4} text-anchor="end">
              {short(most * share)}
            </text>
          </>
        ))}
        <polygon class="band" points={band.join(" ")} />
        <polyline class="line" fill="none" points={known.map(({ index, averageMs }) => at(index, averageMs ?? 0)).join(" ")} />
        {series.map((point, index) =>
          index % labelled === 0 ? (
            <text class="tick" x={left + (index + 0.5) * step} y={height - 6} text-anchor={anchorAt(index, series.length)}>
              {barName(point.start, window)}
            </text>
          ) : null,
        )}
      </svg>
      <figcaption class="legend">
        <span class="key line">average</span> <span class="key band">p50 to p95</span>{" "}
        <span class="quiet">· milliseconds, lower is better · UTC</span>
      </figcaption>
    </figure>
  );
};

const SeriesTable = ({ series, window }: { series: readonly SeriesPoint[]; window: WindowName }) => (
  <section class="scroll" tabindex={0} aria-label="Requests and response times over time">
    <table>
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
            <td class="number">{integer(point.requests)}</td>
            <td class="number">{rate(point.requests === 0 ? null : percent(point.successes, point.requests))}</td>
            <td class="number">{exactMilliseconds(point.averageMs)}</td>
            <td class="number">{milliseconds(point.p50Ms)}</td>
            <td class="number">{milliseconds(point.p95Ms)}</td>
            <td class="number">{milliseconds(point.p99Ms)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  </section>
);

/** Seven days in the room of a word. */
export const Sparkline = ({ counts }: { counts: readonly number[] }) => {
  const most = Math.max(...counts, 1);
  const total = counts.reduce((sum, count) => sum + count, 0);
  return (
    <svg class="spark" viewBox="0 0 70 20" width="70" height="20" role="img" aria-label={`${integer(total)} requests in seven days`}>
      {counts.map((count, index) => (
        <rect class="served" x={index * 10 + 1} width="8" y={19 - (count / most) * 18} height={(count / most) * 18 + 1} />
      ))}
    </svg>
  );
};
