import packageJson from "../../package.json" with { type: "json" };
import { apiBase } from "./base-path.ts";
import { securityScheme } from "./route-parts/access.ts";
import { type ApiRouter, createRouter } from "./router.ts";

const header = (description: string, schema: { type: "string" | "integer"; enum?: string[]; examples?: unknown[] }) => ({
  description,
  schema,
});

const headers = {
  "X-Request-Id": header("`req_...`: the id of the entry in the activity log.", { type: "string" }),
  "RateLimit-Policy": header("IETF draft: the limit and its window in seconds. With every recognised key, as are the following.", {
    type: "string",
    examples: ['"hour";q=5000;w=3600'],
  }),
  RateLimit: header("IETF draft: what remains, and the seconds until the window ends.", {
    type: "string",
    examples: ['"hour";r=1650;t=1312'],
  }),
  "X-RateLimit-Limit": header("Requests an hour.", { type: "integer" }),
  "X-RateLimit-Remaining": header("What remains of them.", { type: "integer" }),
  "X-RateLimit-Used": header("What is used of them.", { type: "integer" }),
  "X-RateLimit-Reset": header("When the window ends, in seconds since the epoch.", { type: "integer" }),
  "Retry-After": header("Seconds to wait.", { type: "integer" }),
  "WWW-Authenticate": header("The challenge (RFC 6750). On a 403, only where a scope is missing.", { type: "string" }),
  "Accept-Post": header("The media types that a POST here takes.", { type: "string" }),
  "Accept-Patch": header("The media types that a PATCH here takes.", { type: "string" }),
  "Idempotent-Replayed": header("`true` where this answers a repetition with the same Idempotency-Key.", {
    type: "string",
    enum: ["true"],
  }),
  ETag: header("The version of the resource.", { type: "string" }),
  Location: header("The path of what was made.", { type: "string" }),
  Link: header('The next page, `<...>; rel="next"`; absent on the last.', { type: "string" }),
};

const description = `Users, tasks and analytics, and what belongs beside an API: keys, limits, usage and the log of requests.

A path that is not here is answered with 404 \`not_found\`, a method that a path does not take with 405 \`method_not_allowed\` and the header \`Allow\`; both need a key.

New members of an answer, new enum values, error codes and types of events are no breaking changes: ignore what you do not know.`;

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
interface OpenApiDocument {
  openapi: string;
  paths: Record<string, unknown>;
}

/** The OpenAPI 3.1.0 document of every operation of `routers`, as plain JSON, as clients see it: answers may get new members and codes. */
export function openApiDocument(routers: readonly ApiRouter[]): OpenApiDocument {
  const document = closedDocument(routers);
  openAnswers(document as unknown as Json);
  return document;
}

/** The same with closed answers: what the service answers today and nothing else. Tests hold it to this one. */
export function closedDocument(routers: readonly ApiRouter[]): OpenApiDocument {
  const registry = createRouter().openAPIRegistry;
  for (const { openAPIRegistry } of routers) {
    for (const definition of openAPIRegistry.definitions) if (definition.type === "route") registry.registerPath(definition.route);
  }
  registry.registerComponent("securitySchemes", securityScheme, {
    type: "http",
    scheme: "bearer",
    description: "An API key, `dvo_...`. The scope that an operation needs stands with it.",
  });
  for (const [name, definition] of Object.entries(headers)) registry.registerComponent("headers", name, definition);
  const documented = createRouter();
  documented.openAPIRegistry = registry;
  const document = documented.getOpenAPI31Document({
    openapi: "3.1.0",
    info: {
      title: "Developer Overview API",
      version: packageJson.version,
      description,
      license: { name: "MIT", url: "https://opensource.org/license/mit" },
    },
    servers: [{ url: "/" }],
    tags: [
      { name: "Users", description: "The account's own people." },
      { name: "Tasks", description: "What they have to do." },
      { name: "Analytics", description: "Figures about both." },
      { name: "Key in use", description: "The key that a request came with, and its limit." },
      { name: "Usage", description: "Figures about the requests of the account." },
      { name: "Activity", description: "The log of requests." },
      { name: "Keys", description: "The account's API keys." },
      { name: "Webhooks", description: "Where events go." },
      { name: "Deliveries", description: "Events on their way, attempt by attempt." },
      { name: "Events", description: "What happened." },
      { name: "Audit", description: "Who changed what." },
      { name: "This document", description: "The contract itself." },
    ],
  });
  const paths = Object.fromEntries(Object.entries(document.paths ?? {}).map(([path, item]) => [apiBase + path, item]));
  return JSON.parse(JSON.stringify({ ...document, paths })) as OpenApiDocument;
}

/** Opens every schema that an answer may have: its objects for further members, the codes of problems for further ones. */
function openAnswers(document: Json): void {
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
  const code = resolve(document, "#/components/schemas/Problem/properties/code") as { [name: string]: Json };
  code["x-extensible-enum"] = code.enum ?? [];
  delete code.enum;
}

const resolve = (document: Json, ref: string): Json =>
  ref
    .slice("#/".length)
    .split("/")
    .reduce<Json>((node, name) => (node as { [name: string]: Json })[name] ?? null, document);

/** Every value of a member of that name. */
function find(node: Json, wanted: string): Json[] {
  if (typeof node !== "object" || node === null) return [];
  if (Array.isArray(node)) return node.flatMap((each) => find(each, wanted));
  return Object.entries(node).flatMap(([name, child]) => (name === wanted ? [child] : find(child, wanted)));
}
