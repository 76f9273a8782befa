import { createMiddleware } from "hono/factory";
import { Failure } from "../lib/errors/failure.ts";
import type { AppContext, AppEnv } from "./context.ts";
import { problem } from "./problem.ts";
import { rateLimitHeaders } from "./rate-limit-headers.ts";
import { respond } from "./standard-headers.ts";

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
 * The CORS headers of every API response. Any origin may call the API with a key. The API ignores credentials that a browser adds
 * automatically, for example cookies.
 */
export const anyOrigin = {
  "Access-Control-Allow-Origin": "*",
  "Access-Control-Expose-Headers": exposed.join(","),
};

const defaultHeaders = "Authorization,Content-Type,Idempotency-Key,If-Match,If-None-Match";
const maxHeaderList = 4096;
/** The pattern of a header name (RFC 9110, 5.6.2). */
const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/**
 * Responds to every OPTIONS request. OPTIONS requests need no key. The response lists the methods of the path in `Allow` and in the CORS
 * headers. `methodsAt` returns the methods of a path, or undefined if the path is unknown. The response for an unknown path is 404.
 */
export const options = (methodsAt: (c: AppContext) => readonly string[] | undefined) =>
  createMiddleware<AppEnv>(async function options(c, next) {
    if (c.req.method !== "OPTIONS") return next();
    const methods = methodsAt(c);
    if (methods === undefined) return problem(c, new Failure("not_found", "There is nothing at this path."));
    return respond(c, null, 204, {
      Allow: methods.join(", "),
      "Access-Control-Allow-Methods": methods.join(", "),
      "Access-Control-Allow-Headers": allowedHeaders(c.req.header("Access-Control-Request-Headers")),
      "Access-Control-Max-Age": "86400",
    });
  });

/**
 * Returns every valid header name that the preflight request lists, so that the browser may send these headers. Allowing any header is
 * safe, because the API ignores credentials that a browser adds automatically.
 */
function allowedHeaders(requested: string | undefined): string {
  if (requested === undefined) return defaultHeaders;
  const names = requested.slice(0, maxHeaderList).split(",");
  return names
    .map((name) => name.trim())
    .filter((name) => token.test(name))
    .join(",");
}
