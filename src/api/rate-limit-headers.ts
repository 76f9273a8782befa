import { secondMs } from "../clock.ts";
import type { RateLimit } from "../keys/admission.ts";

/** What every answer to a recognised key has. */
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

// A key's limit is written into answers here alone: the fields of draft-ietf-httpapi-ratelimit-headers, which may still
// change, and the older ones that most clients read.

/** Those that stay the same until the window ends. */
export const fixedRateLimitHeaders = ({ limit, resetsAt }: RateLimit): [string, string][] => [
  ["RateLimit-Policy", `"hour";q=${limit};w=3600`],
  ["X-RateLimit-Limit", String(limit)],
  ["X-RateLimit-Reset", String(Math.floor(resetsAt / secondMs))],
];

/** Those that each answer has anew. */
export function rateLimitHeadersNow(rateLimit: RateLimit, now: number): [string, string][] {
  const remaining = remainingOf(rateLimit);
  return [
    ["RateLimit", `"hour";r=${remaining};t=${secondsToReset(rateLimit, now)}`],
    ["X-RateLimit-Remaining", String(remaining)],
    ["X-RateLimit-Used", String(rateLimit.used)],
  ];
}
