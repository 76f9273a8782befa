import type { FailureCode, Told } from "../errors.ts";
import type { Admission, AdmissionRequest, RefusalCode } from "../keys/admission.ts";
import { askAdmission } from "../keys/guards.ts";
import { parseSigningSecrets, type SigningSecret } from "../keys/key-format.ts";
import { KeyMemory } from "../keys/key-memory.ts";
import { refusals } from "../keys/refusal-memory.ts";
import { type ApiContext, clientIp } from "./context.ts";
import type { Operation } from "./operation.ts";
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
 * Asks the guard of the request's key. Answers the refusal, or null where the request may run. A made-up key ends here: no
 * object is woken and no row is read. Refusals are answers, not errors: in a flood, an error's stack would cost more than all the rest.
 */
export async function admit(c: ApiContext, operation: Operation): Promise<Response | null> {
  const secretKey = /^Bearer (.*)$/i.exec(c.req.header("authorization") ?? "")?.[1]?.trim();
  if (!secretKey) return problemAnswer(c, unauthorized("missing_key", "Send an API key: Authorization: Bearer <API_KEY>."));
  const { keyId, secretHash } = signingOf(c.env).memory.read(secretKey);
  if (keyId === null) return problemAnswer(c, told("invalid_key"));

  const request: AdmissionRequest = { secretHash, ip: clientIp(c), scope: operation.scope, counted: operation.isCounted };
  const askedAt = Date.now();
  const remembered = refusals.recall(keyId, request, askedAt);
  const admission = remembered ?? (await askAdmission(c.env.KEY_GUARD, keyId, request));
  if (admission === null) return problemAnswer(c, told("invalid_key"));
  if (remembered === null) refusals.remember(keyId, request, admission, askedAt);
  c.set("recognized", { keyId, ip: request.ip, admission });
  return admission.refusal === null ? null : problemAnswer(c, told(admission.refusal, request, admission));
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
