import { matchedRoutes } from "hono/route";
import { secondMs } from "../time/clock.ts";
import type { AppContext } from "./context.ts";

const methods = ["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"];
const usualSample = 0.01;

/**
 * Logs one line of JSON for each request that failed with 5xx and for a sample of the others, under OpenTelemetry's names (semantic conventions for
 * HTTP servers, 1.38). It says which route was asked for, never the path or the query that was sent: a line has no secret and nobody's data.
 */
export function requestLine(c: AppContext): void {
  const sample = c.res.status >= 500 ? 1 : sampleOf(c.env.LOG_SAMPLE);
  if (Math.random() < sample) console.log(JSON.stringify(lineOf(c, sample, Date.now())));
}

/** Read from the binding once an isolate. */
let latest: { text: string | undefined; sample: number } | undefined;

/** Returns the share of requests, 0 to 1, that `LOG_SAMPLE` states: 0.01 unless it is set. One that is not valid is reported, and closes nothing. */
export function sampleOf(text: string | undefined): number {
  if (latest?.text === text) return latest?.sample ?? usualSample;
  const isValid = text === undefined || /^(?:0(?:\.\d+)?|1(?:\.0+)?)$/.test(text);
  if (!isValid) console.error(`LOG_SAMPLE must be a number from 0 to 1, like 0.01. Until it is, ${usualSample} is used.`);
  latest = { text, sample: text === undefined || !isValid ? usualSample : Number(text) };
  return latest.sample;
}

function lineOf(c: AppContext, sample: number, now: number): Record<string, string | number> {
  const { status } = c.res;
  const principal = c.get("principal");
  const route = c.get("policy")?.route ?? pageRoute(c);
  const error = c.get("errorCode") ?? (status >= 500 ? String(status) : undefined);
  return {
    "http.request.method": methods.includes(c.req.method) ? c.req.method : "_OTHER",
    ...(route !== undefined && { "http.route": route }),
    "http.response.status_code": status,
    "http.server.request.duration": (now - c.get("startedAt")) / secondMs,
    ...(error !== undefined && status >= 400 && { "error.type": error }),
    "dvo.request.id": c.get("requestId"),
    ...(principal && { "dvo.account.id": principal.admission.key.accountId, "dvo.key.id": principal.keyId }),
    ...(sample < 1 && { "dvo.log.sample": sample }),
  };
}

/** The pattern of a page's route, `/keys/{id}`; undefined where none was found. */
function pageRoute(c: AppContext): string | undefined {
  const found = matchedRoutes(c).findLast(({ method, path }) => method !== "ALL" && path !== "/*");
  return found?.path.replaceAll(/:(\w+)(\{[^}]*\})?\??/g, "{$1}");
}
