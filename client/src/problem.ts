import { UnexpectedResponseError } from "./errors.ts";
import type { Problem } from "./schema.ts";

/** Every code of this version of the service. More may come: treat one that is not here by its status. */
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
  "rate_limit_exceeded",
  "internal_error",
  "unavailable",
] as const;

export type ProblemCode = (typeof problemCodes)[number] | (string & {});

type FieldError = NonNullable<Problem["errors"]>[number];

const namedErrors = 5;

/** "title is required" for a member, "parameter limit: ..." for others; a JSON pointer without its first slash. */
function wordsOf({ pointer, parameter, header, detail }: FieldError): string {
  const place = pointer === undefined ? (parameter === undefined ? `header ${header}` : `parameter ${parameter}`) : pointer.slice(1);
  const said = detail.replace(/\.$/, "");
  const predicate = /^(?:This )?((?:is|must|has) .*)$/i.exec(said)?.[1];
  if (place === "") return said;
  return predicate === undefined ? `${place}: ${said}` : `${place} ${predicate.charAt(0).toLowerCase()}${predicate.slice(1)}`;
}

/** "422 invalid_body: title is required (request req_...)". */
function messageOf({ status, code, detail, errors = [], request_id }: Problem): string {
  const named = errors.slice(0, namedErrors).map(wordsOf);
  if (errors.length > namedErrors) named.push(`and ${errors.length - namedErrors} more`);
  return `${status} ${code}: ${named.join("; ") || detail.replace(/\.$/, "")} (request ${request_id})`;
}

/** Why the service did not do what was asked. */
export class ProblemError extends Error {
  override readonly name = "ProblemError";
  readonly problem: Problem;
  /** The response, its body read. */
  readonly response: Response;

  constructor(problem: Problem, response: Response) {
    super(messageOf(problem));
    this.problem = problem;
    this.response = response;
  }

  /** What to decide by. */
  get code(): ProblemCode {
    return this.problem.code;
  }

  get status(): number {
    return this.problem.status;
  }

  /** What to name when asking for help. */
  get requestId(): string {
    return this.problem.request_id;
  }

  /** Each place of the request that was wrong. */
  get errors(): FieldError[] {
    return this.problem.errors ?? [];
  }

  /** The seconds that the service asks to wait; undefined if it does not. */
  get retryAfterSeconds(): number | undefined {
    return secondsToWait(this.response);
  }
}

/** Returns the error that a response without success stands for. */
export async function errorOf(response: Response): Promise<ProblemError | UnexpectedResponseError> {
  const text = await response.clone().text();
  if (response.headers.get("Content-Type")?.startsWith("application/problem+json") && text !== "") {
    try {
      return new ProblemError(JSON.parse(text) as Problem, response);
    } catch {
      // Cut short on its way.
    }
  }
  return new UnexpectedResponseError(response, text);
}

/** Returns the seconds of `Retry-After`, which may also be a date; undefined without one. */
export function secondsToWait(response: Response): number | undefined {
  const text = response.headers.get("Retry-After");
  if (text === null) return undefined;
  if (/^\d+$/.test(text)) return Number(text);
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.max(0, Math.ceil((at - Date.now()) / 1000));
}
