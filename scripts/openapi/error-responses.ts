import { type JsonObject, type Operation, operationsIn } from "../../src/api/openapi/document.ts";
import { securityScheme } from "../../src/api/route-parts/access.ts";
import { headerRefs } from "../../src/api/route-parts/responses.ts";
import { problemType } from "../../src/http/problem.ts";
import { rateLimitHeaders } from "../../src/http/rate-limit-headers.ts";
import { exampleOrigin, explanations } from "../../src/lib/errors/explanations.ts";
import { type FailureCode, failureCodes, failures } from "../../src/lib/errors/failure.ts";
import { problemExample } from "../problem-example.ts";

// Lists the problems with which each operation may respond. Most problems follow from the parameters and the body of the operation. The
// route of an operation names all its other problems with `failsWith`.

const ofKeys = ["missing_key", "invalid_key", "revoked_key", "disabled_key", "expired_key", "account_suspended", "ip_not_allowed"] as const;
const ofBodies = ["malformed_json", "request_timeout", "body_too_large", "unsupported_media_type", "invalid_body"] as const;

const parametersOf = ({ parameters = [] }: Operation): string[] => parameters.map(({ name, in: where }) => `${where} ${name}`);

/** Returns the error codes that follow from the path, the parameters and the body of an operation, and those that its route names. */
export function codesOfInput(path: string, operation: Operation): FailureCode[] {
  const parameters = parametersOf(operation);
  return [
    "invalid_parameter",
    ...(parameters.includes("query cursor") ? (["invalid_cursor"] as const) : []),
    ...(parameters.some((parameter) => parameter.startsWith("header ")) ? (["invalid_header"] as const) : []),
    ...(parameters.includes("header If-Match") ? (["precondition_failed"] as const) : []),
    ...(parameters.includes("header Idempotency-Key") ? (["request_in_progress", "idempotency_key_reused"] as const) : []),
    ...(operation.requestBody ? ofBodies : []),
    ...(path.includes("{") ? (["not_found"] as const) : []),
    "internal_error",
    "unavailable",
    ...((operation["x-error-codes"] ?? []) as FailureCode[]),
  ];
}

/** Sorts error codes, each of them once, by their order in `failureCodes`. */
export const inOrder = (codes: readonly FailureCode[]): FailureCode[] => failureCodes.filter((code) => codes.includes(code));

/** Returns all error codes with which an operation of `/api/v1` may respond. */
function codesOfApi(path: string, operation: Operation): FailureCode[] {
  const security = operation.security as Record<string, string[]>[];
  const scopes = security[0]?.[securityScheme];
  // Every report of a leaked key gets the same response, so this operation has only the error codes that its route names.
  if (scopes === undefined && operation.requestBody) return (operation["x-error-codes"] ?? []) as FailureCode[];
  return inOrder([
    ...(scopes === undefined ? [] : ([...ofKeys, "too_many_unknown_keys"] as const)),
    ...(scopes?.length ? (["insufficient_scope"] as const) : []),
    ...(scopes === undefined || operation["x-counted"] === false ? [] : (["rate_limit_exceeded"] as const)),
    ...(operation["x-cost"] === undefined ? [] : (["cost_exceeds_limit"] as const)),
    ...(parametersOf(operation).includes("header Idempotency-Key") ? (["limit_reached"] as const) : []),
    ...codesOfInput(path, operation),
  ]);
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

/** The properties of an API that its problem responses depend on. */
export interface ErrorResponses {
  /** Returns all error codes with which an operation may respond. */
  codesOf(path: string, operation: Operation): FailureCode[];
  /** Whether the responses of an operation have the rate limit headers. */
  hasRateLimit(operation: Operation): boolean;
  /** Why a request gets an error code, if the reason is not the same as for `/api/v1`. */
  why: Partial<Record<FailureCode, string>>;
  /** Examples of the `detail` of a problem that differ from those of `/api/v1`. */
  detail: Partial<Record<FailureCode, string>>;
  /** The path of the request in the examples. */
  instance: string;
}

const ofApi: ErrorResponses = {
  codesOf: codesOfApi,
  hasRateLimit: ({ security }) => (security as unknown[]).length > 0,
  why: {},
  detail: {},
  instance: "/api/v1/keys",
};

/** Adds the problem responses to each operation. Each response has an example of every error code. */
export function addErrorResponses(document: JsonObject, { codesOf, hasRateLimit, why, detail, instance }: ErrorResponses = ofApi): void {
  const exampleOf = (code: FailureCode) => ({
    ...problemExample(code, { instance, origin: exampleOrigin }),
    ...(detail[code] !== undefined && { detail: detail[code] }),
  });
  for (const { path, operation } of operationsIn(document)) {
    for (const [status, codes] of Map.groupBy(codesOf(path, operation), (code) => failures[code].status))
      operation.responses[String(status)] = {
        description: codes.map((code) => `\`${code}\`: ${why[code] ?? explanations[code].why}`).join(" "),
        headers: headerRefs("X-Request-Id", ...(hasRateLimit(operation) ? rateLimitHeaders : []), ...(headersOf[status] ?? [])),
        content: {
          [problemType]: {
            schema: { $ref: "#/components/schemas/Problem" },
            examples: Object.fromEntries(codes.map((code) => [code, { summary: failures[code].title, value: exampleOf(code) }])),
          },
        },
      };
    delete operation["x-error-codes"];
    delete operation["x-reach"];
    delete operation["x-shares-cpu"];
  }
}
