import type { TypedResponse } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { JSONParsed } from "hono/utils/types";
import type { RateLimit } from "../keys/admission.ts";
import { type ApiContext, type Call, callOf } from "./context.ts";
import { anyOrigin } from "./cross-origin.ts";
import { fixedRateLimitHeaders, rateLimitHeadersNow } from "./rate-limit-headers.ts";

/** A JSON answer, typed for the route that gives it. */
export const sendJson = <Body extends object, Status extends ContentfulStatusCode>(
  c: ApiContext,
  body: Body,
  status: Status,
  headers: Record<string, string> = {},
) =>
  send(callOf(c), JSON.stringify(body), status, "application/json", headers) as Response & TypedResponse<JSONParsed<Body>, Status, "json">;

/** An answer without a body, typed for the route that gives it. */
export const sendEmpty = <Status extends 202 | 204 | 304>(c: ApiContext, status: Status, headers: Record<string, string> = {}) =>
  send(callOf(c), null, status, null, headers) as Response & TypedResponse<null, Status, "body">;

/** The one place that makes answers of the API, so that each has all of its headers from the start: `headers` and those that every answer has. */
export function send(
  { requestId, recognized }: Call,
  body: string | null,
  status: number,
  mediaType: string | null,
  headers: Record<string, string>,
): Response {
  const rateLimit = recognized?.admission.rateLimit;
  const response = new Response(body, { status, headers: fixedHeaders(mediaType, rateLimit) });
  const all = response.headers;
  all.set("X-Request-Id", requestId);
  if (rateLimit) for (const [name, value] of rateLimitHeadersNow(rateLimit, Date.now())) all.set(name, value);
  if ("ETag" in headers) all.set("Cache-Control", "private, no-cache");
  for (const name in headers) all.set(name, headers[name] ?? "");
  return response;
}

/** What every answer of the API has, whatever it answers. */
export const headersOfAll = {
  "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Strict-Transport-Security": "max-age=63072000; includeSubDomains",
  "Cache-Control": "no-store",
  ...anyOrigin,
};

const mostKept = 100;
/** By media type, limit and end of the window. To copy headers costs less than to set them. */
const kept = new Map<string, Headers>();

/** The headers that stay the same for all answers of a media type, for a key until its window ends. */
function fixedHeaders(mediaType: string | null, rateLimit: RateLimit | undefined): Headers {
  const name = rateLimit ? `${mediaType} ${rateLimit.limit} ${rateLimit.resetsAt}` : `${mediaType}`;
  const known = kept.get(name);
  if (known) return known;
  const made = new Headers(headersOfAll);
  if (mediaType !== null) made.set("Content-Type", mediaType);
  if (rateLimit) for (const [header, value] of fixedRateLimitHeaders(rateLimit)) made.set(header, value);
  if (kept.size >= mostKept) kept.clear();
  kept.set(name, made);
  return made;
}
