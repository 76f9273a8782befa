import { matchedRoutes } from "hono/route";
import { knownMethod } from "../lib/net/http-method.ts";
import { secondMs } from "../lib/time/clock.ts";
import type { AppContext } from "./context.ts";

const defaultSample = 0.01;

/**
 * Logs one line of JSON for each request with a 5xx response, and for a sample of all other requests. The field names follow
 * OpenTelemetry's semantic conventions for HTTP servers, version 1.38. A line contains the route pattern instead of the path and the query.
 * The lines therefore contain no secrets and no client data.
 */
export function requestLine(c: AppContext): void {
  const sample = c.res.status >= 500 ? 1 : sampleOf(c.env.LOG_SAMPLE);
  if (Math.random() < sample) console.log(JSON.stringify(lineOf(c, sample, Date.now())));
}

/** The last value of `LOG_SAMPLE` and the number parsed from the value. This cache lets each isolate parse the value only once. */
let latest: { text: string | undefined; sample: number } | undefined;

/**
 * Returns the share of requests to log, from 0 to 1. `text` is the value of `LOG_SAMPLE`. The default share is 0.01. If the value is
 * invalid, the function logs an error and returns the default.
 */
export function sampleOf(text: string | undefined): number {
  if (latest?.text === text) return latest?.sample ?? defaultSample;
  const isValid = text === undefined || /^(?:0(?:\.\d+)?|1(?:\.0+)?)$/.test(text);
  if (!isValid) console.error(`LOG_SAMPLE must be a number from 0 to 1, like 0.01. Until it is, ${defaultSample} is used.`);
  latest = { text, sample: text === undefined || !isValid ? defaultSample : Number(text) };
  return latest.sample;
}

function lineOf(c: AppContext, sample: number, now: number): Record<string, string | number> {
  const { status } = c.res;
  const principal = c.get("principal");
  const route = c.get("policy")?.route ?? pageRoute(c);
  const errorCode = status >= 400 ? c.get("failure")?.code : undefined;
  return {
    "http.request.method": knownMethod(c.req.method),
    ...(route !== undefined && { "http.route": route }),
    "http.response.status_code": status,
    "http.server.request.duration": (now - c.get("startedAt")) / secondMs,
    // For a server, a 4xx response is not an error, so it has no `error.type`.
    ...(status >= 500 && { "error.type": errorCode ?? String(status) }),
    ...(errorCode !== undefined && { "dvo.error.code": errorCode }),
    "dvo.request.id": c.get("requestId"),
    ...(principal && { "dvo.account.id": principal.admission.key.accountId, "dvo.key.id": principal.keyId }),
    ...(sample < 1 && { "dvo.log.sample": sample }),
  };
}

/** Returns the route pattern of a page, like `/keys/{id}`. Returns undefined if no route matched. */
function pageRoute(c: AppContext): string | undefined {
  const found = matchedRoutes(c).findLast(({ method, path }) => method !== "ALL" && path !== "/*");
  return found?.path.replaceAll(/:(\w+)(\{[^}]*\})?\??/g, "{$1}");
}
