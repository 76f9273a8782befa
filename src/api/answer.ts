import { createMiddleware } from "hono/factory";
import { newId } from "../ids.ts";
import type { ApiEnv } from "./context.ts";
import { record } from "./record.ts";

/** Before everything else the request id and the clock; after it, the entry in the log. */
export const answer = createMiddleware<ApiEnv>(async function answer(c, next) {
  const startedAt = Date.now();
  c.set("startedAt", startedAt);
  c.set("requestId", newId("req", startedAt));
  await next();
  const recognized = c.get("recognized");
  if (recognized) record(c, recognized, Date.now());
});
