import { raw } from "hono/html";
import { assets } from "../dashboard/assets.ts";
import type { PageContext } from "../dashboard/context.ts";
import { preferencesOf } from "../dashboard/preferences.ts";
import { publicOrigin } from "../http/request-url.ts";
import { brand, shownName } from "../lib/settings.ts";

// The page with the OpenAPI document of the team's own API, by Scalar. Scalar is large, makes styles at run time, and shows a text that others may have written.
// Its page is therefore apart from all others: the browser gives it an origin of its own, so it reaches no cookie, no storage and no page of this service.

/** Returns the Content-Security-Policy. The page may call the team's API, and nothing else. */
const policyOf = (nonce: string, apiOrigin: string) =>
  [
    "default-src 'none'",
    "sandbox allow-scripts allow-forms allow-popups",
    `script-src 'nonce-${nonce}'`,
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data:",
    "font-src 'self'",
    `connect-src ${apiOrigin}`,
    "frame-ancestors 'none'",
    "form-action 'none'",
    "base-uri 'none'",
  ].join("; ");

const bar = "display:flex;flex-wrap:wrap;gap:0.25rem 1.25rem;padding:0.75rem 1.25rem;border-bottom:1px solid #8884;font:15px system-ui";
const link = "color:inherit";

export function showReference(c: PageContext) {
  const nonce = c.get("secureHeadersNonce") ?? "";
  const { theme } = preferencesOf(c);
  c.set("ownPolicy", policyOf(nonce, brand.apiUrl || publicOrigin(c)));
  // The page that opened this one answers it once.
  c.set("openerPolicy", "unsafe-none");
  return c.html(
    <>
      {raw("<!doctype html>")}
      <html lang="en" data-theme={theme}>
        <head>
          <meta charset="utf-8" />
          <meta name="viewport" content="width=device-width, initial-scale=1" />
          <meta name="color-scheme" content={theme === "auto" ? "light dark" : theme} />
          <title>{`API reference · ${shownName}`}</title>
          <link rel="icon" href={brand.icon ?? "/icon.svg"} />
          <script src={assets["reference.js"]} nonce={nonce} />
          <script src="/brand/reference.js" nonce={nonce} />
        </head>
        <body style="margin:0">
          <nav aria-label="Documentation" style={bar}>
            <strong>{shownName}</strong>
            {(
              [
                ["Documentation", "/docs"],
                ["Keys", "/docs/guides/authentication"],
                ["Limits", "/docs/guides/limits"],
                ["Errors", "/docs/guides/errors"],
              ] as const
            ).map(([name, path]) => (
              <a href={path} style={link}>
                {name}
              </a>
            ))}
            <span role="status" data-sent-as />
          </nav>
          <div id="reference" />
          <noscript>This page needs JavaScript.</noscript>
          <script src="/brand/scalar.js" nonce={nonce} />
        </body>
      </html>
    </>,
  );
}
