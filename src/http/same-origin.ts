import { createMiddleware } from "hono/factory";
import { Failure } from "../lib/errors/failure.ts";
import type { AppEnv } from "./context.ts";
import { requestOrigin } from "./request-url.ts";

/**
 * Denies a request unless the request came from a page of this origin. GET, HEAD and OPTIONS requests are always allowed. A browser reports
 * in the `Sec-Fetch-Site` header where a request comes from. If the request has no `Sec-Fetch-Site` header, its `Origin` header must name
 * this origin. This check applies to every content type. The check in `hono/csrf` applies only to forms.
 */
export const sameOrigin = createMiddleware<AppEnv>(async function sameOrigin(c, next) {
  if (/^(?:GET|HEAD|OPTIONS)$/.test(c.req.method)) return next();
  const [site, origin, own] = [c.req.header("Sec-Fetch-Site"), c.req.header("Origin"), requestOrigin(c)];
  // If a request has both `Sec-Fetch-Site` and `Origin`, both headers must match this origin. A page of another origin can forge neither
  // header.
  const isOwn =
    (site === undefined || site === "same-origin") && (origin === undefined || origin === own) && (site ?? origin) !== undefined;
  if (!isOwn)
    throw new Failure("forbidden", "The form was not sent by a page of the overview. Open the page, and send the form from there.");
  return next();
});
