import { securityScheme } from "../../src/api/route-parts/access.ts";
import { headerRefs } from "../../src/api/route-parts/responses.ts";
import { exampleOrigin, explanations, problemExample } from "../../src/errors/explanations.ts";
import { type FailureCode, failures } from "../../src/errors/failure.ts";
import { problemType } from "../../src/http/problem.ts";
import { rateLimitHeaders } from "../../src/http/rate-limit-headers.ts";
import { type JsonObject, type Operation, operationsIn } from "../../src/openapi/document.ts";

// Lists the problems with which each operation may respond. Most problems follow from the parameters and the body of the operation. The
// route of an operation names all its other problems with `failsWith`.

const ofKeys = ["missing_key", "invalid_key", "revoked_key", "disabled_key", "expired_key", "account_suspended", "ip_not_allowed"] as const;
const ofBodies = ["malformed_json", "request_timeout", "body_too_large", "unsupported_media_type", "invalid_body"] as const;

/** Returns all error codes with which an operation may respond. */
export function errorCodesOf(path: string, operation: Operation): FailureCode[] {
  const security = operation.security as Record<string, string[]>[];
  const scopes = security[0]?.[securityScheme];
  const parameters = (operation.parameters ?? []).map(({ name, in: where }) => `${where} ${name}`);
  const has = (parameter: string) => parameters.includes(parameter);
  const own = (operation["x-error-codes"] ?? []) as FailureCode[];
  // Every report of a leaked key gets the same response, so this operation has only the error codes that its route names.
  if (scopes === undefined && operation.requestBody) return own;
  const codes: FailureCode[] = [
    ...(scopes === undefined ? [] : ofKeys),
    ...(scopes?.length ? (["insufficient_scope"] as const) : []),
    ...(scopes === undefined || operation["x-counted"] === false ? [] : (["rate_limit_exceeded"] as const)),
    ...(operation["x-cost"] === undefined ? [] : (["cost_exceeds_limit"] as const)),
    "invalid_parameter",
    ...(has("query cursor") ? (["invalid_cursor"] as const) : []),
    ...(parameters.some((parameter) => parameter.startsWith("header ")) ? (["invalid_header"] as const) : []),
    ...(has("header If-Match") ? (["precondition_failed"] as const) : []),
    ...(has("header Idempotency-Key") ? (["request_in_progress", "idempotency_key_reused", "limit_reached"] as const) : []),
    ...(operation.requestBody ? ofBodies : []),
    ...(path.includes("{") ? (["not_found"] as const) : []),
    "internal_error",
    "unavailable",
    ...own,
  ];
  return Object.keys(failures).filter((code) => codes.includes(code as FailureCode)) as FailureCode[];
}

/** The additional response headers of each status. */
const headersOf: Record<number, readonly string[]> = {
  401: ["WWW-Authenticate"],
  403: ["WWW-Authenticate"],
  409: ["Retry-After"],
  415: ["Accept-Post", "Accept-Patch", "Accept-Encoding"],
  429: ["Retry-After"],
  503: ["Retry-After"],
};

/** Adds the problem responses to each operation. Each response has an example of every error code. */
export function addErrorResponses(document: JsonObject): void {
  for (const { path, operation } of operationsIn(document)) {
    const isPublic = (operation.security as unknown[]).length === 0;
    for (const [status, codes] of Map.groupBy(errorCodesOf(path, operation), (code) => failures[code].status))
      operation.responses[String(status)] = {
        description: codes.map((code) => `\`${code}\`: ${explanations[code].why}`).join(" "),
        headers: headerRefs("X-Request-Id", ...(isPublic ? [] : rateLimitHeaders), ...(headersOf[status] ?? [])),
        content: {
          [problemType]: {
            schema: { $ref: "#/components/schemas/Problem" },
            examples: Object.fromEntries(
              codes.map((code) => [
                code,
                { summary: failures[code].title, value: problemExample(code, { instance: "/api/v1/keys", origin: exampleOrigin }) },
              ]),
            ),
          },
        },
      };
    delete operation["x-error-codes"];
  }
}
