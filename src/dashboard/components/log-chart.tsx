import { dayMs } from "../../lib/time/clock.ts";
import type { SeriesPoint } from "../../usage/read-usage.ts";
import type { Span } from "../../usage/windows.ts";
import { counted, spanOf } from "../format.ts";
import { type ActivityQuery, addressOf } from "../pages/activity/query.ts";
import { stepOfBars } from "../pages/activity/spans.ts";
import { RequestsChart } from "./requests-chart.tsx";

interface LogChartProps {
  query: ActivityQuery;
  series: readonly SeriesPoint[];
  /** The span of the bars. */
  span: Span;
  /** The span of the list, in whole hours. */
  listed: Span;
  /** Whether the list is older than the last 24 hours, although no time was chosen. */
  isOlder: boolean;
}

const total = (series: readonly SeriesPoint[]): number => series.reduce((sum, { requests }) => sum + requests, 0);

const isSame = (one: Span, other: Span): boolean => one.from === other.from && one.to === other.to;

/** Returns the sentence above the bars: how many requests they show, and how that differs from the list below. */
function sentenceOf({ query, series, span, listed }: LogChartProps): string {
  // Requests are not counted by method and path.
  const all = [query.method && "methods", query.path && "paths"].filter(Boolean).join(" and ");
  const isOfAll = all !== "";
  const shown = isOfAll ? `${counted(total(series), "request")} of all ${all}` : counted(total(series), "request");
  if (query.from === undefined && query.to === undefined)
    return `${shown} in the last ${span.to - span.from > dayMs ? "30 days" : "24 hours"}`;
  const chart = `Chart: ${shown}, ${spanOf(span)} UTC.`;
  const stepMs = stepOfBars(span);
  const { from = listed.from, to = listed.to } = query;
  const isOfWholeBars = from % stepMs === 0 && (to % stepMs === 0 || to >= listed.to);
  if (isOfWholeBars && isSame(span, listed)) return chart;
  if (isOfAll || !isOfWholeBars) return `${chart} The list below has only the time of the filter.`;
  const inFilter = series.filter(({ start }) => start >= listed.from && start < listed.to);
  return `${counted(total(inFilter), "request")} in the time of the filter. ${chart}`;
}

/** Renders the requests of the log over time. Renders nothing if there are none. */
export const LogChart = (props: LogChartProps) => {
  const { query, series, span, listed, isOlder } = props;
  if (total(series) === 0) return null;
  return (
    <section class="panel" aria-label="Requests over time">
      <p class="quiet">
        {sentenceOf(props)}
        {query.from !== undefined && query.to !== undefined && (
          <>
            {" "}
            <a href={addressOf("/usage", { from: query.from, to: query.to, key_id: query.key_id })}>What differs in this time</a>
          </>
        )}
      </p>
      <RequestsChart
        series={series}
        stepMs={stepOfBars(span)}
        covered={span}
        selected={isOlder ? undefined : listed}
        list={addressOf("/activity", { ...query, from: undefined, to: undefined })}
        isLow
      />
    </section>
  );
};
