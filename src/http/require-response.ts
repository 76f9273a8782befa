import { createMiddleware } from "hono/factory";
import type { AppEnv } from "./context.ts";

/**
 * Makes an Error of what a handler must not do: answer nothing, or throw what is no Error. Hono would let either past the middleware
 * before this one; so it is answered, logged and given its headers like any other failure.
 */
export const requireResponse = createMiddleware<AppEnv>(async function requireResponse(c, next) {
  try {
    await next();
  } catch (thrown) {
    throw thrown instanceof Error ? thrown : new Error("something was thrown that is no Error", { cause: thrown });
  }
  if (!c.finalized) throw new Error("the route answered nothing");
});
