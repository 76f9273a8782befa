import { createRoute, z } from "@hono/zod-openapi";
import { Failure } from "../../errors.ts";
import { apiBase } from "../base-path.ts";
import type { ApiContext } from "../context.ts";
import { respondNotModified } from "../middleware/conditional.ts";
import { respondStream, respondText } from "../respond.ts";
import { publicRoute, refusing } from "../route-parts/access.ts";
import { withConditions } from "../route-parts/requests.ts";
import { createRouter } from "../router.ts";

/** The OpenAPI document itself: `npm run openapi` writes it into `public/`, from where it is served as it is. */
export const document = createRouter();

const requestId = { "X-Request-Id": { $ref: "#/components/headers/X-Request-Id" } };
const etagHeader = { ETag: { $ref: "#/components/headers/ETag" } };
const notModified = { 304: { description: "The client has this version already.", headers: { ...requestId, ...etagHeader } } };
const tags = ["This document"];

/** A file that `npm run openapi` has written, or the answer to a client that has it already. Throws `unavailable`. */
async function readAsset(c: ApiContext, path: string) {
  const asset = await c.env.ASSETS.fetch(new URL(apiBase + path, c.get("url")));
  const etag = asset.headers.get("ETag")?.replace(/^W\//, "");
  if (!asset.ok || !etag) throw new Failure("unavailable", "The document cannot be read just now. Try again in a moment.");
  const notModified = respondNotModified(c, etag);
  if (notModified) await asset.body?.cancel();
  return { etag, body: asset.body, notModified };
}

const readJson = createRoute({
  method: "get",
  path: "/openapi.json",
  operationId: "getOpenApi",
  summary: "Get this document",
  description: "The contract of this service, made from its code: the same that its documentation shows. Needs no key, and is not counted.",
  tags,
  ...publicRoute,
  ...refusing("unavailable"),
  ...withConditions,
  responses: {
    200: {
      description: "OpenAPI 3.1.0, as JSON.",
      headers: { ...requestId, ...etagHeader },
      content: {
        "application/json": {
          schema: z
            .looseObject({ openapi: z.literal("3.1.0").openapi({ description: "The version of OpenAPI: `3.1.0`." }) })
            .openapi("OpenApiDocument", { description: "An OpenAPI document." }),
        },
      },
    },
    ...notModified,
  },
});

document.openapi(readJson, async (c) => {
  const { etag, body, notModified } = await readAsset(c, readJson.path);
  return notModified ?? respondStream<{ openapi: "3.1.0" }>(body, { ETag: etag });
});

const readYaml = createRoute({
  method: "get",
  path: "/openapi.yaml",
  operationId: "getOpenApiYaml",
  summary: "Get this document as YAML",
  description: "The same document in YAML, for tools that read nothing else. Needs no key, and is not counted.",
  tags,
  ...publicRoute,
  ...refusing("unavailable"),
  ...withConditions,
  responses: {
    200: {
      description: "OpenAPI 3.1.0, as YAML.",
      headers: { ...requestId, ...etagHeader },
      content: { "application/yaml": { schema: z.string().openapi({ description: "The document.", example: "openapi: 3.1.0\n" }) } },
    },
    ...notModified,
  },
});

document.openapi(readYaml, async (c) => {
  const { etag, body, notModified } = await readAsset(c, readYaml.path);
  return notModified ?? respondText(body, { ETag: etag, "Content-Type": "application/yaml" });
});
