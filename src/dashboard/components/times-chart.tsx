import { hourMs } from "../../lib/time/clock.ts";
import type { Figures } from "../../usage/figures.ts";
import type { SeriesPoint } from "../../usage/read-usage.ts";
import type { Span } from "../../usage/windows.ts";
import { barTime, exactMilliseconds, milliseconds, shortTime } from "../format.ts";
import { Above, Axes, scaleOf, usualHighest } from "./axes.tsx";
import { tickName } from "./requests-chart.tsx";
import { barsOf, spanOfBar } from "./series-table.tsx";

interface TimesChartProps {
  /** The figures that describe the chart. */
  usage: Figures;
  series: readonly SeriesPoint[];
  /** The length of an hour or a day, in milliseconds. */
  stepMs: number;
  /** The time that the series covers. */
  covered: Span;
  /** The address to which a selected span is added. */
  list: string;
}

/** Renders the average response time as a line, and the range from p50 to p95 as a band. */
export const TimesChart = ({ usage, series: all, stepMs, covered, list }: TimesChartProps) => {
  const series = barsOf(all, stepMs, covered);
  // Skip hours and days without admitted requests.
  const known = series.flatMap((point, index) => (point.averageMs === null ? [] : [{ ...point, index }]));
  const timeOf = ({ p95Ms, averageMs }: SeriesPoint) => Math.max(p95Ms ?? 0, averageMs ?? 0);
  const scale = scaleOf(series.length, usualHighest(known.map(timeOf)));
  const at = (index: number, value: number | null) =>
    `${scale.middle(index).toFixed(1)},${scale.y(Math.min(value ?? 0, scale.max)).toFixed(1)}`;
  const above = known.filter((point) => timeOf(point) > scale.max);
  const band = [...known.map(({ index, p95Ms }) => at(index, p95Ms)), ...known.toReversed().map(({ index, p50Ms }) => at(index, p50Ms))];
  return (
    <figure class="chart" data-select={list}>
      <Axes
        id="times-chart"
        title={`Response time by ${stepMs === hourMs ? "hour" : "day"}`}
        description={`Average ${milliseconds(usage.avgResponseTimeMs.value)}, p50 ${milliseconds(usage.p50Ms)}, p95 ${milliseconds(usage.p95Ms)}, p99 ${milliseconds(usage.p99Ms)}.`}
        scale={scale}
        starts={series.map(({ start }) => start)}
        nameOf={tickName(stepMs)}
        textOf={shortTime}
      >
        {series.map(({ start, averageMs, p50Ms, p95Ms, p99Ms }, index) => (
          <g data-from={spanOfBar(start, stepMs, covered).from} data-to={spanOfBar(start, stepMs, covered).to}>
            <title>
              {`${barTime(start, stepMs)}: average ${exactMilliseconds(averageMs)}, p50 ${milliseconds(p50Ms)}, p95 ${milliseconds(p95Ms)}, p99 ${milliseconds(p99Ms)}`}
            </title>
            <rect class="hit" x={scale.x(index).toFixed(1)} width={scale.step.toFixed(1)} y={0} height={scale.y(0)} />
          </g>
        ))}
        <polygon class="band" points={band.join(" ")} />
        <polyline class="line" fill="none" points={known.map(({ index, averageMs }) => at(index, averageMs)).join(" ")} />
        {above.map(({ index }) => (
          <Above scale={scale} index={index} />
        ))}
      </Axes>
      <figcaption class="legend">
        <span class="key line">average</span> <span class="key band">from p50 to p95</span>{" "}
        {above.length > 0 && (
          <>
            <span class="key over">
              above {shortTime(scale.max)}:{" "}
              {above.map((point) => `${barTime(point.start, stepMs)} up to ${shortTime(timeOf(point))}`).join(", ")}
            </span>{" "}
          </>
        )}
        <span class="quiet">· lower is better · UTC</span>
      </figcaption>
    </figure>
  );
};
