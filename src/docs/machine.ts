import { servesSamples } from "../db/registry/manifests.ts";
import { brand, shownName } from "../lib/settings.ts";
import type { DocPage } from "./page.ts";

// Files with well-known names that programs request.

const headings: Partial<Record<DocPage["kind"], string>> = {
  Guide: "Guides",
  Operation: "Operations",
  Event: "Events",
  Error: "Errors",
  Schema: "Optional",
};

/** Returns `/llms.txt` (llmstxt.org): links to the Markdown version of each documentation page. */
export const llmsText = (pages: readonly DocPage[], origin: string): string =>
  [
    `# ${shownName} ${brand.area}`,
    "",
    `> ${servesSamples ? "An API for users and tasks, with API keys" : "API keys"}, exact limits, usage figures, webhooks and a log of requests. Every page is Markdown.`,
    "",
    `- [OpenAPI document](${origin}/api/v1/openapi.json): the contract, OpenAPI 3.1`,
    ...Object.entries(headings).flatMap(([kind, heading]) => [
      "",
      `## ${heading}`,
      "",
      ...pages.filter((page) => page.kind === kind).map(({ title, path, summary }) => `- [${title}](${origin}${path}.md): ${summary}`),
    ]),
    "",
  ].join("\n");

/**
 * Returns `/robots.txt` (RFC 9309). Crawlers may read the documentation and the files that its pages load. Most other paths require a sign-in or a
 * key.
 */
export const robotsText = (origin: string): string =>
  [
    "User-agent: *",
    ...["/docs", "/llms.txt", "/assets/", "/icon.svg", "/favicon.ico"].map((path) => `Allow: ${path}`),
    "Disallow: /docs/search",
    "Disallow: /",
    "",
    `Sitemap: ${origin}/sitemap.xml`,
    "",
  ].join("\n");

/** Returns `/sitemap.xml` (sitemaps.org), which lists every page of the documentation. */
export const sitemapXml = (pages: readonly DocPage[], origin: string): string =>
  [
    '<?xml version="1.0" encoding="UTF-8"?>',
    '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">',
    ...[...pages.map(({ path }) => path), ...(brand.hasReference ? ["/docs/reference"] : [])].map(
      (path) => `  <url><loc>${origin}${path}</loc></url>`,
    ),
    "</urlset>",
    "",
  ].join("\n");

/** Returns `/.well-known/security.txt` (RFC 9116). */
export const securityText = ({ contact, expires, origin }: { contact: string; expires: string; origin: string }): string =>
  [`Contact: ${contact}`, `Expires: ${expires}`, "Preferred-Languages: en", `Canonical: ${origin}/.well-known/security.txt`, ""].join("\n");

/** Returns the content of `/.well-known/api-catalog` (RFC 9727). */
export const apiCatalog = (origin: string) => ({
  linkset: [
    {
      anchor: `${origin}/api/v1`,
      "service-desc": [
        { href: `${origin}/api/v1/openapi.json`, type: "application/json" },
        { href: `${origin}/api/v1/openapi.yaml`, type: "application/yaml" },
      ],
      "service-doc": [
        { href: `${origin}/docs`, type: "text/html" },
        { href: `${origin}/llms.txt`, type: "text/plain" },
      ],
      status: [{ href: `${origin}/health`, type: "application/health+json" }],
    },
  ],
});
