import type { z } from "@hono/zod-openapi";
import { Problem, problemType } from "./problem.ts";
import { rateLimitHeaders } from "./rate-limit-headers.ts";

// The parts that route objects share in what they say about their answers.

const headerRefs = (...names: string[]) => Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));

/** On every answer to a recognised key. */
const limitHeaders = ["X-Request-Id", ...rateLimitHeaders];

/** A JSON answer. `more`: headers besides those that every answer has. */
export const json = <Schema extends z.ZodType>(schema: Schema, description: string, ...more: string[]) => ({
  description,
  headers: headerRefs(...limitHeaders, ...more),
  content: { "application/json": { schema } },
});

export const noContent = (description: string) => ({ description, headers: headerRefs(...limitHeaders) });

/** The answer to a client that has this version already. */
export const notModified = { 304: noContent("The client has this version already.") } as const;

/** An answer that is a problem. `headers`: those beside the request id. */
export const problem = (description: string, ...headers: string[]) => ({
  description,
  headers: headerRefs("X-Request-Id", ...headers),
  content: { [problemType]: { schema: Problem } },
});

const descriptions = {
  400: "A query parameter, a header or the JSON is not valid: `malformed_json`, `invalid_parameter`, `invalid_cursor`, `invalid_header`.",
  404: "There is no such thing in this account: `not_found`.",
  409: "It clashes with what there is: `conflict`, `request_in_progress`, `limit_reached`.",
  412: "`If-Match` does not hold: `precondition_failed`.",
  413: "The body has more than 64 KiB: `body_too_large`.",
  415: "The body is of another media type: `unsupported_media_type`.",
  422: "The body is well-formed but wrong; every bad member is named: `invalid_body`, `idempotency_key_reused`.",
} as const;

/** The problems that an operation with a key may answer with: those that all of them have, and `statuses`. */
export function problems<Status extends keyof typeof descriptions>(...statuses: Status[]) {
  const own = Object.fromEntries(statuses.map((status) => [status, problem(descriptions[status])])) as Record<
    Status,
    ReturnType<typeof problem>
  >;
  return {
    401: problem(
      "No key, or one that is not in force: `missing_key`, `invalid_key`, `revoked_key`, `disabled_key`, `expired_key`.",
      "WWW-Authenticate",
    ),
    403: problem("The key may not do this: `insufficient_scope`, `ip_not_allowed`, `forbidden`."),
    429: problem("The limit of the hour is used up: `rate_limit_exceeded`.", "Retry-After"),
    500: problem("`internal_error`: something went wrong on our side."),
    503: problem("`unavailable`: refused, since storage or the key's guard cannot answer.", "Retry-After"),
    ...own,
  };
}
