import { createMiddleware } from "hono/factory";
import type { AppEnv } from "./context.ts";
import { setRateLimitHeaders } from "./rate-limit-headers.ts";

/**
 * Puts onto every response, whoever made it, what all of them have: `fixed` headers, the request id, the key's limit where one was
 * recognised, and how long it may be kept.
 */
export const standardHeaders = (fixed: readonly (readonly [name: string, value: string])[]) =>
  createMiddleware<AppEnv>(async function standardHeaders(c, next) {
    await next();
    // The headers of a WebSocket's handshake are not ours.
    if (c.res.status === 101) return;
    const response = withMutableHeaders(c.res);
    const { headers } = response;
    for (const [name, value] of fixed) headers.set(name, value);
    headers.set("X-Request-Id", c.get("requestId"));
    headers.set("Cache-Control", headers.has("ETag") ? "private, no-cache" : "no-store");
    const recognized = c.get("recognized");
    if (recognized) setRateLimitHeaders(headers, recognized.admission.rateLimit, Date.now());
    if (response !== c.res) {
      // Else Hono would put the headers of the former response onto the new one.
      c.res = undefined;
      c.res = response;
    }
  });

/** The response itself or, where its headers are immutable (it came from `fetch`), a copy of it. */
function withMutableHeaders(response: Response): Response {
  try {
    response.headers.delete("X-Request-Id");
    return response;
  } catch {
    return new Response(response.body, response);
  }
}
