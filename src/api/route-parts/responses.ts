import { z } from "@hono/zod-openapi";
import { type FailureCode, failures } from "../../errors.ts";
import { problemType } from "../../http/problem.ts";
import { rateLimitHeaders } from "../../http/rate-limit-headers.ts";

// The parts that route objects share in what they say about their responses.

/** RFC 9457. */
export const Problem = z
  .strictObject({
    type: z.string().openapi({ format: "uri", description: "A page about this kind of error." }),
    title: z.string(),
    status: z.int(),
    detail: z.string().openapi({ description: "A sentence for people about this occurrence." }),
    instance: z.string().openapi({ description: "The path that was asked for." }),
    code: z.enum(Object.keys(failures) as [FailureCode, ...FailureCode[]]).openapi({ description: "For programs. New codes may come." }),
    request_id: z.string(),
    errors: z
      .array(
        z.strictObject({
          detail: z.string(),
          code: z.string(),
          pointer: z.string().optional().openapi({ description: "The member of the body (RFC 6901)." }),
          parameter: z.string().optional().openapi({ description: "The query parameter." }),
          header: z.string().optional(),
        }),
      )
      .optional(),
    "violated-policies": z.array(z.string()).optional(),
  })
  .openapi("Problem");

const headerRefs = (...names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));

/** On every response to a recognised key. */
const ofKey = ["X-Request-Id", ...rateLimitHeaders];

/** A JSON response. `more`: headers besides those that every response has. */
export const json = <Schema extends z.ZodType>(schema: Schema, description: string, ...more: string[]) => ({
  description,
  headers: headerRefs(...ofKey, ...more),
  content: { "application/json": { schema } },
});

/** The same of a POST that takes an Idempotency-Key. */
export const postJson = <Schema extends z.ZodType>(schema: Schema, description: string, ...more: string[]) =>
  json(schema, description, ...more, "Idempotent-Replayed");

export const noContent = (description: string, { isPublic = false } = {}) => ({
  description,
  headers: headerRefs(...(isPublic ? ["X-Request-Id"] : ofKey)),
});

/** The response to a client that has this version already. */
export const notModified = {
  304: { description: "The client has this version already.", headers: headerRefs(...ofKey, "ETag") },
} as const;

/** A response that is a problem. `headers`: those besides the request id. */
export const problem = (description: string, ...headers: string[]) => ({
  description,
  headers: headerRefs("X-Request-Id", ...headers),
  content: { [problemType]: { schema: Problem } },
});

const ofKeyProblem = (description: string, ...headers: string[]) => problem(description, ...rateLimitHeaders, ...headers);

const byStatus = {
  400: ofKeyProblem(
    "A query parameter, a header or the JSON is not valid: `malformed_json`, `invalid_parameter`, `invalid_cursor`, `invalid_header`.",
  ),
  404: ofKeyProblem("There is no such thing in this account: `not_found`."),
  408: ofKeyProblem("The body was not there within 15 seconds: `request_timeout`."),
  409: ofKeyProblem("It clashes with what there is: `conflict`, `request_in_progress`, `limit_reached`.", "Retry-After"),
  412: ofKeyProblem("`If-Match` does not hold: `precondition_failed`."),
  413: ofKeyProblem("The body has more than 64 KiB: `body_too_large`."),
  415: ofKeyProblem("The body is of another media type or character set: `unsupported_media_type`.", "Accept-Post", "Accept-Patch"),
  422: ofKeyProblem("The body is well-formed but wrong; every bad member is named: `invalid_body`, `idempotency_key_reused`."),
} as const;

/** The problems that an operation with a key may answer with: those that all of them have, and `statuses`. */
export function problems<Status extends keyof typeof byStatus>(...statuses: Status[]) {
  const own = Object.fromEntries(statuses.map((status) => [status, byStatus[status]])) as Record<Status, ReturnType<typeof problem>>;
  return {
    401: ofKeyProblem(
      "No key, or one that is not in force: `missing_key`, `invalid_key`, `revoked_key`, `disabled_key`, `expired_key`.",
      "WWW-Authenticate",
    ),
    403: ofKeyProblem("The key may not do this: `insufficient_scope`, `ip_not_allowed`, `forbidden`.", "WWW-Authenticate"),
    429: ofKeyProblem("The limit of the hour is used up: `rate_limit_exceeded`.", "Retry-After"),
    500: ofKeyProblem("`internal_error`: something went wrong on our side."),
    503: ofKeyProblem("`unavailable`: refused, since storage or the key's guard cannot answer.", "Retry-After"),
    ...own,
  };
}
