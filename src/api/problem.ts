import { z } from "@hono/zod-openapi";
import { HTTPException } from "hono/http-exception";
import { innermost, isStorageFailure } from "../db/failures.ts";
import { Failure, type FailureCode, failures, type Told } from "../errors.ts";
import type { Call } from "./context.ts";
import { secondsToReset } from "./rate-limit-headers.ts";
import { send } from "./send.ts";

export const problemType = "application/problem+json";

/** RFC 9457. */
export const Problem = z
  .strictObject({
    type: z.string().openapi({ format: "uri", description: "A page about this kind of error." }),
    title: z.string(),
    status: z.int(),
    detail: z.string().openapi({ description: "A sentence for people about this occurrence." }),
    instance: z.string().openapi({ description: "The path that was asked for." }),
    code: z.enum(Object.keys(failures) as [FailureCode, ...FailureCode[]]).openapi({ description: "For programs. New codes may come." }),
    request_id: z.string(),
    errors: z
      .array(
        z.strictObject({
          detail: z.string(),
          code: z.string(),
          pointer: z.string().optional().openapi({ description: "The member of the body (RFC 6901)." }),
          parameter: z.string().optional().openapi({ description: "The query parameter." }),
          header: z.string().optional(),
        }),
      )
      .optional(),
    "violated-policies": z.array(z.string()).optional(),
  })
  .openapi("Problem");

/** The failure that an error thrown anywhere below is answered as. What nobody foresaw is logged and says nothing about itself. */
export function failureOf(error: unknown): Failure {
  if (error instanceof Failure) return error;
  if (error instanceof HTTPException && error.status === 415)
    return new Failure("unsupported_media_type", "Send the body as application/json.");
  if (error instanceof HTTPException && error.status === 400) return new Failure("malformed_json", "The body is not valid JSON.");
  console.error("a request failed:", innermost(error));
  if (isStorageFailure(error))
    return new Failure("unavailable", "The service cannot reach its storage just now. Try again in a moment.", { cause: error });
  return new Failure("internal_error", "Something went wrong on our side. The request id helps us find out what.", { cause: error });
}

/** The answer for a failure, as problem+json. */
export function problemAnswer(call: Call, failure: Told): Response {
  const { status, title } = failures[failure.code];
  const { origin, pathname } = call.place;
  const isQuota = failure.code === "rate_limit_exceeded";
  call.errorCode = failure.code;
  const body: z.infer<typeof Problem> = {
    type: isQuota ? "https://iana.org/assignments/http-problem-types#quota-exceeded" : `${origin}/docs/errors/${failure.code}`,
    title,
    status,
    detail: failure.message,
    instance: pathname,
    code: failure.code,
    request_id: call.requestId,
    ...(failure.faults && failure.faults.length > 0 && { errors: failure.faults }),
    ...(isQuota && { "violated-policies": ["hour"] }),
  };
  return send(call, JSON.stringify(body), status, problemType, { ...failure.headers, ...retryAfter(call, status) });
}

/** When to come again: for a used-up limit the end of the window, for what is unavailable a moment, spread so that not all come at once. */
function retryAfter({ recognized }: Call, status: number): Record<string, string> {
  const rateLimit = recognized?.admission.rateLimit;
  if (status === 429 && rateLimit) return { "Retry-After": String(secondsToReset(rateLimit, Date.now())) };
  return status === 503 ? { "Retry-After": String(1 + Math.floor(Math.random() * 5)) } : {};
}
