import { createRoute, z } from "@hono/zod-openapi";
import { requestOrigin, urlOf } from "../../http/request-url.ts";
import { hashOf } from "../../lib/crypto/hash.ts";
import { etagOf, respondNotModified } from "../conditional.ts";
import type { ApiContext } from "../context.ts";
import { readDocument } from "../openapi/document.ts";
import { serversOf, withServers } from "../openapi/servers.ts";
import { respondBytes } from "../respond.ts";
import { failsWith, publicRoute } from "../route-parts/access.ts";
import { get, withConditions } from "../route-parts/requests.ts";
import { createRouter } from "../router.ts";

/**
 * The routes that serve the OpenAPI document. `npm run generate` writes the document to `public/`. The served document lists the servers of this
 * deployment.
 */
export const routes = createRouter();

const headers = { "X-Request-Id": { $ref: "#/components/headers/X-Request-Id" }, ETag: { $ref: "#/components/headers/ETag" } };
const notModified = { 304: { description: "The client already has this version.", headers } };
/** What the routes of the document share, in JSON and in YAML. */
const shared = { tags: ["This document"], ...publicRoute, ...failsWith("unavailable"), ...withConditions };

/** The response schema of the OpenAPI document, in JSON and in YAML. */
const OpenApiDocument = z
  .looseObject({ openapi: z.literal("3.1.0").meta({ description: "The version of OpenAPI: `3.1.0`." }) })
  .openapi("OpenApiDocument", { description: "An OpenAPI document." });

interface Served {
  etag: string;
  bytes: Uint8Array;
}

/**
 * A cache of the documents that this isolate has served. The cache holds one document per path. A larger cache would help only a local build,
 * because only a local build has several origins.
 */
const served = new Map<string, Served & { servers: string }>();

/** Returns the generated document with the servers of this deployment. Throws `unavailable` if the document cannot be read. */
async function readServed(c: ApiContext, path: "/openapi.json" | "/openapi.yaml"): Promise<Served> {
  const servers = serversOf(c.env.PUBLIC_ORIGIN, requestOrigin(c));
  const key = JSON.stringify(servers);
  const known = served.get(path);
  if (known?.servers === key) return known;
  const asset = await readDocument(c.env, `/api/v1${path}`, urlOf(c));
  const text = withServers(new TextDecoder().decode(await asset.arrayBuffer()), servers);
  const made = { servers: key, etag: etagOf(hashOf(text).slice(0, 16)), bytes: new TextEncoder().encode(text) };
  served.set(path, made);
  return made;
}

async function serve(c: ApiContext, path: "/openapi.json" | "/openapi.yaml", type: "application/json" | "application/yaml") {
  const { etag, bytes } = await readServed(c, path);
  return respondNotModified(c, etag) ?? respondBytes<{ openapi: "3.1.0" }>(c, bytes, { ETag: etag, "Content-Type": type });
}

const readJson = createRoute({
  ...get("/openapi.json", "getOpenApi", "Get this document"),
  description:
    "Returns the OpenAPI document of this service. The document is generated from the code of the service. The documentation shows the same contract. This request does not count against any limit.",
  ...shared,
  responses: {
    200: {
      description: "The OpenAPI 3.1.0 document, as JSON.",
      headers,
      content: { "application/json": { schema: OpenApiDocument } },
    },
    ...notModified,
  },
});

routes.openapi(readJson, (c) => serve(c, readJson.path, "application/json"));

const readYaml = createRoute({
  ...get("/openapi.yaml", "getOpenApiYaml", "Get this document as YAML"),
  description: "Returns the same OpenAPI document in YAML, for tools that only read YAML. This request does not count against any limit.",
  ...shared,
  responses: {
    200: {
      description: "The OpenAPI 3.1.0 document, as YAML.",
      headers,
      content: { "application/yaml": { schema: { type: "string", description: "The document in YAML.", example: "openapi: 3.1.0" } } },
    },
    ...notModified,
  },
});

routes.openapi(readYaml, (c) => serve(c, readYaml.path, "application/yaml"));
