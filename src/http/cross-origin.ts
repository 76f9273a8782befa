import { createMiddleware } from "hono/factory";
import { Failure } from "../errors/failure.ts";
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

/** On every response: any origin may call with a key, and nothing that a browser sends by itself counts as one. */
export const anyOrigin = {
  "Access-Control-Allow-Origin": "*",
  "Access-Control-Expose-Headers": exposed.join(","),
};

const usualHeaders = "Authorization,Content-Type,Idempotency-Key,If-Match,If-None-Match";
const maxHeaderList = 4096;
/** The name of a header (RFC 9110, 5.6.2). */
const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/**
 * Responds to every OPTIONS, without a key: with the methods that the path takes, as `Allow` and as what a browser may send from another
 * origin. `methodsAt`: the methods of a path; undefined for a path that is not there, which is 404.
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
 * Returns the headers that a browser may send: those that it asks for, since it sends no credentials by itself and so nothing that one of
 * them could misuse. What is no name of a header is left out.
 */
function allowedHeaders(asked: string | undefined): string {
  if (asked === undefined) return usualHeaders;
  const names = asked.slice(0, maxHeaderList).split(",");
  return names
    .map((name) => name.trim())
    .filter((name) => token.test(name))
    .join(",");
}
