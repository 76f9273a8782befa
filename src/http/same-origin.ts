import { createMiddleware } from "hono/factory";
import { Failure } from "../errors/failure.ts";
import type { AppEnv } from "./context.ts";
import { requestOrigin } from "./request-url.ts";

/**
 * Denies a request that did not come from a page of this origin, unless its method is GET, HEAD or OPTIONS. A browser reports where a request comes
 * from in `Sec-Fetch-Site`. Without `Sec-Fetch-Site`, the `Origin` header must name this origin. This check applies to every content type, unlike
 * `hono/csrf`, which checks only forms.
 */
export const sameOrigin = createMiddleware<AppEnv>(async function sameOrigin(c, next) {
  if (/^(?:GET|HEAD|OPTIONS)$/.test(c.req.method)) return next();
  const [site, origin, own] = [c.req.header("Sec-Fetch-Site"), c.req.header("Origin"), requestOrigin(c)];
  // If `Sec-Fetch-Site` and `Origin` are both present, both must match this origin. A page of another origin can forge neither header.
  const isOwn =
    (site === undefined || site === "same-origin") && (origin === undefined || origin === own) && (site ?? origin) !== undefined;
  if (!isOwn)
    throw new Failure("forbidden", "The form was not sent by a page of the overview. Open the page, and send the form from there.");
  return next();
});
