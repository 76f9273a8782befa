import { createMiddleware } from "hono/factory";
import { Failure } from "../lib/errors/failure.ts";
import { tagsIn } from "./conditional.ts";
import type { ApiContext, ApiEnv, ApiRoute } from "./context.ts";
import { idempotencyKeyIn } from "./idempotency.ts";
import { rejectQuery, requireDecodable } from "./validation.ts";

/**
 * Validates a request before its handler runs. The contract defines the order of the checks: size and completeness of the body, media type,
 * JSON syntax, headers, query. The handler of a public operation validates its body itself. This middleware does not check a request with
 * an unknown path or method, because the router responds with an error.
 */
export const checkRequest = createMiddleware<ApiEnv>(async function checkRequest(c, next) {
  // The authentication middleware found this policy in `RoutePolicies` (`src/api/api.ts`).
  const policy = c.get("policy");
  if (!policy?.isOperation) return next();
  const { failure } = c.get("body");
  if (failure && !policy.isPublic) throw failure;
  if (policy.mediaTypes.length > 0) requireJson(c, policy);
  for (const header of policy.headers) headerChecks[header]?.(c);
  if (!policy.takesQuery) rejectQuery(c);
  else if (!policy.isPublic) requireDecodable(c);
  return next();
});

const headerChecks: Record<string, (c: ApiContext) => unknown> = {
  "If-Match": (c) => tagsIn(c, "If-Match"),
  "If-None-Match": (c) => tagsIn(c, "If-None-Match"),
  "Idempotency-Key": idempotencyKeyIn,
};

/** Throws `unsupported_media_type` for a compressed body, because the service does not decompress bodies. */
function requireIdentity(c: ApiContext): void {
  const codings = (c.req.header("Content-Encoding") ?? "").toLowerCase().split(",");
  if (codings.every((coding) => ["", "identity"].includes(coding.trim()))) return;
  throw new Failure("unsupported_media_type", "Send the body without Content-Encoding, because compressed bodies are not supported.", {
    headers: { "Accept-Encoding": "identity" },
  });
}

/** Throws if the body is not JSON or its media type is not accepted. Replaces an absent optional body with `{}`. */
function requireJson(c: ApiContext, { mediaTypes, isBodyRequired }: ApiRoute): void {
  requireIdentity(c);
  const { bytes } = c.get("body");
  const isAbsent = bytes.length === 0 && !isBodyRequired;
  const sentAs = c.req.header("Content-Type");
  const mediaType = isAbsent && sentAs === undefined ? mediaTypes[0] : essenceOf(sentAs ?? "");
  if (mediaType === undefined || !mediaTypes.includes(mediaType)) {
    throw new Failure("unsupported_media_type", `Send the body as ${mediaTypes.join(" or ")}, in UTF-8.`, {
      headers: { [c.req.method === "PATCH" ? "Accept-Patch" : "Accept-Post"]: mediaTypes.join(", ") },
    });
  }
  const text = isAbsent ? "{}" : jsonTextOf(bytes);
  // Idempotency treats a request without a body and a request with the body `{}` as the same request.
  if (isAbsent) c.set("body", { bytes: new TextEncoder().encode(text), failure: null });
  if (sentAs === mediaType && !isAbsent) {
    // Hono reads this text in place of the body. A copy of the request would take more CPU time than the rest of this function.
    c.req.bodyCache.text = Promise.resolve(text) as unknown as string;
    return;
  }
  // The validators read this copy of the request. The validators reject media type parameters, so the copy has none.
  c.req.raw = new Request(c.req.raw, { body: text });
  c.req.raw.headers.set("Content-Type", mediaType);
}

/** Returns a media type in lower case, without its parameters. Returns an empty string if the charset is not UTF-8. */
function essenceOf(contentType: string): string {
  const [essence = "", ...parameters] = contentType.toLowerCase().split(";");
  const charsets = parameters.flatMap((parameter) => /^\s*charset\s*=\s*"?([^"\s]*)"?\s*$/.exec(parameter)?.[1] ?? []);
  return charsets.every((charset) => charset === "utf-8" || charset === "utf8") ? essence.trim() : "";
}

function jsonTextOf(bytes: Uint8Array): string {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes);
    JSON.parse(text);
    return text;
  } catch (cause) {
    throw new Failure("malformed_json", "The body is not valid JSON in UTF-8.", { cause });
  }
}
