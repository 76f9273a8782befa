import { createMiddleware } from "hono/factory";
import { newId } from "../ids.ts";
import type { ApiEnv } from "./context.ts";
import { anyOrigin } from "./cross-origin.ts";
import { secondsToReset, setRateLimitHeaders } from "./rate-limit-headers.ts";
import { record } from "./record.ts";

const always = Object.entries({
  "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Strict-Transport-Security": "max-age=63072000; includeSubDomains",
  ...anyOrigin,
});

/** The request id and the clock before everything else; the headers of every answer, and its entry in the log, after. */
export const answer = createMiddleware<ApiEnv>(async function answer(c, next) {
  const startedAt = Date.now();
  c.set("startedAt", startedAt);
  c.set("requestId", newId("req", startedAt));
  await next();

  const now = Date.now();
  const { headers, status } = c.res;
  headers.set("X-Request-Id", c.get("requestId"));
  for (const [name, value] of always) headers.set(name, value);
  if (!headers.has("Cache-Control")) headers.set("Cache-Control", headers.has("ETag") ? "private, no-cache" : "no-store");
  if (status === 503) headers.set("Retry-After", String(1 + Math.floor(Math.random() * 5)));

  const recognized = c.get("recognized");
  if (!recognized) return;
  setRateLimitHeaders(headers, recognized.admission.rateLimit, now);
  if (status === 429) headers.set("Retry-After", String(secondsToReset(recognized.admission.rateLimit, now)));
  record(c, recognized, now);
});
