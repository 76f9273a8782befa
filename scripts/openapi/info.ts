import packageJson from "../../package.json" with { type: "json" };
import { servedManifests, servesSamples } from "../../src/db/registry/manifests.ts";
import { brand, productName, shownName } from "../../src/lib/settings.ts";

/** The description in the OpenAPI document. It is a short guide for readers who have only this document. */
const description = `${servesSamples ? "This API manages users, tasks, API keys and webhooks. The API also provides analytics, usage figures, exact rate limits and a log of requests." : "This API manages API keys and webhooks. The API also provides usage figures, exact rate limits and a log of requests."} The guides are at \`/docs\`.

## Authentication

In every request, send your API key in the header \`Authorization: Bearer dvo_...\`. Do not send the key anywhere else. Each key has scopes, and each operation names the scope that it needs. A request without an active key gets a 401 response. A request whose key lacks the scope gets a 403 response.

## Limits

Each key has a limit per clock hour (UTC), its \`hourly_limit\`, and perhaps limits per second, minute, day and month. A request usually uses one unit of each limit. The \`RateLimit\` headers of a response show what is left of each limit. The \`X-RateLimit-*\` headers show the limit per hour, and with a 429 the limit that refused the request. A request beyond a limit gets a 429 response with \`Retry-After\`. Responses with the status 401, 403 or 429 do not count against the limit. A request body may have at most 64 KiB and must arrive within 15 seconds.

## Errors

Every error response is \`application/problem+json\` (RFC 9457). An error response has a \`code\` for programs, a \`detail\` for people and the \`request_id\`. A request to an unknown path gets 404 \`not_found\`. An unsupported method gets 405 \`method_not_allowed\` with the header \`Allow\`. A request without a key gets 401, even if its path is unknown or its method is not supported. Unknown parameters and body members are rejected, and the error names them.

## Pages

Lists accept \`limit\` and \`cursor\`. A page has the members \`data\`, \`next_cursor\` and \`has_more\`. If there is a next page, the \`Link\` header points to it. A list neither skips nor repeats items while new items are added.

## Repeating and changing safely

If you repeat a POST with the same \`Idempotency-Key\` within 24 hours, the POST takes effect only once. A response with a single resource has a strong \`ETag\`. With \`If-None-Match\`, the response is 304 if the resource is unchanged. With \`If-Match\`, the response is 412 if the resource has changed.

## Compatibility

New response members, enum values, error codes and event types are not breaking changes. Clients must ignore values that they do not know.`;

export const info = {
  title: brand.name === "" ? `${productName} API` : `${brand.name} ${brand.area === "API" ? "API" : `${brand.area} API`}`,
  version: packageJson.version,
  summary: servesSamples
    ? "An API for users and tasks, with API keys, exact limits, usage figures, webhooks and a log of requests."
    : "API keys, exact limits, usage figures, webhooks and a log of requests.",
  description,
  contact: { name: shownName, ...(brand.support.startsWith("http") && { url: brand.support.replace(/\?.*$/, "") }) },
  license: { name: "MIT", url: "https://opensource.org/license/mit" },
};

export const externalDocs = { url: "/docs", description: "The guides, the API reference, and the catalogs of errors and events." };

export const tags = servedManifests.flatMap(({ tags = [] }) => tags);
