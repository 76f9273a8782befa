import type { NearestLimit, RateLimitUsage } from "../../admission/rate-limit-usage.ts";
import { dayMs, hourMs, minuteMs } from "../../lib/time/clock.ts";
import { timeOfDay } from "../../lib/time/moments.ts";
import type { Hour } from "../../usage/hours.ts";
import { percent } from "../../usage/percent.ts";
import { barTime, countdown, counted, dash, integer, wholePercent } from "../format.ts";
import { Figure } from "./figure.tsx";

/**
 * Returns a text with the estimated time when the key reaches its limit. The estimate is based on the requests of this hour so far. Returns
 * an empty string if the key is not expected to reach its limit in this hour.
 */
function paceOf({ used, limit, resetsAt }: RateLimitUsage, now: number): string {
  if (used >= limit) return ". The limit is used up, so requests are refused until then";
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
 * Renders the figure of the limits. `denied` is the number of requests over the limit, in the same window as the other figures. `busiest` is
 * the hour with the most requests in that window.
 */
export const RateLimitFigure = ({
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
        value={`${integer(denied)} refused`}
        noChange="Requests that were refused with 429 in this period."
      />
    );
  if (highest === null)
    return <Figure name={name} href="/limits" value={dash} noChange="The rate limit usage cannot be read right now. Reload the page." />;
  const peak = busiest
    ? ` Busiest hour${isOfKey ? "" : " of all keys"}: ${barTime(busiest.start, dayMs)}, ${timeOfDay(busiest.start)}, ${integer(busiest.requests)} requests.`
    : "";
  return (
    <Figure
      name={name}
      href="/limits"
      value={highest.used === 0 && denied > 0 ? `${integer(denied)} refused` : wholePercent(percent(highest.used, highest.limit))}
      percentUsed={percent(highest.used, highest.limit)}
      detail={`${integer(highest.used)} / ${integer(highest.limit)} per hour`}
      noChange={
        highest.keyName === null
          ? "No key yet"
          : `${stateOfHour(highest, isOfKey, now)}.${nearestSentence(nearest, highest)}${denied > 0 ? ` Refused with 429 in this period: ${counted(denied, "request")}.` : ""}${peak}`
      }
    />
  );
};
