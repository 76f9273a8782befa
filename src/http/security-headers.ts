import { NONCE, secureHeaders } from "hono/secure-headers";

const strictTransportSecurity = "max-age=63072000; includeSubDomains";

/** On every response of the API: nothing of it is ever a page. */
export const apiSecurityHeaders = {
  "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Strict-Transport-Security": strictTransportSecurity,
};

/** On every page. */
export const pageSecurityHeaders = secureHeaders({
  contentSecurityPolicy: {
    defaultSrc: ["'none'"],
    scriptSrc: [NONCE],
    styleSrc: ["'self'"],
    imgSrc: ["'self'", "data:"],
    connectSrc: ["'self'"],
    formAction: ["'self'"],
    baseUri: ["'none'"],
    frameAncestors: ["'none'"],
    requireTrustedTypesFor: ["'script'"],
    trustedTypes: ["overview"],
  },
  strictTransportSecurity,
  // Not "no-referrer": forms would be sent with `Origin: null`.
  referrerPolicy: "same-origin",
  xFrameOptions: "DENY",
});
