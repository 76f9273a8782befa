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
    if (!isMutable(c.res.headers)) c.res = new Response(c.res.body, c.res);
    const { headers } = c.res;
    for (const [name, value] of fixed) headers.set(name, value);
    headers.set("X-Request-Id", c.get("requestId"));
    headers.set("Cache-Control", headers.has("ETag") ? "private, no-cache" : "no-store");
    const recognized = c.get("recognized");
    if (recognized) setRateLimitHeaders(headers, recognized.admission.rateLimit, Date.now());
  };

/** False for a response of `fetch`, and of `Response.redirect`. */
function isMutable(headers: Headers): boolean {
  try {
    headers.delete("X-Request-Id");
    return true;
  } catch {
    return false;
  }
}
