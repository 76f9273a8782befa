import type { Hook } from "@hono/zod-openapi";
import type { z } from "zod";
import { maskSecrets } from "../credentials/mask-keys.ts";
import { hasQuery, urlOf } from "../http/request-url.ts";
import { Failure, type FieldError, type FieldErrorCode } from "../lib/errors/failure.ts";
import { fieldCode } from "../lib/inputs/field-code.ts";
import { required } from "../lib/inputs/values.ts";
import type { ApiContext, ApiEnv } from "./context.ts";

const maxFieldErrors = 100;
const maxName = 100;

type Issue = z.core.$ZodIssue;

/** Returns a JSON pointer (RFC 6901). Truncates names that the client chose, so that a client cannot make the response very large. */
const pointerOf = (path: readonly PropertyKey[]) =>
  path.map((part) => `/${named(part).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");

const named = (part: PropertyKey) => maskSecrets(String(part), maxName);

const unknown = "This is not a known name.";

function fieldErrorsOf(
  issue: Issue,
  locate: (path: readonly PropertyKey[]) => Partial<FieldError>,
  unknownName: FieldErrorCode,
): FieldError[] {
  if (issue.code === "unrecognized_keys") {
    return issue.keys.slice(0, maxFieldErrors).map((key) => ({ detail: unknown, code: unknownName, ...locate([...issue.path, key]) }));
  }
  if (issue.code === "invalid_type" && issue.message === required) {
    return [{ detail: required, code: "required", ...locate(issue.path) }];
  }
  return [{ detail: issue.message, code: fieldCode(issue), ...locate(issue.path) }];
}

/** Throws a failure with field errors if zod found invalid values in a body, a query or a header. */
export const onInvalid = (result: Parameters<Hook<unknown, ApiEnv, string, unknown>>[0]): void => {
  if (!result.success) throw invalidInput(result.target, result.error);
};

/** Returns the failure for values that are not valid. `target`: where the values come from. */
export function invalidInput(target: string, { issues }: Pick<z.ZodError, "issues">): Failure {
  const all = (locate: (path: readonly PropertyKey[]) => Partial<FieldError>, unknownName: FieldErrorCode) =>
    issues
      .slice(0, maxFieldErrors)
      .flatMap((issue: Issue) => fieldErrorsOf(issue, locate, unknownName))
      .slice(0, maxFieldErrors);
  switch (target) {
    case "json":
      return new Failure("invalid_body", "The body is valid JSON, but it does not match the schema of this operation.", {
        fieldErrors: all((path) => ({ pointer: pointerOf(path) }), "unknown_member"),
      });
    case "param":
      return invalidParameters(
        "path",
        all((path) => ({ parameter: named(path[0] ?? "") }), "unknown_parameter"),
      );
    case "query":
      return invalidParameters(
        "query",
        all((path) => ({ parameter: named(path[0] ?? "") }), "unknown_parameter"),
      );
    default:
      return new Failure("invalid_header", "The request has headers that are not valid.", {
        fieldErrors: all((path) => ({ header: named(path[0] ?? "") }), "unknown_header"),
      });
  }
}

const invalidParameters = (place: "path" | "query", fieldErrors: FieldError[]) =>
  new Failure("invalid_parameter", `The ${place} has parameters that are not valid.`, { fieldErrors });

/** Throws `invalid_parameter` if the query contains parameters. Use this function for operations that take no query parameters. */
export function rejectQuery(c: ApiContext): void {
  if (!hasQuery(c)) return;
  const names = [...new Set(urlOf(c).searchParams.keys())];
  if (names.length === 0) return;
  const fieldErrors = names
    .slice(0, maxFieldErrors)
    .map((name): FieldError => ({ detail: unknown, code: "unknown_parameter", parameter: named(name) }));
  throw invalidParameters("query", fieldErrors);
}

/**
 * Throws `invalid_parameter` for a query parameter that has no name or is not percent-encoded UTF-8. `URL` does not report invalid bytes,
 * but replaces them with U+FFFD.
 */
export function requireDecodable(c: ApiContext): void {
  if (!hasQuery(c)) return;
  const fieldErrors: FieldError[] = [];
  for (const part of urlOf(c).search.slice(1).split("&")) {
    if (part === "") continue;
    const name = new URLSearchParams(part).keys().next().value ?? "";
    if (!isDecodable(part))
      fieldErrors.push({ detail: "Must be percent-encoded UTF-8.", code: "invalid_encoding", parameter: named(name) });
    else if (name === "") fieldErrors.push({ detail: unknown, code: "unknown_parameter", parameter: "" });
    if (fieldErrors.length === maxFieldErrors) break;
  }
  if (fieldErrors.length > 0) throw invalidParameters("query", fieldErrors);
}

function isDecodable(part: string): boolean {
  try {
    decodeURIComponent(part);
    return true;
  } catch {
    return false;
  }
}
