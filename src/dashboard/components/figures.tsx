import type { NearestLimit, RateLimitUsage } from "../../admission/rate-limit-usage.ts";
import { dayMs, hourMs, minuteMs } from "../../lib/time/clock.ts";
import { timeOfDay } from "../../lib/time/moments.ts";
import type { Hour } from "../../usage/hours.ts";
import { percent } from "../../usage/percent.ts";
import type { Usage } from "../../usage/read-usage.ts";
import {
  barTime,
  countdown,
  counted,
  dash,
  daysOf,
  exactMilliseconds,
  integer,
  milliseconds,
  rate,
  signed,
  wholePercent,
} from "../format.ts";

interface Change {
  /** The change as text, for example "+12.5%" or "new". */
  shown: string;
  /** The meaning of the change. The page shows the meaning as a word and as a color. */
  meaning: "better" | "worse" | "neutral";
  /** The previous value and its period, as text. */
  sentence: string;
}

const Figure = ({
  name,
  value,
  detail,
  change,
  noChange,
  percentUsed,
  href,
}: {
  name: string;
  value: string;
  detail?: string | undefined;
  change?: Change;
  noChange?: string;
  /** The share of a limit that is used, which the figure shows as a bar. */
  percentUsed?: number;
  href: string;
}) => (
  <div class="panel figure">
    <h3>
      <a class="whole" href={href}>
        {name}
      </a>
    </h3>
    <p class="value">{value}</p>
    {percentUsed !== undefined && <Meter percentUsed={percentUsed} />}
    {detail && <p class="detail">{detail}</p>}
    {change && (
      <p class="change">
        <span class={change.meaning}>
          {change.shown}
          {change.meaning !== "neutral" && <span class="word"> {change.meaning}</span>}
        </span>{" "}
        <span class="quiet">{change.sentence}</span>
      </p>
    )}
    {noChange && <p class="change quiet">{noChange}</p>}
  </div>
);

/** Formats milliseconds without the unit, for text that already contains the unit. */
const wholeMs = (value: number | null) => milliseconds(value).replace(" ms", "");

interface Comparison {
  better: "higher" | "lower" | "neither";
  /** The number of decimals to show. A change that rounds to zero is neither better nor worse. */
  decimals: number;
  /** A smaller change is shown, but it is neither better nor worse. */
  threshold: number;
  unit: string;
  /** Whether the window has no requests for the figure. */
  isEmpty: boolean;
  sentence: string;
}

function changeOf(value: number | null, { isEmpty, better, decimals, threshold, unit, sentence }: Comparison): Change {
  if (value === null) return { shown: isEmpty ? "none" : "new", meaning: "neutral", sentence };
  const seen = Number(value.toFixed(decimals));
  const isBetter = better === "higher" ? seen > 0 : seen < 0;
  const isSmall = seen === 0 || Math.abs(seen) < threshold;
  return {
    shown: `${signed(seen, decimals)}${unit}`,
    meaning: better === "neither" || isSmall ? "neutral" : isBetter ? "better" : "worse",
    sentence,
  };
}

/** A change of the success rate by less than this is usual, in percentage points. */
const usualPoints = 1;
/** A change of the average response time by less than this share of the previous one is usual. */
const usualShare = 0.1;

/** Renders how much of a limit is used, as a bar. */
const Meter = ({ percentUsed }: { percentUsed: number }) => (
  <svg class="meter" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
    <rect class="track" width={100} height={6} />
    <rect class={percentUsed >= 100 ? "full" : percentUsed >= 80 ? "near" : "used"} width={Math.min(100, percentUsed)} height={6} />
  </svg>
);

/**
 * Returns a text with the estimated time when the key reaches its limit. The estimate is based on the requests of this hour so far. Returns
 * an empty string if the key is not expected to reach its limit in this hour.
 */
function paceOf({ used, limit, resetsAt }: RateLimitUsage, now: number): string {
  if (used >= limit) return ". The limit is used up, so requests are denied until then";
  const elapsed = hourMs - (resetsAt - now);
  const usedUpAt = now + ((limit - used) * elapsed) / Math.max(used, 1);
  // The first five minutes of an hour are too short for an estimate.
  return used > 0 && elapsed > 5 * minuteMs && usedUpAt < resetsAt ? `. At this pace, the limit is used up at ${timeOfDay(usedUpAt)}` : "";
}

