import { createMiddleware } from "hono/factory";
import type { AppEnv } from "../../http/context.ts";
import { rateLimitHeaders } from "../../http/rate-limit-headers.ts";
import { respondEmpty } from "../respond.ts";

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

/** On every response: any origin may call with a key, and nothing that a browser sends by itself counts as one. */
export const anyOrigin = [
  ["Access-Control-Allow-Origin", "*"],
  ["Access-Control-Expose-Headers", exposed.join(",")],
] as const;

const preflightHeaders = {
  "Access-Control-Allow-Methods": "GET,HEAD,POST,PATCH,DELETE",
  "Access-Control-Allow-Headers": "Authorization,Content-Type,Idempotency-Key,If-Match,If-None-Match",
  "Access-Control-Max-Age": "86400",
};

/** Answers what a browser asks before it sends a request, for which it sends no key. */
export const preflight = createMiddleware<AppEnv>(async function preflight(c, next) {
  if (c.req.method === "OPTIONS") return respondEmpty(204, preflightHeaders);
  return next();
});
