import { createMiddleware } from "hono/factory";
import { Failure, type FailureCode } from "../errors.ts";
import type { Admission, AdmissionRequest, RefusalCode } from "../keys/admission.ts";
import { askGuard } from "../keys/guards.ts";
import { hashOf, keyIdOf, parseSigningSecrets, type SigningSecret } from "../keys/key-format.ts";
import { type ApiEnv, clientIp } from "./context.ts";
import type { Operations } from "./operations.ts";

const challenge = 'Bearer realm="api"';
const unauthorized = (code: FailureCode, detail: string) =>
  new Failure(code, detail, {
    headers: { "WWW-Authenticate": code === "missing_key" ? challenge : `${challenge}, error="invalid_token"` },
  });

let parsed: { text: string; signing: readonly [SigningSecret, ...SigningSecret[]] } | undefined;

/** The secrets that sign API keys, read from the binding once an isolate. */
export function signingSecrets(env: Pick<Env, "KEY_SIGNING_SECRETS">): readonly [SigningSecret, ...SigningSecret[]] {
  if (parsed?.text !== env.KEY_SIGNING_SECRETS)
    parsed = { text: env.KEY_SIGNING_SECRETS, signing: parseSigningSecrets(env.KEY_SIGNING_SECRETS) };
  return parsed.signing;
}

/** Lets a request pass whose key's guard admits it. A made-up key ends here: no object is woken and no row is read. */
export const admit = (operations: Operations) =>
  createMiddleware<ApiEnv>(async function admit(c, next) {
    const operation = operations.of(c);
    c.set("operation", operation);
    if (!operation.needsKey) return next();

    const authorization = c.req.header("authorization");
    const [, secretKey] = /^Bearer +(\S.*?) *$/i.exec(authorization ?? "") ?? [];
    if (secretKey === undefined) throw unauthorized("missing_key", "Send an API key: Authorization: Bearer <API_KEY>.");
    const keyId = keyIdOf(secretKey, signingSecrets(c.env));
    if (keyId === null) throw refused("invalid_key");

    const request: AdmissionRequest = {
      secretHash: hashOf(secretKey),
      ip: clientIp(c),
      scope: operation.scope,
      counted: operation.isCounted,
    };
    const admission: Admission | null = await askGuard(c.env.KEY_GUARD, keyId, (guard) => guard.admit(request));
    if (admission === null) throw refused("invalid_key");
    c.set("recognized", { keyId, admission });
    if (admission.refusal !== null) throw refused(admission.refusal, request, admission);
    return next();
  });

function refused(code: RefusalCode, request?: AdmissionRequest, admission?: Admission): Failure {
  switch (code) {
    case "invalid_key":
      return unauthorized(code, "This is not a key of this service, or no longer its secret.");
    case "revoked_key":
      return unauthorized(code, "This key has been revoked, for good.");
    case "disabled_key":
      return unauthorized(code, "This key is disabled. It can be enabled again.");
    case "expired_key":
      return unauthorized(code, "This key has expired.");
    case "ip_not_allowed":
      return new Failure(code, "This key may not be used from this address.");
    case "insufficient_scope":
      return new Failure(code, `This operation needs the scope ${request?.scope}.`, {
        headers: { "WWW-Authenticate": `${challenge}, error="insufficient_scope", scope="${request?.scope}"` },
      });
    case "rate_limit_exceeded":
      return new Failure(code, `All ${admission?.rateLimit.limit} requests of this hour are used.`);
  }
}
