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
export function send(call: Call, body: string | null, status: number, mediaType: string | null, headers: Record<string, string>): Response {
  const rateLimit = call.recognized?.admission.rateLimit;
  const ofAll = keptHeaders(mediaType, headers[challenge], rateLimit);
  // Before they are copied, since the headers of an answer are an object more to make and to collect. What is set on the kept
  // ones must be set by every answer that shares them: it stays until the next.
  ofAll.set("X-Request-Id", call.requestId);
  if (rateLimit) for (const [name, value] of rateLimitHeadersNow(rateLimit, Date.now())) ofAll.set(name, value);
  const response = new Response(body, { status, headers: ofAll });
  if ("ETag" in headers) response.headers.set("Cache-Control", "private, no-cache");
  for (const name in headers) if (name !== challenge) response.headers.set(name, headers[name] ?? "");
  call.status = status;
  return response;
}

const challenge = "WWW-Authenticate";

/** What every answer of the API has, whatever it answers. */
export const headersOfAll = {
  "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Strict-Transport-Security": "max-age=63072000; includeSubDomains",
  "Cache-Control": "no-store",
  ...anyOrigin,
};

const mostKept = 100;
/** By media type, challenge, limit and end of the window. To copy headers costs less than to set them. */
const kept = new Map<string, Headers>();

/**
 * The headers of all answers of a media type and challenge, for a key until its window ends: those that stay the same. The
 * others are those of the answer before, and each answer sets them all.
 */
function keptHeaders(mediaType: string | null, challenged: string | undefined, rateLimit: RateLimit | undefined): Headers {
  const name = `${mediaType} ${rateLimit?.limit} ${rateLimit?.resetsAt} ${challenged}`;
  const known = kept.get(name);
  if (known) return known;
  const made = new Headers(headersOfAll);
  if (mediaType !== null) made.set("Content-Type", mediaType);
  if (challenged !== undefined) made.set(challenge, challenged);
  if (rateLimit) for (const [header, value] of fixedRateLimitHeaders(rateLimit)) made.set(header, value);
  if (kept.size >= mostKept) kept.clear();
  kept.set(name, made);
  return made;
}
