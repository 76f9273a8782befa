import { createMiddleware } from "hono/factory";
import { Failure } from "../errors/failure.ts";
import type { AppEnv } from "./context.ts";
import { requestOrigin } from "./request-url.ts";

/**
 * Denies a request that changes something and does not come from a page of this origin, for every content type. Browsers say so by
 * themselves (`Sec-Fetch-Site`, and `Origin` where there is no such header). `hono/csrf` asks this of forms alone.
 */
export const sameOrigin = createMiddleware<AppEnv>(async function sameOrigin(c, next) {
  if (/^(?:GET|HEAD|OPTIONS)$/.test(c.req.method)) return next();
  const [site, origin, own] = [c.req.header("Sec-Fetch-Site"), c.req.header("Origin"), requestOrigin(c)];
  // Both where both are there: neither can be made to say so by a page of elsewhere.
  const isOwn =
    (site === undefined || site === "same-origin") && (origin === undefined || origin === own) && (site ?? origin) !== undefined;
  if (!isOwn) throw new Failure("forbidden", "This was not sent by a page of the overview. Open the page, and send it from there.");
  return next();
});
