import type { RateLimit } from "../admission/admission.ts";
import { secondMs } from "../time/clock.ts";

/** The names of the rate limit headers. Every response to a request with a known key has these headers. */
export const rateLimitHeaders = [
  "RateLimit-Policy",
  "RateLimit",
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "X-RateLimit-Used",
  "X-RateLimit-Reset",
] as const;

/** Returns the number of seconds until the rate limit window ends, rounded up, and at least 1. */
export const secondsToReset = ({ resetsAt }: RateLimit, now: number): number => Math.max(1, Math.ceil((resetsAt - now) / secondMs));

export const remainingOf = ({ limit, used }: RateLimit): number => Math.max(0, limit - used);

/**
 * Returns the rate limit of a key as response headers. Only this function creates rate limit headers. The `RateLimit` fields follow
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
