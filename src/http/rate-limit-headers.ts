import { limitsIn, type PolicyUsage, violatedIn } from "../admission/denials.ts";
import type { Period } from "../budget/limits.ts";
import type { Admission } from "../guard/decision.ts";
import { secondMs } from "../lib/time/clock.ts";

/** The names of the rate limit headers. Every response to a request with a known key has these headers. */
export const rateLimitHeaders = [
  "RateLimit-Policy",
  "RateLimit",
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "X-RateLimit-Used",
  "X-RateLimit-Reset",
] as const;

/** The length of each period in the `RateLimit-Policy` header, in seconds. The length of a month varies, so its policy has none. */
const seconds: Record<Period, number | null> = { second: 1, minute: 60, hour: 3600, day: 86_400, month: null };

/** Returns the number of seconds until a time, rounded up, and at least 1. */
export const secondsTo = (timeMs: number, now: number): number => Math.max(1, Math.ceil((timeMs - now) / secondMs));

export const remainingOf = ({ limit, used }: { limit: number; used: number }): number => Math.max(0, limit - used);

/** Returns the limit that binds: the one with the least share left. Of limits with the same share, the longest period binds. */
function bindingLimit(limits: readonly PolicyUsage[]): PolicyUsage {
  let [binding, least] = [limits[0], Number.POSITIVE_INFINITY];
  for (const each of limits) {
    const share = remainingOf(each) / each.limit;
    if (share <= least) [binding, least] = [each, share];
  }
  if (!binding) throw new Error("a key has no limit");
  return binding;
}

/** Returns the limit that the `X-RateLimit` fields show: the one that refused the request, else the limit per hour. */
function shownLimit(
  admission: Pick<Admission, "limits" | "rateLimit" | "shared" | "violation">,
  limits: readonly PolicyUsage[],
): PolicyUsage {
  if (admission.violation) return bindingLimit(violatedIn(admission));
  return limits.find(({ per }) => per === "hour") ?? bindingLimit(limits);
}

interface FixedPart {
  limits: readonly PolicyUsage[];
  shown: PolicyUsage;
  policy: string;
}

/** For refusals, the parts of the headers that do not depend on the time. A cached denial is the answer to many requests. */
const fixedParts = new WeakMap<object, FixedPart>();

function fixedPartOf(admission: Pick<Admission, "limits" | "rateLimit" | "shared" | "violation">): FixedPart {
  const known = admission.violation && fixedParts.get(admission);
  if (known) return known;
  const limits = limitsIn(admission);
  const policies = limits.map(({ name, per, limit }) => `"${name}";q=${limit}${seconds[per] === null ? "" : `;w=${seconds[per]}`}`);
  const part = { limits, shown: shownLimit(admission, limits), policy: policies.join(", ") };
  if (admission.violation) fixedParts.set(admission, part);
  return part;
}

/**
 * Returns the limits of a key and its account as response headers. Only this function creates rate limit headers. The `RateLimit` fields follow
 * draft-ietf-httpapi-ratelimit-headers, which may still change, and have one item for each limit. Most clients read the older `X-RateLimit` fields, which
 * can show only one limit: the limit per hour, or the one that refused the request.
 */
export function rateLimitHeadersOf(
  admission: Pick<Admission, "limits" | "rateLimit" | "shared" | "violation">,
  now: number,
): Record<(typeof rateLimitHeaders)[number], string> {
  const { limits, shown, policy } = fixedPartOf(admission);
  return {
    "RateLimit-Policy": policy,
    RateLimit: limits.map((each) => `"${each.name}";r=${remainingOf(each)};t=${secondsTo(each.resetsAt, now)}`).join(", "),
    "X-RateLimit-Limit": String(shown.limit),
    "X-RateLimit-Remaining": String(remainingOf(shown)),
    "X-RateLimit-Used": String(shown.used),
    "X-RateLimit-Reset": String(Math.ceil(shown.resetsAt / secondMs)),
  };
}
