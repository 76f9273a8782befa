import { HTTPException } from "hono/http-exception";
import { innermost, isStorageFailure } from "../db/failures.ts";
import type { Admission } from "../guard/decision.ts";
import { Failure, type FailureContent, failures } from "../lib/errors/failure.ts";
import type { AppContext } from "./context.ts";
import { secondsTo } from "./rate-limit-headers.ts";
import { shownPath } from "./request-path.ts";
import { publicOrigin } from "./request-url.ts";
import { respond } from "./standard-headers.ts";

export const problemType = "application/problem+json";

/**
 * Converts any thrown error to the failure that the response reports. Logs the error if the status is 500 or above and something has caused it. If the error is
 * unexpected, the message of the failure reveals nothing about the error.
 */
export function failureOf(error: unknown, requestId: string): Failure {
  const failure = toFailure(error);
  // A failure without a cause is a bound that this service keeps. A flood of such requests must not write a line for each.
  if (failures[failure.code].status >= 500 && failure.cause !== undefined)
    console.error(`${requestId} failed with ${failure.code}:`, innermost(error));
  return failure;
}

function toFailure(error: unknown): Failure {
  if (error instanceof Failure) return error;
  if (error instanceof HTTPException && error.status === 415)
    return new Failure("unsupported_media_type", "Send the body as application/json.");
  if (error instanceof HTTPException && error.status === 400) return new Failure("malformed_json", "The body is not valid JSON.");
  if (isStorageFailure(error))
    return new Failure("unavailable", "The service cannot reach its storage right now. Try again in a moment.", { cause: error });
  return new Failure("internal_error", "Something went wrong on our side. The request id helps us find the cause.", { cause: error });
}

/** Returns the body of an error response (RFC 9457). `instance`: the path of the request. */
export function problemBody(
  failure: FailureContent,
  { origin, instance, requestId }: { origin: string; instance: string; requestId: string },
) {
  const { status, title } = failures[failure.code];
  const isQuota = failure.code === "rate_limit_exceeded";
  return {
    type: isQuota ? "https://iana.org/assignments/http-problem-types#quota-exceeded" : `${origin}/docs/errors/${failure.code}`,
    title,
    status,
    detail: failure.message,
    instance,
    code: failure.code,
    request_id: requestId,
    ...(failure.fieldErrors && failure.fieldErrors.length > 0 && { errors: failure.fieldErrors }),
    ...(failure.violatedPolicies && { "violated-policies": failure.violatedPolicies }),
  };
}

/** Returns the error response for a failure, as `application/problem+json`. */
export function problem(c: AppContext, failure: FailureContent): Response {
  const { status } = failures[failure.code];
  const body = problemBody(failure, { origin: publicOrigin(c), instance: shownPath(c), requestId: c.get("requestId") });
  c.set("failure", failure);
  const headers = { "Content-Type": problemType, ...failure.headers, ...retryAfter(status, c.get("principal")?.admission) };
  return respond(c, JSON.stringify(body), status, headers);
}

/**
 * Returns the `Retry-After` header for a status of 429 or 503. For 429, the header states the seconds until all limits of the key have room for the request.
 * For 503, the header states a random value from 1 to 5 seconds, so that clients do not all retry together.
 */
export function retryAfter(status: number, admission: Admission | undefined): Record<string, string> {
  if (status === 429 && admission)
    return { "Retry-After": String(secondsTo(admission.violation?.roomFrom ?? admission.rateLimit.resetsAt, Date.now())) };
  return status === 503 ? { "Retry-After": String(1 + Math.floor(Math.random() * 5)) } : {};
}
