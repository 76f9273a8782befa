import { hourMs } from "../../time/clock.ts";
import type { Figures } from "../../usage/figures.ts";
import type { SeriesPoint } from "../../usage/read-usage.ts";
import { barTime, exactMilliseconds, milliseconds, shortTime } from "../format.ts";
import { Axes, scaleOf } from "./axes.tsx";
import { tickName } from "./requests-chart.tsx";

interface TimesChartProps {
  /** The figures that describe the chart. */
  usage: Figures;
  series: readonly SeriesPoint[];
  /** The length of an hour or a day, in milliseconds. */
  stepMs: number;
  /** The address to which a selected span is added. */
  list: string;
}

/** Renders the average response time as a line, and the range from p50 to p95 as a band. */
export const TimesChart = ({ usage, series, stepMs, list }: TimesChartProps) => {
  const scale = scaleOf(series.length, Math.max(...series.map(({ p95Ms, averageMs }) => Math.max(p95Ms ?? 0, averageMs ?? 0))));
  const at = (index: number, value: number | null) => `${scale.middle(index).toFixed(1)},${scale.y(value ?? 0).toFixed(1)}`;
  // Skip hours and days without admitted requests.
  const known = series.flatMap((point, index) => (point.averageMs === null ? [] : [{ ...point, index }]));
  const band = [...known.map(({ index, p95Ms }) => at(index, p95Ms)), ...known.toReversed().map(({ index, p50Ms }) => at(index, p50Ms))];
  return (
    <figure class="chart" data-select={list}>
      <Axes
        id="times-chart"
        title={`Response time by ${stepMs === hourMs ? "hour" : "day"}`}
        description={`Average ${milliseconds(usage.avgResponseTimeMs.value)}, p50 ${milliseconds(usage.p50Ms)}, p95 ${milliseconds(usage.p95Ms)}, p99 ${milliseconds(usage.p99Ms)}.`}
        scale={scale}
        starts={series.map(({ start }) => start)}
        nameOf={tickName(series, stepMs)}
        textOf={shortTime}
      >
        {series.map(({ start, averageMs, p50Ms, p95Ms, p99Ms }, index) => (
          <g data-from={start} data-to={start + stepMs}>
            <title>
              {`${barTime(start, stepMs)}: average ${exactMilliseconds(averageMs)}, p50 ${milliseconds(p50Ms)}, p95 ${milliseconds(p95Ms)}, p99 ${milliseconds(p99Ms)}`}
            </title>
            <rect class="hit" x={scale.x(index).toFixed(1)} width={scale.step.toFixed(1)} y={0} height={scale.y(0)} />
          </g>
        ))}
        <polygon class="band" points={band.join(" ")} />
        <polyline class="line" fill="none" points={known.map(({ index, averageMs }) => at(index, averageMs)).join(" ")} />
      </Axes>
      <figcaption class="legend">
        <span class="key line">average</span> <span class="key band">from p50 to p95</span>{" "}
        <span class="quiet">· lower is better · UTC</span> <span class="quiet" data-readout />
      </figcaption>
    </figure>
  );
};
