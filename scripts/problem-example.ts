import type { JsonObject } from "../src/api/openapi/document.ts";
import { problemBody } from "../src/http/problem.ts";
import { explanations } from "../src/lib/errors/explanations.ts";
import type { FailureCode } from "../src/lib/errors/failure.ts";

/** Returns an example of an error response from the service at `origin`. `instance`: the path of the request. */
export function problemExample(code: FailureCode, { instance, origin }: { instance: string; origin: string }): JsonObject {
  const { detail, fieldErrors = [] } = explanations[code];
  const failure = { code, message: detail, fieldErrors, ...(code === "rate_limit_exceeded" && { violatedPolicies: ["hour"] }) };
  const body = problemBody(failure, { origin, instance, requestId: "req_019a1b2c3d4e7f8091a2b3c4d5e6f708" });
  return JSON.parse(JSON.stringify(body)) as JsonObject;
}
