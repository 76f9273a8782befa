import { createMiddleware } from "hono/factory";
import { matchedRoutes } from "hono/route";
import { secondMs } from "../clock.ts";
import type { AppContext, AppEnv } from "./context.ts";

const methods = ["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"];

/**
 * Logs one line of JSON for each request, under OpenTelemetry's names (semantic conventions for HTTP servers, 1.38). It says which route was asked for,
 * never the path or the query that was sent: a line has no secret and nobody's data.
 */
export const requestLine = createMiddleware<AppEnv>(async function requestLine(c, next) {
  await next();
  console.log(JSON.stringify(lineOf(c, Date.now())));
});

function lineOf(c: AppContext, now: number): Record<string, string | number> {
  const { status } = c.res;
  const recognized = c.get("recognized");
  const route = c.get("policy")?.route ?? pageRoute(c);
  const error = c.get("errorCode") ?? (status >= 500 ? String(status) : undefined);
  return {
    "http.request.method": methods.includes(c.req.method) ? c.req.method : "_OTHER",
    ...(route !== undefined && { "http.route": route }),
    "http.response.status_code": status,
    "http.server.request.duration": (now - c.get("startedAt")) / secondMs,
    ...(error !== undefined && status >= 400 && { "error.type": error }),
    "dvo.request.id": c.get("requestId"),
    ...(recognized && { "dvo.account.id": recognized.admission.key.accountId, "dvo.key.id": recognized.keyId }),
  };
}

/** The pattern of a page's route, `/keys/{id}`; undefined where none was found. */
function pageRoute(c: AppContext): string | undefined {
  const found = matchedRoutes(c).findLast(({ method, path }) => method !== "ALL" && path !== "/*");
  return found?.path.replaceAll(/:(\w+)(\{[^}]*\})?\??/g, "{$1}");
}
