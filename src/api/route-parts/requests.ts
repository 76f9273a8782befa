import type { z } from "@hono/zod-openapi";
import { tagListPattern } from "../middleware/conditional.ts";
import { idempotencyKeyPattern } from "../middleware/idempotency.ts";

// The parts that route objects share in what they say about requests.

/** A JSON body. */
export const body = <Schema extends z.ZodType>(schema: Schema) => ({
  required: true,
  content: { "application/json": { schema } },
});

/** A JSON body whose every member may be left out, and so the body itself. */
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

// Checked for every operation that names them here (`check-request.ts`), so they stand beside `request`, whose schemas are run.
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
