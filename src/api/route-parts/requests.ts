import type { z } from "@hono/zod-openapi";
import { tagListPattern } from "../middleware/conditional.ts";
import { idempotencyKeyPattern } from "../middleware/idempotency.ts";

// Request parts that route objects share.

export const body = <Schema extends z.ZodType>(schema: Schema) => ({
  required: true,
  content: { "application/json": { schema } },
});

/** A JSON body that may be absent, because every member is optional. */
export const optionalBody = <Schema extends z.ZodType>(schema: Schema) => ({ ...body(schema), required: false });

/** The body of a PATCH: a merge patch (RFC 7396), under its own media type or as plain JSON. */
export const mergePatch = <Schema extends z.ZodType>(schema: Schema) => ({
  required: true,
  content: { "application/json": { schema }, "application/merge-patch+json": { schema } },
});

const header = (name: string, description: string, form: { pattern: string; minLength?: number; maxLength?: number }) => ({
  name,
  in: "header" as const,
  required: false,
  description,
  schema: { type: "string" as const, ...form },
});

const ifMatch = header("If-Match", "Changes the resource only if it has this ETag, also in its weak form. Otherwise the response is 412.", {
  pattern: tagListPattern,
});
const ifNoneMatch = header(
  "If-None-Match",
  "The ETag that the client has. If it is still the same, a read responds with 304. A change responds with 412, and to `*` always.",
  { pattern: tagListPattern },
);

// `check-request.ts` validates these headers for each operation that declares them. These headers are not in `request`, because the router validates
// the schemas in `request` itself.
export const withConditions = { parameters: [ifMatch, ifNoneMatch] };
export const withIdempotencyKey = {
  parameters: [
    header("Idempotency-Key", "Makes the POST safe to repeat for 24 hours: 1 to 255 printable ASCII characters, new for each request.", {
      minLength: 1,
      maxLength: 255,
      pattern: idempotencyKeyPattern,
    }),
  ],
};
