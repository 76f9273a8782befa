import { createRoute, z } from "@hono/zod-openapi";
import packageJson from "../../package.json" with { type: "json" };
import { apiBase } from "./base.ts";
import { answerOne, etagOfContent } from "./conditional.ts";
import { securityScheme, withoutKey } from "./operation.ts";
import { withConditions } from "./requests.ts";
import { type Api, resource } from "./resource.ts";
import { problem } from "./responses.ts";

const header = (description: string, schema: { type: "string" | "integer"; examples?: unknown[] }) => ({ description, schema });

const headers = {
  "X-Request-Id": header("`req_...`: the id of the entry in the activity log.", { type: "string" }),
  "RateLimit-Policy": header("IETF draft: the limit and its window in seconds.", { type: "string", examples: ['"hour";q=5000;w=3600'] }),
  RateLimit: header("IETF draft: what remains, and the seconds until the window ends.", {
    type: "string",
    examples: ['"hour";r=1650;t=1312'],
  }),
  "X-RateLimit-Limit": header("Requests an hour.", { type: "integer" }),
  "X-RateLimit-Remaining": header("What remains of them.", { type: "integer" }),
  "X-RateLimit-Used": header("What is used of them.", { type: "integer" }),
  "X-RateLimit-Reset": header("When the window ends, in seconds since the epoch.", { type: "integer" }),
  "Retry-After": header("Seconds to wait.", { type: "integer" }),
  "WWW-Authenticate": header("The challenge (RFC 6750).", { type: "string" }),
  ETag: header("The version of the resource.", { type: "string" }),
  Location: header("The path of what was made.", { type: "string" }),
  Link: header('The next page, `<...>; rel="next"`; absent on the last.', { type: "string" }),
};

/** The OpenAPI 3.1.0 document of every operation of `parts`, as plain JSON. */
export function openApiDocument(parts: readonly Api[]) {
  const registry = resource().openAPIRegistry;
  for (const { openAPIRegistry } of parts) {
    for (const definition of openAPIRegistry.definitions) if (definition.type === "route") registry.registerPath(definition.route);
  }
  registry.registerComponent("securitySchemes", securityScheme, {
    type: "http",
    scheme: "bearer",
    description: "An API key, `dvo_...`. The scope that an operation needs stands with it.",
  });
  for (const [name, definition] of Object.entries(headers)) registry.registerComponent("headers", name, definition);
  const documented = resource();
  documented.openAPIRegistry = registry;
  const document = documented.getOpenAPI31Document({
    openapi: "3.1.0",
    info: {
      title: "Developer Overview API",
      version: packageJson.version,
      description: "Users, tasks and analytics, and what belongs beside an API: keys, limits, usage and the log of requests.",
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
      { name: "This document", description: "The contract itself." },
    ],
  });
  const paths = Object.fromEntries(Object.entries(document.paths ?? {}).map(([path, item]) => [apiBase + path, item]));
  return { ...document, paths };
}

/** The part that answers the document of `parts`, itself included. */
export function documentOf(parts: readonly Api[]): Api {
  const self = resource();
  const read = createRoute({
    method: "get",
    path: "/openapi.json",
    operationId: "getOpenApi",
    summary: "Get this document",
    tags: ["This document"],
    ...withoutKey,
    ...withConditions,
    responses: {
      200: { description: "OpenAPI 3.1.0.", content: { "application/json": { schema: z.looseObject({ openapi: z.literal("3.1.0") }) } } },
      304: { description: "The client has this version already." },
      400: problem("A query parameter or header is not valid: `invalid_parameter`, `invalid_header`."),
      412: problem("`If-Match` does not hold: `precondition_failed`."),
    },
  });
  let made: { document: ReturnType<typeof openApiDocument>; etag: string } | undefined;
  self.openapi(read, (c) => {
    if (!made) {
      const document = openApiDocument([...parts, self]);
      made = { document, etag: etagOfContent(document) };
    }
    return answerOne(c, made.document as { openapi: "3.1.0" }, made.etag);
  });
  return self;
}
