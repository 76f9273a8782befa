import type { RateLimit } from "../admission/admission.ts";
import { secondMs } from "../time/clock.ts";

/** The names of the rate limit headers on every response to a known key. */
export const rateLimitHeaders = [
  "RateLimit-Policy",
  "RateLimit",
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "X-RateLimit-Used",
  "X-RateLimit-Reset",
] as const;

/** Returns the number of whole seconds until the window ends, at least one. */
export const secondsToReset = ({ resetsAt }: RateLimit, now: number): number => Math.max(1, Math.ceil((resetsAt - now) / secondMs));

export const remainingOf = ({ limit, used }: RateLimit): number => Math.max(0, limit - used);

/**
 * Returns the rate limit of a key as response headers. No other code creates rate limit headers. The `RateLimit` fields follow
 * draft-ietf-httpapi-ratelimit-headers, which may still change. Most clients read the older `X-RateLimit` fields.
 */
export function rateLimitHeadersOf(rateLimit: RateLimit, now: number): Record<(typeof rateLimitHeaders)[number], string> {
  const { limit, used, resetsAt } = rateLimit;
  const remaining = remainingOf(rateLimit);
  return {
    "RateLimit-Policy": `"hour";q=${limit};w=3600`,
    RateLimit: `"hour";r=${remaining};t=${secondsToReset(rateLimit, now)}`,
    "X-RateLimit-Limit": String(limit),
    "X-RateLimit-Remaining": String(remaining),
    "X-RateLimit-Used": String(used),
    "X-RateLimit-Reset": String(Math.floor(resetsAt / secondMs)),
  };
}
