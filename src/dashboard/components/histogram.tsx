import type { SeriesPoint } from "../../usage/read-usage.ts";
import { barTime, integer } from "../format.ts";
import { Axes, scaleOf } from "./axes.tsx";

/**
 * Renders requests over time as bars. With JavaScript, the reader selects a span of time by dragging over the bars, or with the arrow keys. Without it, a
 * table links to each hour or day. `stepMs`: the length of an hour or a day. `list`: the address of the list without a span. `addressOf`: returns the
 * address for a span.
 */
export const Histogram = ({
  series,
  stepMs,
  list,
  addressOf,
}: {
  series: readonly SeriesPoint[];
  stepMs: number;
  list: string;
  addressOf: (from: number, to: number) => string;
}) => {
  const highest = Math.max(...series.map(({ requests }) => requests));
  const scale = scaleOf(series.length, highest);
  const inset = scale.step > 6 ? 1.5 : 0.5;
  const width = Math.max(1, scale.step - 2 * inset).toFixed(1);
  return (
    <figure class="chart histogram" data-select={list}>
      <Axes
        id="histogram"
        title="Requests over time"
        description={`At most ${integer(highest)} requests in one bar.`}
        scale={scale}
        starts={series.map(({ start }) => start)}
        nameOf={(start) => barTime(start, stepMs)}
      >
        {series.map(({ start, requests, successes, notReported }, index) => {
          const known = successes + notReported;
          const bar = { x: (scale.x(index) + inset).toFixed(1), width };
          return (
            <g data-from={start} data-to={start + stepMs}>
              <title>{`${barTime(start, stepMs)}: ${integer(requests)} requests, including ${integer(requests - known)} that failed or were refused`}</title>
              <rect class="hit" x={scale.x(index).toFixed(1)} width={scale.step.toFixed(1)} y={0} height={scale.y(0)} />
              <rect class="served" {...bar} y={scale.y(successes)} height={scale.y(0) - scale.y(successes)} />
              {notReported > 0 && <rect class="unreported" {...bar} y={scale.y(known)} height={scale.y(successes) - scale.y(known)} />}
              <rect class="refused" {...bar} y={scale.y(requests)} height={scale.y(known) - scale.y(requests)} />
            </g>
          );
        })}
      </Axes>
      <figcaption class="legend">
        <span class="key served">succeeded</span> <span class="key refused">failed or refused</span> <span class="quiet">· UTC</span>{" "}
        <span class="quiet" data-readout />
      </figcaption>
      <details>
        <summary>Show as a table</summary>
        <ul class="lines">
          {series
            .filter(({ requests }) => requests > 0)
            .map(({ start, requests, successes, notReported }) => (
              <li>
                <a href={addressOf(start, start + stepMs)}>{barTime(start, stepMs)}</a> {integer(requests)} requests{" "}
                <span class="quiet">{integer(requests - successes - notReported)} failed or refused</span>
              </li>
            ))}
        </ul>
      </details>
    </figure>
  );
};
