import type { z } from "@hono/zod-openapi";
import { tagListPattern } from "../conditional.ts";
import { idempotencyKeyPattern } from "../idempotency.ts";

// Request parts that route objects share.

const head =
  <Method extends string>(method: Method) =>
  <Path extends string>(path: Path, operationId: string, summary: string) => ({ method, path, operationId, summary });

// Each of these functions returns the first part of a route object: the method, the path, the operation id and the summary.
export const get = head("get");
export const post = head("post");
export const put = head("put");
export const patch = head("patch");
export const del = head("delete");

export const body = <Schema extends z.ZodType>(schema: Schema) => ({
  required: true,
  content: { "application/json": { schema } },
});

/** A JSON body that may be absent, because every member is optional. */
export const optionalBody = <Schema extends z.ZodType>(schema: Schema) => ({ ...body(schema), required: false });

/**
 * The body of a PATCH is a merge patch (RFC 7396). The client may send a merge patch as `application/merge-patch+json` or as
 * `application/json`.
 */
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

const ifMatch = header(
  "If-Match",
  "The ETag that the resource must have. The weak form of the ETag matches too. If the resource has another ETag, the response is 412.",
  {
    pattern: tagListPattern,
  },
);
const ifNoneMatch = header(
  "If-None-Match",
  "The ETag of the version that the client has. If the resource still has this ETag, the response to a GET is 304, and the response to a change is 412. With `*`, the response to a change is always 412.",
  { pattern: tagListPattern },
);

// `check-request.ts` validates these headers for each operation that declares the headers. The headers are in `parameters`, not in
// `request`, because the router itself validates the schemas in `request`.
export const withConditions = { parameters: [ifMatch, ifNoneMatch] };
export const withIdempotencyKey = {
  parameters: [
    header(
      "Idempotency-Key",
      "If you repeat the POST with the same value within 24 hours, the POST takes effect only once. The value has 1 to 255 printable ASCII characters. Use a new value for each new request.",
      {
        minLength: 1,
        maxLength: 255,
        pattern: idempotencyKeyPattern,
      },
    ),
  ],
};
