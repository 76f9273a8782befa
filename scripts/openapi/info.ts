import packageJson from "../../package.json" with { type: "json" };
import { manifests } from "../../src/registry/manifests.ts";

/** What the document says of itself: a short guide for readers of nothing else. */
const description = `Users, tasks and analytics, and what belongs beside an API: keys, exact limits, usage, the log of requests and webhooks. The guides are at \`/docs\`.

## Authentication

Send an API key with every request: \`Authorization: Bearer dvo_...\`, nowhere else. A key has scopes; an operation names the one that it needs. Without a key, or with one that is not in force, the answer is 401; with one that lacks the scope, 403.

## Limits

A key may make as many requests in a clock hour (UTC) as its \`hourly_limit\` says. Every answer to a key says in \`RateLimit\` and \`X-RateLimit-*\` what is left and when the next hour begins. Beyond it the answer is 429 with \`Retry-After\`; 401, 403 and 429 count nothing. A body may have 64 KiB and must arrive within 15 seconds.

## Errors

Every error is \`application/problem+json\` (RFC 9457) with a \`code\` for programs, a \`detail\` for people and the \`request_id\`. A path that is not here is answered with 404 \`not_found\`, a method that a path does not take with 405 \`method_not_allowed\` and the header \`Allow\`; both need a key. Unknown parameters and members are refused, and named.

## Pages

Lists take \`limit\` and \`cursor\` and answer \`data\`, \`next_cursor\` and \`has_more\`, with a \`Link\` to the next page. A list neither skips nor repeats while things are added.

## Repeating and changing safely

A POST with an \`Idempotency-Key\` can be repeated for 24 hours and acts once. A response with one resource has a strong \`ETag\`. With \`If-None-Match\` the response is 304 if it is unchanged. With \`If-Match\` it is 412 if it has changed.

## Compatibility

New members of an answer, new enum values, error codes and types of events are no breaking changes: ignore what you do not know.`;

export const info = {
  title: "Developer Overview API",
  version: packageJson.version,
  summary: "Keys, exact limits, usage, the log of requests and webhooks, beside users and tasks.",
  description,
  contact: { name: "Developer Overview" },
  license: { name: "MIT", url: "https://opensource.org/license/mit" },
};

export const externalDocs = { url: "/docs", description: "Guides, reference, errors and events." };

export const tags = manifests.flatMap(({ tags = [] }) => tags);
