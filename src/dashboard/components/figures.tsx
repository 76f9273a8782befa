import type { NearestLimit, RateLimitUsage } from "../../admission/rate-limit-usage.ts";
import type { Hour } from "../../usage/hours.ts";
import type { Usage } from "../../usage/read-usage.ts";
import { daysOf, exactMilliseconds, integer, milliseconds, rate, signed } from "../format.ts";
import { type Change, Figure } from "./figure.tsx";
import { RateLimitFigure } from "./rate-limit-figure.tsx";

/** Formats milliseconds without the unit, for text that already contains the unit. */
const wholeMs = (value: number | null) => milliseconds(value).replace(" ms", "");

interface Comparison {
  better: "higher" | "lower" | "neither";
  /** The number of decimals to show. A change that rounds to zero is neither better nor worse. */
  decimals: number;
  /** A smaller change is shown, but it is neither better nor worse. */
  threshold: number;
  unit: string;
  /** The value of the window before, as text. */
  former: string;
}

function changeOf(value: number | null, span: string, { better, decimals, threshold, unit, former }: Comparison): Change {
  if (value === null) return { shown: "new", meaning: "neutral", sentence: "" };
  const seen = Number(value.toFixed(decimals));
  const isBetter = better === "higher" ? seen > 0 : seen < 0;
  const isSmall = seen === 0 || Math.abs(seen) < threshold;
  return {
    shown: `${signed(seen, decimals)}${unit}`,
    meaning: better === "neither" || isSmall ? "neutral" : isBetter ? "better" : "worse",
    sentence: `against ${former}, ${span}`,
  };
}

/** A change of the success rate by less than this is usual, in percentage points. */
const usualPoints = 1;
/** A change of the average response time by less than this share of the previous one is usual. */
const usualShare = 0.1;

/** Renders the four usage figures of a window. Every figure except Rate Limit Usage also shows the change from the previous window. */
export const Figures = ({
  usage,
  highest,
  nearest,
  now,
  title = "API Usage - Last 30 Days",
  page = "/usage",
  before,
  busiest = null,
  isPast = false,
  isOfKey = false,
  isUsual = false,
}: {
  usage: Usage;
  highest: RateLimitUsage | null;
  /** The limit that is nearest its end, which can be one of a day, a month or all keys together. */
  nearest: NearestLimit | null;
  now: number;
  title?: string;
  /** The page of usage that shows the charts of the figures. It is empty if that is the present page. */
  page?: string;
  /** The name of the previous window. The default name is the first and last day of that window. */
  before?: string | undefined;
  /** The hour with the most requests in the window. */
  busiest?: Hour | null;
  /** Whether the window ended before the present hour. */
  isPast?: boolean;
  /** Whether the figures are those of one key. */
  isOfKey?: boolean;
  /** Whether the page says that nothing differs notably. No change is then better or worse. */
  isUsual?: boolean;
}) => {
  const { totalRequests, successRate, avgResponseTimeMs, previous } = usage;
  const span = before ?? daysOf(previous);
  /** Returns how a figure has changed. Without requests before, it is only new, and without requests now, nothing is said. */
  const change = (value: number | null, compared: Comparison) => (totalRequests.value > 0 ? changeOf(value, span, compared) : undefined);
  return (
    <section aria-labelledby="usage">
      <h2 id="usage">{title}</h2>
      <div class="figures">
        <Figure
          name="Total Requests"
          href={`${page}#requests`}
          value={integer(totalRequests.value)}
          change={change(totalRequests.changePercent, {
            better: "neither",
            decimals: 1,
            threshold: 0,
            unit: "%",
            former: integer(totalRequests.previous),
          })}
        />
        <Figure
          name="Success Rate"
          href={`${page}#requests`}
          value={rate(successRate.value)}
          change={change(successRate.changePoints, {
            better: "higher",
            decimals: 2,
            threshold: isUsual ? Number.POSITIVE_INFINITY : usualPoints,
            unit: " points",
            former: rate(successRate.previous),
          })}
        />
        <Figure
          name="Avg Response Time"
          href={`${page}#times`}
          value={milliseconds(avgResponseTimeMs.value)}
          detail={
            usage.p50Ms === null
              ? undefined
              : `p50 ${wholeMs(usage.p50Ms)} · p95 ${wholeMs(usage.p95Ms)} · p99 ${milliseconds(usage.p99Ms).replace(" ", "\u00a0")}`
          }
          change={change(avgResponseTimeMs.changeMs, {
            better: "lower",
            decimals: 1,
            threshold: isUsual ? Number.POSITIVE_INFINITY : usualShare * (avgResponseTimeMs.previous ?? 0),
            unit: " ms",
            former: exactMilliseconds(avgResponseTimeMs.previous),
          })}
        />
        <RateLimitFigure
          highest={highest}
          denied={usage.byClass["429"]}
          busiest={busiest}
          isPast={isPast}
          isOfKey={isOfKey}
          nearest={nearest}
          now={now}
        />
      </div>
    </section>
  );
};
