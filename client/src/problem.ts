import { UnexpectedResponseError } from "./errors.ts";
import type { Problem } from "./schema.ts";

/**
 * Every problem code that this version of the service returns. Later versions may add codes. If a code is unknown, handle the error by its HTTP
 * status.
 */
export const problemCodes = [
  "malformed_json",
  "invalid_parameter",
  "invalid_cursor",
  "invalid_header",
  "missing_key",
  "invalid_key",
  "revoked_key",
  "disabled_key",
  "expired_key",
  "insufficient_scope",
  "account_suspended",
  "ip_not_allowed",
  "forbidden",
  "not_found",
  "method_not_allowed",
  "request_timeout",
  "conflict",
  "request_in_progress",
  "limit_reached",
  "precondition_failed",
  "body_too_large",
  "unsupported_media_type",
  "invalid_body",
  "idempotency_key_reused",
  "cost_exceeds_limit",
  "rate_limit_exceeded",
  "too_many_unknown_keys",
  "internal_error",
  "unavailable",
] as const;

export type ProblemCode = (typeof problemCodes)[number] | (string & {});

type FieldError = NonNullable<Problem["errors"]>[number];

const namedErrors = 5;

/**
 * Formats a field error, for example "title is required" or "parameter limit must be a whole number". A field of the request body is named by
 * its JSON pointer, without the first slash.
 */
function wordsOf({ pointer, parameter, header, detail }: FieldError): string {
  const place = pointer === undefined ? (parameter === undefined ? `header ${header}` : `parameter ${parameter}`) : pointer.slice(1);
  const said = detail.replace(/\.$/, "");
  const predicate = /^(?:This )?((?:is|must|has) .*)$/i.exec(said)?.[1];
  if (place === "") return said;
  return predicate === undefined ? `${place}: ${said}` : `${place} ${predicate.charAt(0).toLowerCase()}${predicate.slice(1)}`;
}

/** Formats the message of a problem, for example "422 invalid_body: title is required (request req_...)". */
function messageOf({ status, code, detail, errors = [], request_id }: Problem): string {
  const named = errors.slice(0, namedErrors).map(wordsOf);
  if (errors.length > namedErrors) named.push(`and ${errors.length - namedErrors} more`);
  return `${status} ${code}: ${named.join("; ") || detail.replace(/\.$/, "")} (request ${request_id})`;
}

/** An error response of the service. The response body is a problem as defined in RFC 9457. */
export class ProblemError extends Error {
  override readonly name = "ProblemError";
  readonly problem: Problem;
  /** The response of the service. You can still read the body of this response. */
  readonly response: Response;

  constructor(problem: Problem, response: Response) {
    super(messageOf(problem));
    this.problem = problem;
    this.response = response;
  }

  /** The error code, which programs can check. */
  get code(): ProblemCode {
    return this.problem.code;
  }

  get status(): number {
    return this.problem.status;
  }

  /** The id of the request. Include this id when you ask for help. */
  get requestId(): string {
    return this.problem.request_id;
  }

  /** The field errors. There is one error for each invalid part of the request. */
  get errors(): FieldError[] {
    return this.problem.errors ?? [];
  }

  /** The number of seconds to wait before a retry, from the header `Retry-After`. If the header is absent or invalid, the value is undefined. */
  get retryAfterSeconds(): number | undefined {
    return secondsToWait(this.response);
  }
}

/** Returns the error that describes an unsuccessful response. */
export async function errorOf(response: Response): Promise<ProblemError | UnexpectedResponseError> {
  const text = await response.clone().text();
  if (response.headers.get("Content-Type")?.startsWith("application/problem+json") && text !== "") {
    try {
      return new ProblemError(JSON.parse(text) as Problem, response);
    } catch {
      // The body is truncated, so it is not valid JSON.
    }
  }
  return new UnexpectedResponseError(response, text);
}

/**
 * Returns the number of seconds to wait, from the header `Retry-After`. The header contains a number of seconds or a date. If the header is
 * absent or invalid, returns undefined.
 */
export function secondsToWait(response: Response): number | undefined {
  const text = response.headers.get("Retry-After");
  if (text === null) return undefined;
  if (/^\d+(?:\.\d+)?$/.test(text)) return Math.ceil(Number(text));
  // Engines read odd text, like "5, 5", as a date of a distant year. A date begins with the name of its day.
  const at = /^[A-Z][a-z]{2}/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? undefined : Math.max(0, Math.ceil((at - Date.now()) / 1000));
}
