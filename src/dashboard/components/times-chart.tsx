import type { Usage } from "../../usage/read-usage.ts";
import type { WindowName } from "../../usage/windows.ts";
import { barName, milliseconds } from "../format.ts";
import { Axes, scaleOf } from "./axes.tsx";

/** Renders the average response time as a line, and the range from p50 to p95 as a band. */
export const TimesChart = ({ usage, window }: { usage: Usage; window: WindowName }) => {
  const { series } = usage;
  const scale = scaleOf(series.length, Math.max(...series.map(({ p95Ms, averageMs }) => Math.max(p95Ms ?? 0, averageMs ?? 0))));
  const at = (index: number, value: number | null) => `${scale.middle(index).toFixed(1)},${scale.y(value ?? 0).toFixed(1)}`;
  // Skip hours and days without admitted requests.
  const known = series.flatMap((point, index) => (point.averageMs === null ? [] : [{ ...point, index }]));
  const band = [...known.map(({ index, p95Ms }) => at(index, p95Ms)), ...known.toReversed().map(({ index, p50Ms }) => at(index, p50Ms))];
  return (
    <figure class="chart">
      <Axes
        id="times-chart"
        title={`Response time by ${window === "24h" ? "hour" : "day"}`}
        description={`Average ${milliseconds(usage.avgResponseTimeMs.value)}, p50 ${milliseconds(usage.p50Ms)}, p95 ${milliseconds(usage.p95Ms)}, p99 ${milliseconds(usage.p99Ms)}.`}
        scale={scale}
        starts={series.map(({ start }) => start)}
        nameOf={(start) => barName(start, window)}
      >
        <polygon class="band" points={band.join(" ")} />
        <polyline class="line" fill="none" points={known.map(({ index, averageMs }) => at(index, averageMs)).join(" ")} />
      </Axes>
      <figcaption class="legend">
        <span class="key line">average</span> <span class="key band">from p50 to p95</span>{" "}
        <span class="quiet">· milliseconds, lower is better · UTC</span>
      </figcaption>
    </figure>
  );
};
