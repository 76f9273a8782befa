import packageJson from "../../package.json" with { type: "json" };
import { Problem } from "../../src/api/route-parts/responses.ts";
import { routesOf } from "../../src/api/route-policies.ts";
import { createRouter } from "../../src/api/router.ts";
import { type FailureCode, failures } from "../../src/errors/failure.ts";
import { problemType } from "../../src/http/problem.ts";
import { type JsonObject, type Operation, operationsIn } from "../../src/openapi/document.ts";
import { forwardOperation } from "../../src/operator/resources/forward.ts";
import { forwardScheme, type TeamRouter, teamBase, teamScheme } from "../../src/operator/team-router.ts";
import { tokenScopes } from "../../src/service-tokens/token.ts";
import { addExamples } from "./examples.ts";
import { headers } from "./headers.ts";

const description = `The team that runs a deployment calls this API: from its own API, from the command line, and from scripts. Customers use the API at \`/api/v1\`.

## Authentication

Send a service token in every request: \`Authorization: Bearer svc_...\`. Each operation names the scope that it needs: ${tokenScopes.map((scope) => `\`${scope}\``).join(", ")}. An operator token of \`OPERATOR_TOKENS\` may do everything. Forward auth at \`/operator/api/verify/forward\` takes the token in the header \`X-Service-Token\`. A request without a valid token gets 401 \`invalid_token\`. A token that is bound to accounts gets 404 for all others.

## Errors

Every error response is \`application/problem+json\` (RFC 9457), with a \`code\` for programs and a \`detail\` for people. A body may have at most 1 MiB.`;

const info = {
  title: "Developer Overview team API",
  version: packageJson.version,
  description,
  license: { name: "MIT", url: "https://opensource.org/license/mit" },
};

const tags = [
  { name: "Verify", description: "Decisions about requests that your own API has received, and reports of its responses." },
  { name: "Accounts", description: "Your customers." },
  { name: "Keys", description: "The API keys of your customers." },
  { name: "Import", description: "Keys that your customers already have." },
  { name: "Plans", description: "Named sets of terms for accounts." },
  { name: "Operations", description: "Work on the whole deployment." },
  { name: "Service tokens", description: "Tokens for your own programs." },
];

const usedHeaders = ["X-Request-Id", "ETag", "Link", "Retry-After", "WWW-Authenticate"] as const;

/** Returns all error codes with which an operation may respond, except `invalid_token`. */
function codesOf(path: string, operation: Operation): FailureCode[] {
  const hasHeader = (name: string) =>
    (operation.parameters ?? []).some((parameter) => parameter.in === "header" && parameter.name === name);
  const codes: FailureCode[] = [
    "invalid_parameter",
    ...(hasHeader("If-Match") ? (["invalid_header", "precondition_failed"] as const) : []),
    ...(hasHeader("Idempotency-Key") ? (["invalid_header", "conflict", "request_in_progress", "idempotency_key_reused"] as const) : []),
    "insufficient_scope",
    ...(path.includes("{") ? (["not_found"] as const) : []),
    ...(operation.requestBody
      ? (["malformed_json", "request_timeout", "body_too_large", "unsupported_media_type", "invalid_body"] as const)
      : []),
    "internal_error",
    "unavailable",
    ...((operation["x-error-codes"] ?? []) as FailureCode[]),
  ];
  return Object.keys(failures).filter((code) => codes.includes(code as FailureCode)) as FailureCode[];
}

const problem = (text: string) => ({
  description: text,
  headers: { "X-Request-Id": { $ref: "#/components/headers/X-Request-Id" } },
  content: { [problemType]: { schema: { $ref: "#/components/schemas/Problem" } } },
});

/** Returns the OpenAPI 3.1.0 document of the team API, as plain JSON. */
export function teamDocument(routers: readonly TeamRouter[]): JsonObject {
  const documented = createRouter();
  const registry = documented.openAPIRegistry;
  const [verifying, ...others] = routers.map(routesOf);
  for (const route of [...(verifying ?? []), forwardOperation, ...others.flat()]) registry.registerPath(route);
  registry.register("Problem", Problem);
  registry.registerComponent("securitySchemes", teamScheme, {
    type: "http",
    scheme: "bearer",
    description: "A service token, `svc_...`, or an operator token.",
  });
  registry.registerComponent("securitySchemes", forwardScheme, {
    type: "apiKey",
    in: "header",
    name: "X-Service-Token",
    description: "A service token with the scope `verify`, which the proxy adds.",
  });
  for (const name of usedHeaders) registry.registerComponent("headers", name, headers[name]);
  const made = documented.getOpenAPI31Document({ openapi: "3.1.0", info, servers: [{ url: "/" }], tags });
  const paths = Object.fromEntries(Object.entries(made.paths ?? {}).map(([path, item]) => [teamBase + path, item]));
  const document = JSON.parse(JSON.stringify({ ...made, paths })) as JsonObject;
  for (const { path, operation } of operationsIn(document)) {
    const sentences = [
      { status: 401, text: "`invalid_token`: The service token is missing, unknown, revoked or expired." },
      ...codesOf(path, operation).map((code) => ({ status: failures[code].status, text: `\`${code}\`: ${failures[code].title}.` })),
    ];
    for (const [status, of] of Map.groupBy(sentences, (each) => each.status))
      operation.responses[String(status)] = problem(of.map(({ text }) => text).join(" "));
    delete operation["x-error-codes"];
  }
  addExamples(document);
  return document;
}
