import { hourMs, iso } from "../../lib/time/clock.ts";
import { rateOf } from "../../usage/figures.ts";
import type { SeriesPoint } from "../../usage/read-usage.ts";
import type { Span } from "../../usage/windows.ts";
import { barTime, exactMilliseconds, integer, milliseconds, rate } from "../format.ts";
import { Columns, NumberCell } from "./columns.tsx";

/** Returns the span that a bar counts. The first and the last bar of a chart may count only a part of their hour or day. */
export const spanOfBar = (start: number, stepMs: number, covered: Span): Span => ({
  from: Math.max(start, covered.from),
  to: Math.min(start + stepMs, covered.to),
});

/** Returns the bars of a chart: the series without a first hour or day that is covered only in part, because it cannot be compared with the others. */
export function barsOf(series: readonly SeriesPoint[], stepMs: number, covered: Span): readonly SeriesPoint[] {
  const [first] = series;
  return series.length > 2 && first && spanOfBar(first.start, stepMs, covered).from > first.start ? series.slice(1) : series;
}

/** Returns an address with a span added. */
function withSpan(list: string, { from, to }: Span): string {
  const [path = "", query = ""] = list.split("?");
  return `${path}?${new URLSearchParams([...new URLSearchParams(query), ["from", iso(from)], ["to", iso(to)]])}`;
}

const figures = ["Requests", "Success rate", "Average", "p50", "p95", "p99"];

/** Renders a table of requests and response times, by hour or by day. */
export const SeriesTable = ({
  series,
  stepMs,
  covered,
  list,
}: {
  series: readonly SeriesPoint[];
  stepMs: number;
  covered: Span;
  list: string;
}) => (
  <section class="scroll" tabindex={0} aria-label="Requests and response times over time">
    <table class="cards">
      <Columns of={[stepMs === hourMs ? "Hour (UTC)" : "Day (UTC)", ...figures.map((name) => ({ name, isNumber: true }))]} />
      <tbody>
        {series.map((point) => (
          <tr>
            <th scope="row">
              <a href={withSpan(list, spanOfBar(point.start, stepMs, covered))}>{barTime(point.start, stepMs)}</a>
            </th>
            <NumberCell label="Requests">{integer(point.requests)}</NumberCell>
            <NumberCell label="Success">{rate(rateOf(point))}</NumberCell>
            <NumberCell label="Average">{exactMilliseconds(point.averageMs)}</NumberCell>
            <NumberCell label="p50">{milliseconds(point.p50Ms)}</NumberCell>
            <NumberCell label="p95">{milliseconds(point.p95Ms)}</NumberCell>
            <NumberCell label="p99">{milliseconds(point.p99Ms)}</NumberCell>
          </tr>
        ))}
      </tbody>
    </table>
  </section>
);
