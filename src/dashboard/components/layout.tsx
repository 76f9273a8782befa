import { raw } from "hono/html";
import type { PropsWithChildren } from "hono/jsx";

/** The frame of every page. */
export const Page = ({ title, children }: PropsWithChildren<{ title: string }>) => (
  <>
    {raw("<!doctype html>")}
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>{title} · Developer Overview</title>
        <link rel="icon" href="/icon.svg" type="image/svg+xml" />
        <link rel="stylesheet" href="/style.css" />
      </head>
      <body>
        <header class="top">
          <a class="brand" href="/">
            Developer Overview
          </a>
          <nav aria-label="Main">
            <a href="/api/v1/openapi.json">OpenAPI</a>
          </nav>
        </header>
        <main>{children}</main>
      </body>
    </html>
  </>
);
