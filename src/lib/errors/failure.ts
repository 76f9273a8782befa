/**
 * All possible failures of a request. Code throws a `Failure` with one of these codes. The API and the pages turn the failure into a
 * response.
 */
export const failures = {
  malformed_json: { status: 400, title: "Malformed JSON" },
  invalid_parameter: { status: 400, title: "Invalid parameter" },
  invalid_cursor: { status: 400, title: "Invalid cursor" },
  invalid_header: { status: 400, title: "Invalid header" },
  missing_key: { status: 401, title: "API key missing" },
  invalid_key: { status: 401, title: "API key invalid" },
  revoked_key: { status: 401, title: "API key revoked" },
  disabled_key: { status: 401, title: "API key disabled" },
  expired_key: { status: 401, title: "API key expired" },
  invalid_token: { status: 401, title: "Service token invalid" },
  insufficient_scope: { status: 403, title: "Scope missing" },
  account_suspended: { status: 403, title: "Account suspended" },
  ip_not_allowed: { status: 403, title: "IP address not allowed" },
  forbidden: { status: 403, title: "Forbidden" },
  not_found: { status: 404, title: "Not found" },
  method_not_allowed: { status: 405, title: "Method not allowed" },
  request_timeout: { status: 408, title: "Request timeout" },
  conflict: { status: 409, title: "Conflict" },
  request_in_progress: { status: 409, title: "Request in progress" },
  limit_reached: { status: 409, title: "Limit reached" },
  precondition_failed: { status: 412, title: "Precondition failed" },
  body_too_large: { status: 413, title: "Body too large" },
  unsupported_media_type: { status: 415, title: "Unsupported media type" },
  invalid_body: { status: 422, title: "Invalid body" },
  idempotency_key_reused: { status: 422, title: "Idempotency key reused" },
  cost_exceeds_limit: { status: 422, title: "Cost exceeds limit" },
  rate_limit_exceeded: { status: 429, title: "Rate limit exceeded" },
  too_many_unknown_keys: { status: 429, title: "Too many unknown keys" },
  too_many_attempts: { status: 429, title: "Too many attempts" },
  internal_error: { status: 500, title: "Internal error" },
  unavailable: { status: 503, title: "Unavailable" },
} as const;

export type FailureCode = keyof typeof failures;

export const failureCodes = Object.keys(failures) as [FailureCode, ...FailureCode[]];

/** The codes of the team API alone. `/api/v1` never responds with them. */
const ofTeamApi: readonly FailureCode[] = ["invalid_token", "too_many_attempts"];

/** The codes of `/api/v1`, which its document and its client list. */
export const apiCodes = failureCodes.filter((code) => !ofTeamApi.includes(code)) as [FailureCode, ...FailureCode[]];

/** Every code of a field error (`errors[].code`). */
export const fieldErrorCodes = [
  "required",
  "unknown_member",
  "unknown_parameter",
  "unknown_header",
  "invalid_type",
  "invalid_value",
  "invalid_format",
  "invalid_union",
  "invalid_text",
  "invalid_encoding",
  "invalid_span",
  "invalid_cursor",
  "invalid",
  "too_small",
  "too_big",
  "not_multiple_of",
  "unknown_user",
  "duplicate",
  "refused_url",
  "reused",
] as const;

export type FieldErrorCode = (typeof fieldErrorCodes)[number];

/** An error in one part of a request: a member of the body (`pointer`, RFC 6901), a query parameter or a header. */
export interface FieldError {
  detail: string;
  code: FieldErrorCode;
  pointer?: string;
  parameter?: string;
  header?: string;
}

/** The content of an error response. */
export interface FailureContent {
  code: FailureCode;
  message: string;
  fieldErrors?: FieldError[];
  /** The names of the limits that refused the request. */
  violatedPolicies?: string[];
  headers?: Record<string, string>;
}

/** An error whose message is shown to the caller. The message is a sentence for people and never contains a secret. */
export class Failure extends Error implements FailureContent {
  readonly code: FailureCode;
  readonly fieldErrors: FieldError[];
  readonly headers: Record<string, string>;

  constructor(
    code: FailureCode,
    detail: string,
    more: { fieldErrors?: FieldError[]; headers?: Record<string, string>; cause?: unknown } = {},
  ) {
    super(detail, { cause: more.cause });
    this.name = "Failure";
    this.code = code;
    this.fieldErrors = more.fieldErrors ?? [];
    this.headers = more.headers ?? {};
  }
}

/** Returns a failure for a well-formed body with one invalid member. */
export function invalidMember(pointer: string, detail: string, code: FieldErrorCode): Failure {
  return new Failure("invalid_body", "The body has a member that is not valid.", { fieldErrors: [{ detail, pointer, code }] });
}

/** Throws one error that combines the errors of several independent tasks. Does nothing if there are no errors. */
export function throwTogether(errors: readonly unknown[], message: string): void {
  if (errors.length > 0) throw new AggregateError(errors, message, { cause: errors[0] });
}

/** Returns null for the failure `not_found`, and throws any other error: `await read(id).catch(orNull)`. */
export function orNull(error: unknown): null {
  if (error instanceof Failure && error.code === "not_found") return null;
  throw error;
}

export const errorsOf = (outcomes: readonly PromiseSettledResult<unknown>[]): unknown[] =>
  outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason] : []));
