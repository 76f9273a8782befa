import { createMiddleware } from "hono/factory";
import { NONCE, secureHeaders } from "hono/secure-headers";
import { brand } from "../lib/settings.ts";
import type { AppEnv } from "./context.ts";

const strictTransportSecurity = "max-age=63072000; includeSubDomains";

/** The security headers of every API response. An API response is never a page, so its Content-Security-Policy allows nothing. */
export const apiSecurityHeaders = {
  "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Strict-Transport-Security": strictTransportSecurity,
};

const unframed = secureHeaders({
  contentSecurityPolicy: {
    defaultSrc: ["'none'"],
    scriptSrc: [NONCE],
    styleSrc: ["'self'"],
    imgSrc: ["'self'", "data:"],
    ...(brand.font !== null && { fontSrc: ["'self'"] }),
    connectSrc: ["'self'"],
    formAction: ["'self'"],
    baseUri: ["'none'"],
    frameAncestors: ["'none'"],
    requireTrustedTypesFor: ["'script'"],
    trustedTypes: ["overview"],
  },
  strictTransportSecurity,
  // With "no-referrer", browsers would send forms with `Origin: null`, and `sameOrigin` would deny the forms.
  referrerPolicy: "same-origin",
  xFrameOptions: "DENY",
});

/** The security headers of every page. A page can be shown in a frame only if its handler sets `framedBy`, and only by these origins. */
export const pageSecurityHeaders = createMiddleware<AppEnv>(async function pageSecurityHeaders(c, next) {
  await unframed(c, next);
  const hosts = c.get("framedBy") ?? [];
  const own = c.get("ownPolicy");
  if (own !== undefined) c.res.headers.set("Content-Security-Policy", own);
  const opener = c.get("openerPolicy");
  if (opener !== undefined) c.res.headers.set("Cross-Origin-Opener-Policy", opener);
  if (hosts.length === 0) return;
  const { headers } = c.res;
  headers.delete("X-Frame-Options");
  const policy = headers.get("Content-Security-Policy") ?? "";
  headers.set("Content-Security-Policy", policy.replace("frame-ancestors 'none'", `frame-ancestors ${hosts.join(" ")}`));
});
