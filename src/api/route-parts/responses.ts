import { z } from "@hono/zod-openapi";
import { rateLimitHeaders } from "../../http/rate-limit-headers.ts";
import { exampleOrigin } from "../../lib/errors/explanations.ts";
import { apiCodes, type FailureCode, fieldErrorCodes } from "../../lib/errors/failure.ts";

// Response parts that route objects share.

/** Returns the schema of the body of an error response (RFC 9457). `codes`: the error codes of the API. */
export const problemWith = (codes: readonly [FailureCode, ...FailureCode[]]) =>
  z
    .strictObject({
      type: z.string().meta({
        format: "uri",
        description:
          "The URL of a page about this error code. For `rate_limit_exceeded`, the value is the registered problem type for exceeded quotas.",
        example: `${exampleOrigin}/docs/errors/not_found`,
      }),
      title: z.string().meta({ description: "A short title for this kind of error.", example: "Not found" }),
      status: z.int().meta({ description: "The HTTP status of the response.", example: 404 }),
      detail: z
        .string()
        .meta({ description: "A human-readable explanation of this occurrence of the error.", example: "There is no such key." }),
      instance: z.string().meta({ description: "The path of the request.", example: "/api/v1/keys/key_4fPq2rT8vX0zB6dH" }),
      code: z.enum(codes).meta({
        description: `The error code, for programs: ${codes.map((code) => `\`${code}\``).join(", ")}. New codes may be added.`,
        example: "not_found",
      }),
      request_id: z.string().meta({
        description: "The `X-Request-Id` of the response. Quote this id when you ask for help.",
        example: "req_019a1b2c3d4e7f8091a2b3c4d5e6f708",
      }),
      errors: z
        .array(
          z.strictObject({
            detail: z.string().meta({ description: "A human-readable explanation of this error.", example: "This is required." }),
            code: z.enum(fieldErrorCodes).meta({
              description: `The code of this error, for programs: ${fieldErrorCodes
                .map((code) => `\`${code}\``)
                .join(", ")}. New codes may be added.`,
              example: "required",
            }),
            pointer: z
              .string()
              .optional()
              .meta({ description: "The JSON pointer (RFC 6901) to the invalid member of the body.", example: "/title" }),
            parameter: z.string().optional().meta({ description: "The name of the invalid query parameter.", example: "limit" }),
            header: z.string().optional().meta({ description: "The name of the invalid header.", example: "Idempotency-Key" }),
          }),
        )
        .optional()
        .meta({ description: "One entry for each invalid body member, query parameter or header." }),
      "violated-policies": z
        .array(z.string())
        .optional()
        .meta({
          description:
            "The names of the limits that are used up. The name of a limit that all keys of the account share begins with `account-`. Only responses with the status 429 have this member.",
          example: ["hour"],
        }),
    })
    .openapi("Problem", { description: "An error response (RFC 9457), which explains why the request was not served." });

export const Problem = problemWith(apiCodes);

export const headerRefs = (...names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));

/**
 * Returns functions that make the responses of route objects. `ofAll`: the headers of every response of the API. `more`: the headers that a response has in
 * addition.
 */
export const responsesWith = (...ofAll: string[]) => {
  const empty = (description: string, ...more: string[]) => ({ description, headers: headerRefs(...ofAll, ...more) });
  const json = <Schema extends z.ZodType>(schema: Schema, description: string, ...more: string[]) => ({
    ...empty(description, ...more),
    content: { "application/json": { schema } },
  });
  return {
    /** A response without a body. */
    empty,
    json,
    /** A JSON response to a POST that takes an Idempotency-Key. */
    postJson: <Schema extends z.ZodType>(schema: Schema, description: string, ...more: string[]) =>
      json(schema, description, ...more, "Idempotent-Replayed"),
    notModified: { 304: empty("The client already has this version.", "ETag") } as const,
  };
};

/** The responses to a request with a known API key. */
export const { empty: noContent, json, postJson, notModified } = responsesWith("X-Request-Id", ...rateLimitHeaders);
