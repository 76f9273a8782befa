import { secondMs } from "../clock.ts";
import type { RateLimit } from "../keys/admission.ts";

/** What `setRateLimitHeaders` sets. */
export const rateLimitHeaders = [
  "RateLimit-Policy",
  "RateLimit",
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "X-RateLimit-Used",
  "X-RateLimit-Reset",
];

/** Whole seconds until the window ends, at least one. */
export const secondsToReset = ({ resetsAt }: RateLimit, now: number): number => Math.max(1, Math.ceil((resetsAt - now) / secondMs));

export const remainingOf = ({ limit, used }: RateLimit): number => Math.max(0, limit - used);

/**
 * The one place that writes a key's limit into an answer: the fields of draft-ietf-httpapi-ratelimit-headers, which may
 * still change, and the older ones that most clients read.
 */
export function setRateLimitHeaders(headers: Headers, rateLimit: RateLimit, now: number): void {
  const remaining = remainingOf(rateLimit);
  headers.set("RateLimit-Policy", `"hour";q=${rateLimit.limit};w=3600`);
  headers.set("RateLimit", `"hour";r=${remaining};t=${secondsToReset(rateLimit, now)}`);
  headers.set("X-RateLimit-Limit", String(rateLimit.limit));
  headers.set("X-RateLimit-Remaining", String(remaining));
  headers.set("X-RateLimit-Used", String(rateLimit.used));
  headers.set("X-RateLimit-Reset", String(Math.floor(rateLimit.resetsAt / secondMs)));
}