/** Describes the use of a limit in this hour. `isOfKey`: whether the page is about this key alone. */
function stateOfHour(usage: RateLimitUsage, isOfKey: boolean, now: number): string {
  const left = countdown(usage.resetsAt, now);
  if (usage.used === 0) return `${isOfKey ? "Not used" : "No key was used"} in this hour, which ends in ${left}`;
  const whose = isOfKey ? "The limit" : `Key “\u2068${usage.keyName}\u2069”, closest to its limit,`;
  return `${whose} resets in ${left}${paceOf(usage, now)}`;
}

/** Describes the use of a limit, for example “9,900 / 10,000 per month, all keys together”. */
const windowOf = ({ key, per, used, limit }: NearestLimit): string =>
  `${integer(used)} / ${integer(limit)} per ${per}, ${key === null ? "all keys together" : `key “\u2068${key.name}\u2069”`}`;

/** Returns the sentence about the limit nearest its end, or "" if the figure shows that limit already. */
const nearestSentence = (nearest: NearestLimit | null, { keyId }: RateLimitUsage): string =>
  nearest === null || (nearest.key?.id === keyId && nearest.per === "hour") ? "" : ` Nearest its end: ${windowOf(nearest)}.`;

/**
 * `denied` is the number of requests over the limit, in the same window as the other figures. `busiest` is the hour with the most requests
 * in that window.
 */
const RateLimitFigure = ({
  highest,
  denied,
  busiest,
  isPast,
  isOfKey,
  nearest,
  now,
}: {
  highest: RateLimitUsage | null;
  nearest: NearestLimit | null;
  denied: number;
  busiest: Hour | null;
  isPast: boolean;
  isOfKey: boolean;
  now: number;
}) => {
  const name = "Rate Limit Usage";
  // The use of a limit is known only for the present hour. What is known of a past time is how many requests were denied.
  if (isPast)
    return (
      <Figure
        name={name}
        href="/limits"
        value={`${integer(denied)} denied`}
        noChange="Requests that were denied with 429 in this period."
      />
    );
  if (highest === null)
    return <Figure name={name} href="/keys" value={dash} noChange="The rate limit usage cannot be read right now. Reload the page." />;
  const peak = busiest
    ? ` Busiest hour${isOfKey ? "" : " of all keys"}: ${barTime(busiest.start, dayMs)}, ${timeOfDay(busiest.start)}, ${integer(busiest.requests)} requests.`
    : "";
  return (
    <Figure
      name={name}
      href={highest.keyId === null ? "/keys" : `/keys/${highest.keyId}`}
      value={wholePercent(percent(highest.used, highest.limit))}
      percentUsed={percent(highest.used, highest.limit)}
      detail={`${integer(highest.used)} / ${integer(highest.limit)} per hour`}
      noChange={
        highest.keyName === null
          ? "No key yet"
          : `${stateOfHour(highest, isOfKey, now)}.${nearestSentence(nearest, highest)}${denied > 0 ? ` Denied with 429 in this period: ${counted(denied, "request")}.` : ""}${peak}`
      }
    />
  );
};

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
  /** Returns what a figure is compared with, and whether the window has no requests for the figure. */
  const comparison = (value: number | null, former: string) => {
    const isEmpty = value === null || value === 0;
    if (former !== dash && former !== "0") return { isEmpty, sentence: `against ${former}, ${span}` };
    return { isEmpty, sentence: isEmpty ? `as before, ${span}` : `against no requests, ${span}` };
  };
  return (
    <section aria-labelledby="usage">
      <h2 id="usage">{title}</h2>
      <div class="figures">
        <Figure
          name="Total Requests"
          href={`${page}#requests`}
          value={integer(totalRequests.value)}
          change={changeOf(totalRequests.changePercent, {
            better: "neither",
            decimals: 1,
            threshold: 0,
            unit: "%",
            ...comparison(totalRequests.value, integer(totalRequests.previous)),
          })}
        />
        <Figure
          name="Success Rate"
          href={`${page}#requests`}
          value={rate(successRate.value)}
          change={changeOf(successRate.changePoints, {
            better: "higher",
            decimals: 2,
            threshold: isUsual ? Number.POSITIVE_INFINITY : usualPoints,
            unit: " points",
            ...comparison(successRate.value, rate(successRate.previous)),
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
          change={changeOf(avgResponseTimeMs.changeMs, {
            better: "lower",
            decimals: 1,
            threshold: isUsual ? Number.POSITIVE_INFINITY : usualShare * (avgResponseTimeMs.previous ?? 0),
            unit: " ms",
            ...comparison(avgResponseTimeMs.value, exactMilliseconds(avgResponseTimeMs.previous)),
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
