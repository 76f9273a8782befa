import { createMiddleware } from "hono/factory";
import type { AppEnv } from "./context.ts";

/**
 * Throws an Error if a handler returns no response or throws a value that is not an Error. In Hono, a missing response or a thrown
 * non-Error would bypass the earlier middleware. The thrown Error is handled like any other failure: the service logs the Error, and the
 * response gets the usual headers.
 */
export const requireResponse = createMiddleware<AppEnv>(async function requireResponse(c, next) {
  try {
    await next();
  } catch (thrown) {
    throw thrown instanceof Error ? thrown : new Error("something was thrown that is no Error", { cause: thrown });
  }
  if (!c.finalized) throw new Error("the route returned no response");
});
