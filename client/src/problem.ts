import type { components } from "./schema.ts";

export type Problem = components["schemas"]["Problem"];

/** Every code that the service of this version answers. More may come: treat one that is not here by its status. */
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

/** What the service refused, or could not do. */
export class ProblemError extends Error {
  override readonly name = "ProblemError";
  readonly problem: Problem;
  /** The answer, its body read. */
  readonly response: Response;

  constructor(problem: Problem, response: Response) {
    super(`${problem.code}: ${problem.detail}`);
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
  get errors(): NonNullable<Problem["errors"]> {
    return this.problem.errors ?? [];
  }

  /** The seconds that the service asks to wait; undefined where it does not. */
  get retryAfterSeconds(): number | undefined {
    return secondsToWait(this.response);
  }
}

/** An answer that is no success and no problem: to HEAD, or from something between here and the service. */
export class UnexpectedAnswerError extends Error {
  override readonly name = "UnexpectedAnswerError";
  readonly response: Response;

  constructor(response: Response) {
    super(`The answer was ${response.status} ${response.statusText}, and says nothing more.`);
    this.response = response;
  }
}

/** The error that an answer stands for, which is no success. */
export async function errorOf(response: Response): Promise<ProblemError | UnexpectedAnswerError> {
  const isProblem = response.headers.get("Content-Type")?.startsWith("application/problem+json") === true;
  const text = isProblem ? await response.clone().text() : "";
  // The answer to HEAD has no body.
  return text === "" ? new UnexpectedAnswerError(response) : new ProblemError(JSON.parse(text) as Problem, response);
}

export function secondsToWait(response: Response): number | undefined {
  const text = response.headers.get("Retry-After");
  return text !== null && /^\d+$/.test(text) ? Number(text) : undefined;
}
