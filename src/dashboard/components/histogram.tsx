import type { SeriesPoint } from "../../usage/read-usage.ts";
import type { Span } from "../../usage/windows.ts";
import { barTime, integer } from "../format.ts";
import { Axes, scaleOf } from "./axes.tsx";
import { Bar, tickName } from "./requests-chart.tsx";

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
  selected,
}: {
  series: readonly SeriesPoint[];
  stepMs: number;
  list: string;
  addressOf: (from: number, to: number) => string;
  /** The span of the list, if it is only a part of the bars. */
  selected: Span | undefined;
}) => {
  const highest = Math.max(...series.map(({ requests }) => requests));
  const scale = scaleOf(series.length, highest);
  return (
    <figure class="chart histogram" data-select={list}>
      <Axes
        id="histogram"
        title="Requests over time"
        description={`At most ${integer(highest)} requests in one bar.`}
        scale={scale}
        starts={series.map(({ start }) => start)}
        nameOf={tickName(series, stepMs)}
      >
        {series.map((point, index) => (
          <Bar
            point={point}
            x={scale.x(index)}
            step={scale.step}
            y={scale.y}
            name={barTime(point.start, stepMs)}
            stepMs={stepMs}
            isSelected={selected !== undefined && point.start < selected.to && point.start + stepMs > selected.from}
          />
        ))}
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
