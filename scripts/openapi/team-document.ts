import packageJson from "../../package.json" with { type: "json" };
import type { JsonObject, Operation } from "../../src/api/openapi/document.ts";
import { problemWith } from "../../src/api/route-parts/responses.ts";
import { routesOf } from "../../src/api/route-policies.ts";
import { type FailureCode, failureCodes } from "../../src/lib/errors/failure.ts";
import { forwardOperation } from "../../src/team/routes/forward.ts";
import { forwardScheme, type TeamRouter, teamBase, teamScheme } from "../../src/team/team-router.ts";
import { tokenScopes } from "../../src/team/tokens/token.ts";
import { documentOf, openResponses } from "./document.ts";
import { addErrorResponses, codesOfInput, type ErrorResponses, inOrder } from "./error-responses.ts";
import { addExamples } from "./examples.ts";
import { headers } from "./headers.ts";

const description = `The team that runs a deployment calls this API: from its own API, from the command line, and from scripts. Customers use the API at \`/api/v1\`.

## Authentication

Send a service token in every request: \`Authorization: Bearer svc_...\`. Each operation names the scope that it needs: ${tokenScopes.map((scope) => `\`${scope}\``).join(", ")}. An operator token of \`OPERATOR_TOKENS\` may do everything. Forward auth at \`/team/v1/verify/forward\` takes the token and its options in the header \`X-Service-Token\`. A request without a valid token gets 401 \`invalid_token\`. A token that is bound to accounts gets 404 for all others.

## Errors

Every error response is \`application/problem+json\` (RFC 9457), with a \`code\` for programs and a \`detail\` for people. A body may have at most 2 MiB.`;

const info = {
  title: "Developer Overview team API",
  contact: { name: "Developer Overview" },
  version: packageJson.version,
  description,
  license: { name: "MIT", url: "https://opensource.org/license/mit" },
};

const tags = [
  { name: "Verify", description: "Decisions about requests that your own API has received, and reports of its responses." },
  { name: "Accounts", description: "Your customers." },
  { name: "Keys", description: "The API keys of your customers." },
  { name: "Import", description: "Keys that your customers already have." },
  { name: "Shadow mode", description: "What the service would have decided about requests that ran in any case." },
  { name: "Plans", description: "Named sets of terms for accounts." },
  { name: "Operations", description: "Work on the whole deployment." },
  { name: "Service tokens", description: "Tokens for your own programs." },
];

const nextHeader = {
  description: "The cursor of the next page of an export. The last page has no `X-Next` header.",
  schema: { type: "string" as const },
};

const protocolOfClients = {
  description:
    "The number of the protocol that the service speaks with its clients. A client that states another one in `User-Agent` gets 400.",
  schema: { type: "string" as const },
};

/** Returns all error codes with which an operation may respond. */
function codesOf(path: string, operation: Operation): FailureCode[] {
  return inOrder([
    "invalid_token",
    "too_many_attempts",
    "insufficient_scope",
    ...(operation["x-reach"] === "deployment" ? (["forbidden"] as const) : []),
    ...codesOfInput(path, operation),
  ]);
}

const errorResponses: ErrorResponses = {
  codesOf,
  hasRateLimit: ({ operationId }) => operationId === forwardOperation.operationId,
  why: {
    insufficient_scope: "The token, or in forward auth the key, does not have the scope that this operation needs.",
    not_found: "There is no resource with this id, or the token may not act on it.",
    forbidden: "The token may not do this.",
    body_too_large: "The body of the request was larger than 2 MiB.",
    limit_reached: "The account or the deployment has reached one of its limits.",
  },
  detail: {
    insufficient_scope: "This operation needs a service token with the scope operate.",
    not_found: "There is no such account.",
    forbidden: "A service token that is bound to accounts cannot create accounts.",
    body_too_large: "A body may have at most 2 MiB.",
  },
  instance: `${teamBase}/accounts`,
};

/**
 * Returns the OpenAPI 3.1.0 document of the team API, as plain JSON. Clients read this document, so its response schemas allow unknown members and unknown
 * error codes.
 */
export function teamDocument(routers: readonly TeamRouter[]): JsonObject {
  const document = closedTeamDocument(routers);
  openResponses(document);
  addExamples(document);
  return document;
}

/** Returns the document with strict response schemas, against which the tests check responses. */
export function closedTeamDocument(routers: readonly TeamRouter[]): JsonObject {
  const [verifying, ...others] = routers.map(routesOf);
  const document = documentOf({
    base: teamBase,
    routes: [...(verifying ?? []), forwardOperation, ...others.flat()],
    problem: problemWith(failureCodes),
    schemes: {
      [teamScheme]: { type: "http", scheme: "bearer", description: "A service token, `svc_...`, or an operator token." },
      [forwardScheme]: {
        type: "apiKey",
        in: "header",
        name: "X-Service-Token",
        description: "A service token with the scope `verify`, which the proxy adds.",
      },
    },
    headers: { ...headers, "X-Next": nextHeader, "X-Overview-Protocol": protocolOfClients },
    head: { info, servers: [{ url: "/" }], tags },
  });
  addErrorResponses(document, errorResponses);
  return document;
}
