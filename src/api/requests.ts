import type { z } from "@hono/zod-openapi";

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

const header = (name: string, description: string) => ({
  name,
  in: "header" as const,
  required: false,
  description,
  schema: { type: "string" as const },
});

const ifMatch = header("If-Match", "Only the version with this ETag; else 412.");

// The handlers read these themselves, so they stand beside `request`, whose schemas are run.
export const withIfMatch = { parameters: [ifMatch] };
export const withConditions = {
  parameters: [ifMatch, header("If-None-Match", "The ETag that the client has; if it is still the same, 304.")],
};
export const withIdempotencyKey = {
  parameters: [
    header("Idempotency-Key", "Makes the POST safe to repeat for 24 hours: 1 to 255 printable ASCII characters, new for each request."),
  ],
};

type Present<Members> = { [Name in keyof Members]: Exclude<Members[Name], undefined> };

/** The members that a patch has. */
export const present = <Members extends object>(members: Members) =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as Present<Members>;
