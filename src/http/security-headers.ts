import { NONCE, secureHeaders } from "hono/secure-headers";
import { brand } from "../lib/settings.ts";

const strictTransportSecurity = "max-age=63072000; includeSubDomains";

/** The security headers of every API response. An API response is never a page, so its Content-Security-Policy allows nothing. */
export const apiSecurityHeaders = {
  "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Strict-Transport-Security": strictTransportSecurity,
};

/** The security headers of every page. */
export const pageSecurityHeaders = secureHeaders({
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
