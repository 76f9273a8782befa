import { createRoute, z } from "@hono/zod-openapi";
import { Failure } from "../../errors.ts";
import { apiBase } from "../base-path.ts";
import { respondNotModified } from "../middleware/conditional.ts";
import { respondStream } from "../respond.ts";
import { publicRoute } from "../route-parts/access.ts";
import { withConditions } from "../route-parts/requests.ts";
import { problem } from "../route-parts/responses.ts";
import { createRouter } from "../router.ts";

/** The OpenAPI document itself: `npm run openapi` writes it into `public/`, from where it is served as it is. */
export const document = createRouter();

const path = "/openapi.json";
const requestId = { "X-Request-Id": { $ref: "#/components/headers/X-Request-Id" } };
const etagHeader = { ETag: { $ref: "#/components/headers/ETag" } };

const read = createRoute({
  method: "get",
  path,
  operationId: "getOpenApi",
  summary: "Get this document",
  tags: ["This document"],
  ...publicRoute,
  ...withConditions,
  responses: {
    200: {
      description: "OpenAPI 3.1.0.",
      headers: { ...requestId, ...etagHeader },
      content: { "application/json": { schema: z.looseObject({ openapi: z.literal("3.1.0") }) } },
    },
    304: { description: "The client has this version already.", headers: { ...requestId, ...etagHeader } },
    400: problem("A query parameter or header is not valid: `invalid_parameter`, `invalid_header`."),
    412: problem("`If-Match` does not hold: `precondition_failed`."),
    503: problem("`unavailable`: the document cannot be read just now.", "Retry-After"),
  },
});

document.openapi(read, async (c) => {
  const asset = await c.env.ASSETS.fetch(new URL(apiBase + path, c.get("url")));
  const etag = asset.headers.get("ETag")?.replace(/^W\//, "");
  if (!asset.ok || !etag) throw new Failure("unavailable", "The document cannot be read just now. Try again in a moment.");
  const notModified = respondNotModified(c, etag);
  if (!notModified) return respondStream<{ openapi: "3.1.0" }>(asset.body, { ETag: etag });
  await asset.body?.cancel();
  return notModified;
});
