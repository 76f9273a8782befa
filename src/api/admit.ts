import { createMiddleware } from "hono/factory";
import type { FailureCode, Told } from "../errors.ts";
import type { Admission, AdmissionRequest, RefusalCode } from "../keys/admission.ts";
import { askGuard } from "../keys/guards.ts";
import { parseSigningSecrets, type SigningSecret } from "../keys/key-format.ts";
import { KeyMemory } from "../keys/key-memory.ts";
import { refusals } from "../keys/refusal-memory.ts";
import { type ApiContext, type ApiEnv, clientIp } from "./context.ts";
import type { Operations } from "./operations.ts";
import { problemAnswer } from "./problem.ts";

interface Signing {
  text: string;
  secrets: readonly [SigningSecret, ...SigningSecret[]];
  memory: KeyMemory;
}

let current: Signing | undefined;

function signingOf({ KEY_SIGNING_SECRETS: text }: Pick<Env, "KEY_SIGNING_SECRETS">): Signing {
  if (current?.text !== text) {
    const secrets = parseSigningSecrets(text);
    current = { text, secrets, memory: new KeyMemory(secrets) };
  }
  return current;
}

/** The secrets that sign API keys, read from the binding once an isolate. */
export const signingSecrets = (env: Pick<Env, "KEY_SIGNING_SECRETS">) => signingOf(env).secrets;

/**
 * Lets a request pass whose key's guard admits it. A made-up key ends here: no object is woken and no row is read. Refusals are
 * answered, not thrown: in a flood, an error's stack would cost more than all the rest.
 */
export const admit = (operations: Operations) =>
  createMiddleware<ApiEnv>(async function admit(c, next) {
    const operation = operations.of(c);
    c.set("operation", operation);
    if (!operation.needsKey) return next();

    const [, secretKey] = /^Bearer +(\S.*?) *$/i.exec(c.req.header("authorization") ?? "") ?? [];
    if (secretKey === undefined) return problemAnswer(c, unauthorized("missing_key", "Send an API key: Authorization: Bearer <API_KEY>."));
    const { keyId, secretHash } = signingOf(c.env).memory.read(secretKey);
    if (keyId === null) return problemAnswer(c, told("invalid_key"));

    const request: AdmissionRequest = { secretHash, ip: clientIp(c), scope: operation.scope, counted: operation.isCounted };
    const admission = await admissionOf(c, keyId, request);
    if (admission === null) return problemAnswer(c, told("invalid_key"));
    c.set("recognized", { keyId, admission });
    if (admission.refusal !== null) return problemAnswer(c, told(admission.refusal, request, admission));
    return next();
  });

async function admissionOf(c: ApiContext, keyId: string, request: AdmissionRequest): Promise<Admission | null> {
  const askedAt = Date.now();
  const remembered = refusals.recall(keyId, request, askedAt);
  if (remembered) return remembered;
  const admission: Admission | null = await askGuard(c.env.KEY_GUARD, keyId, (guard) => guard.admit(request));
  if (admission) refusals.remember(keyId, request, admission, askedAt);
  return admission;
}

const challenge = 'Bearer realm="api"';
const unauthorized = (code: FailureCode, message: string): Told => ({
  code,
  message,
  headers: { "WWW-Authenticate": code === "missing_key" ? challenge : `${challenge}, error="invalid_token"` },
});

/** What a client is told of a refusal. */
function told(code: RefusalCode, request?: AdmissionRequest, admission?: Admission): Told {
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
      return { code, message: "This key may not be used from this address." };
    case "insufficient_scope":
      return {
        code,
        message: `This operation needs the scope ${request?.scope}.`,
        headers: { "WWW-Authenticate": `${challenge}, error="insufficient_scope", scope="${request?.scope}"` },
      };
    case "rate_limit_exceeded":
      return { code, message: `All ${admission?.rateLimit.limit} requests of this hour are used.` };
  }
}
