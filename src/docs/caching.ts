import type { Context } from "hono";
import type { Finish } from "../http/request-context.ts";

// Public documentation is the same for everybody, so browsers and caches may keep it. A response is public if it has an ETag.

const cacheControl = "public, max-age=300";

/** Lets everybody keep a response that has an ETag. It comes after the usual headers. */
export const cachePublic: Finish = (c) => {
  const { headers, status } = c.res;
  if (!headers.has("ETag")) return;
  headers.set("Cache-Control", cacheControl);
  // A page that was kept has the nonce of the policy that came with it. A new policy would block its scripts.
  if (status === 304) headers.delete("Content-Security-Policy");
};

/** Returns a 304 if the client has this version, else null and puts the ETag on the response. */
export function unlessKnown(c: Context, etag: string): Response | null {
  const known = (c.req.header("If-None-Match") ?? "").split(",").map((tag) => tag.trim().replace(/^W\//, ""));
  c.header("ETag", etag);
  return known.includes(etag.replace(/^W\//, "")) || known[0] === "*" ? c.body(null, 304) : null;
}
