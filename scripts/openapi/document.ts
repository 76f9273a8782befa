import { apiBase } from "../../src/api/base-path.ts";
import { find, type Json, type JsonObject, resolve } from "../../src/api/openapi/document.ts";
import { laptop } from "../../src/api/openapi/servers.ts";
import { securityScheme } from "../../src/api/route-parts/access.ts";
import { Problem } from "../../src/api/route-parts/responses.ts";
import { routesOf } from "../../src/api/route-policies.ts";
import { type ApiRouter, createRouter } from "../../src/api/router.ts";
import { addErrorResponses } from "./error-responses.ts";
import { addEventRequests } from "./event-requests.ts";
import { addEventSchemas } from "./event-schemas.ts";
import { addExamples } from "./examples.ts";
import { headers } from "./headers.ts";
import { externalDocs, info, tags } from "./info.ts";
import { portable } from "./portable.ts";
import { addScopes } from "./scopes.ts";
import { shareParts } from "./shared-parts.ts";

/**
 * Returns the OpenAPI 3.1.0 document with every operation of `routers`, as plain JSON. Clients read this document, so its response schemas
 * allow unknown members and unknown error codes.
 */
export function openApiDocument(routers: readonly ApiRouter[]): JsonObject {
  const document = closedDocument(routers);
  addEventRequests(document);
  openResponses(document);
  addExamples(document);
  addScopes(document);
  shareParts(document);
  return document;
}

/**
 * Returns the document with strict response schemas. These schemas allow only the members and error codes of this version. The tests check
 * responses against these schemas.
 */
export function closedDocument(routers: readonly ApiRouter[]): JsonObject {
  const document = documentOf({
    base: apiBase,
    routes: routers.flatMap(routesOf),
    problem: Problem,
    schemes: {
      [securityScheme]: {
        type: "http",
        scheme: "bearer",
        description: "An API key, `dvo_...`. Each operation names the scope that it needs.",
      },
    },
    headers,
    head: { info, servers: [laptop], tags, externalDocs },
  });
  addEventSchemas(document);
  addErrorResponses(document);
  return document;
}

type Registry = ApiRouter["openAPIRegistry"];
type Components = NonNullable<ReturnType<ApiRouter["getOpenAPI31Document"]>["components"]>;

/** The parts of an API's document. */
interface Parts {
  /** The path below which the routes are mounted. */
  base: string;
  routes: readonly Parameters<Registry["registerPath"]>[0][];
  /** The schema of problem responses. */
  problem: Parameters<Registry["register"]>[1];
  schemes: NonNullable<Components["securitySchemes"]>;
  headers: NonNullable<Components["headers"]>;
  head: Omit<Parameters<ApiRouter["getOpenAPI31Document"]>[0], "openapi">;
}

/** Returns an OpenAPI 3.1.0 document as plain JSON, without the problem responses of its operations. */
export function documentOf({ base, routes, problem, schemes, headers, head }: Parts): JsonObject {
  const documented = createRouter();
  const registry = documented.openAPIRegistry;
  for (const route of routes) registry.registerPath(route);
  registry.register("Problem", problem);
  for (const [name, scheme] of Object.entries(schemes)) registry.registerComponent("securitySchemes", name, scheme);
  for (const [name, header] of Object.entries(headers)) registry.registerComponent("headers", name, header);
  const made = documented.getOpenAPI31Document({ openapi: "3.1.0", ...head });
  const paths = Object.fromEntries(Object.entries(made.paths ?? {}).map(([path, item]) => [base + path, item]));
  return JSON.parse(JSON.stringify({ ...made, paths }, portable)) as JsonObject;
}

/**
 * Changes the schemas of all responses and webhook requests so that they allow later additions. The schemas of objects then allow unknown
 * members. The schemas of problems and field errors also allow unknown error codes.
 */
export function openResponses(document: JsonObject): void {
  const seen = new Set<Json>();
  const open = (node: Json): void => {
    if (typeof node !== "object" || node === null || seen.has(node)) return;
    seen.add(node);
    if (Array.isArray(node)) {
      for (const each of node) open(each);
      return;
    }
    if (typeof node.$ref === "string") open(resolve(document, node.$ref));
    if (node.additionalProperties === false) delete node.additionalProperties;
    for (const child of Object.values(node)) open(child);
  };
  for (const responses of find(document, "responses")) open(responses);
  open(document.webhooks as JsonObject);
  const problem = "#/components/schemas/Problem/properties";
  for (const place of [`${problem}/code`, `${problem}/errors/items/properties/code`]) {
    const code = resolve(document, place) as JsonObject;
    code["x-extensible-enum"] = code.enum ?? [];
    delete code.enum;
  }
}
