import type { Context } from "hono";
import type { Finish } from "../http/context.ts";

// Public documentation is the same for everyone, so browsers and shared caches may store it. A documentation response is public if it has an ETag.

const cacheControl = "public, max-age=300";

/**
 * Lets browsers and shared caches store a response that has an ETag. Must run after `standardHeaders`, because it replaces the
 * `Cache-Control` header.
 */
export const cachePublic: Finish = (c) => {
  const { headers, status } = c.res;
  if (!headers.has("ETag")) return;
  headers.set("Cache-Control", cacheControl);
  // A cached page contains the nonce of its original Content-Security-Policy. A new policy would have a different nonce and block the
  // scripts of the cached page.
  if (status === 304) headers.delete("Content-Security-Policy");
};

/** Sets the ETag of the response. Returns a 304 response if the client already has this version. Otherwise, returns null. */
export function unlessKnown(c: Context, etag: string): Response | null {
  const known = (c.req.header("If-None-Match") ?? "").split(",").map((tag) => tag.trim().replace(/^W\//, ""));
  c.header("ETag", etag);
  return known.includes(etag.replace(/^W\//, "")) || known[0] === "*" ? c.body(null, 304) : null;
}
