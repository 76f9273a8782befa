import type { AppContext } from "./context.ts";
import { setRateLimitHeaders } from "./rate-limit-headers.ts";
import type { Finish } from "./request-context.ts";

/**
 * Puts onto every response, whoever made it, what all of them have: `fixed` headers, the request id, the key's limit where one was
 * recognised, and how long it may be kept.
 */
export const standardHeaders =
  (fixed: readonly (readonly [name: string, value: string])[]): Finish =>
  (c) => {
    // The headers of a WebSocket's handshake are not ours.
    if (c.res.status === 101) return;
    try {
      put(c, fixed);
    } catch {
      // Those of `fetch`, and of `Response.redirect`, do not change.
      c.res = new Response(c.res.body, c.res);
      put(c, fixed);
    }
  };

function put(c: AppContext, fixed: readonly (readonly [name: string, value: string])[]): void {
  const { headers } = c.res;
  headers.set("X-Request-Id", c.get("requestId"));
  for (const [name, value] of fixed) headers.set(name, value);
  headers.set("Cache-Control", headers.has("ETag") ? "private, no-cache" : "no-store");
  const recognized = c.get("recognized");
  if (recognized) setRateLimitHeaders(headers, recognized.admission.rateLimit, Date.now());
}
