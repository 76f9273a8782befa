import type { RateLimit } from "../admission/admission.ts";
import { secondMs } from "../clock.ts";

/** What every response to a recognised key has. */
export const rateLimitHeaders = [
  "RateLimit-Policy",
  "RateLimit",
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "X-RateLimit-Used",
  "X-RateLimit-Reset",
] as const;

/** Whole seconds until the window ends, at least one. */
export const secondsToReset = ({ resetsAt }: RateLimit, now: number): number => Math.max(1, Math.ceil((resetsAt - now) / secondMs));

export const remainingOf = ({ limit, used }: RateLimit): number => Math.max(0, limit - used);

/**
 * Writes a key's limit into the headers of a response, the one place that does: the fields of draft-ietf-httpapi-ratelimit-headers,
 * which may still change, and the older ones that most clients read.
 */
export function setRateLimitHeaders(headers: Headers, rateLimit: RateLimit, now: number): void {
  const { limit, used, resetsAt } = rateLimit;
  const remaining = remainingOf(rateLimit);
  headers.set("RateLimit-Policy", `"hour";q=${limit};w=3600`);
  headers.set("RateLimit", `"hour";r=${remaining};t=${secondsToReset(rateLimit, now)}`);
  headers.set("X-RateLimit-Limit", String(limit));
  headers.set("X-RateLimit-Remaining", String(remaining));
  headers.set("X-RateLimit-Used", String(used));
  headers.set("X-RateLimit-Reset", String(Math.floor(resetsAt / secondMs)));
}
