import type { TypedResponse } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { JSONParsed } from "hono/utils/types";
import type { RateLimit } from "../keys/admission.ts";
import type { ApiContext } from "./context.ts";
import { anyOrigin } from "./cross-origin.ts";
import { fixedRateLimitHeaders, rateLimitHeadersNow } from "./rate-limit-headers.ts";

/** A JSON answer, typed for the route that gives it. */
export const sendJson = <Body extends object, Status extends ContentfulStatusCode>(
  c: ApiContext,
  body: Body,
  status: Status,
  headers: Record<string, string> = {},
) =>
  send(c, JSON.stringify(body), status, { "Content-Type": "application/json", ...headers }) as Response &
    TypedResponse<JSONParsed<Body>, Status, "json">;

/** An answer without a body, typed for the route that gives it. */
export const sendEmpty = <Status extends 202 | 204 | 304>(c: ApiContext, status: Status, headers: Record<string, string> = {}) =>
  send(c, null, status, headers) as Response & TypedResponse<null, Status, "body">;

/** The one place that makes answers of the API, so that each has all of its headers from the start: `headers` and those that every answer has. */
export function send(c: ApiContext, body: string | null, status: number, headers: Record<string, string>): Response {
  const rateLimit = c.get("recognized")?.admission.rateLimit;
  const response = new Response(body, { status, headers: rateLimit ? withFixed(rateLimit) : always });
  const all = response.headers;
  all.set("X-Request-Id", c.get("requestId"));
  if (rateLimit) for (const [name, value] of rateLimitHeadersNow(rateLimit, Date.now())) all.set(name, value);
  if ("ETag" in headers) all.set("Cache-Control", "private, no-cache");
  for (const name in headers) all.set(name, headers[name] ?? "");
  return response;
}

const always = new Headers({
  "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Strict-Transport-Security": "max-age=63072000; includeSubDomains",
  "Cache-Control": "no-store",
  ...anyOrigin,
});

const mostKept = 100;
/** By limit and end of the window: the headers that stay the same for all answers of an hour. To copy them costs less than to set them. */
const fixed = new Map<string, Headers>();

function withFixed(rateLimit: RateLimit): Headers {
  const name = `${rateLimit.limit} ${rateLimit.resetsAt}`;
  const kept = fixed.get(name);
  if (kept) return kept;
  const made = new Headers(always);
  for (const [header, value] of fixedRateLimitHeaders(rateLimit)) made.set(header, value);
  if (fixed.size >= mostKept) fixed.clear();
  fixed.set(name, made);
  return made;
}
