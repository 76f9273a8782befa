import { rateLimitHeaders } from "./rate-limit-headers.ts";

const exposed = [
  "X-Request-Id",
  ...rateLimitHeaders,
  "Retry-After",
  "Link",
  "Location",
  "ETag",
  "Idempotent-Replayed",
  "WWW-Authenticate",
  "Allow",
];

/**
 * On every answer: any origin may call with a key, and nothing that a browser sends by itself counts as one. `hono/cors` says
 * the same, but sets it before the answer is there, which makes Hono build each answer twice.
 */
export const anyOrigin = { "Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": exposed.join(",") };

/** What a browser is told that asks before it sends a request. */
export const preflight = {
  "Access-Control-Allow-Methods": "GET,HEAD,POST,PATCH,DELETE",
  "Access-Control-Allow-Headers": "Authorization,Content-Type,Idempotency-Key,If-Match,If-None-Match",
  "Access-Control-Max-Age": "86400",
};
