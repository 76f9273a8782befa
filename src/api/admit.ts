import type { FailureCode, Told } from "../errors.ts";
import type { Admission, AdmissionRequest, RefusalCode } from "../keys/admission.ts";
import { askAdmission } from "../keys/guards.ts";
import { parseSigningSecrets, type SigningSecret } from "../keys/key-format.ts";
import { KeyMemory } from "../keys/key-memory.ts";
import { refusals } from "../keys/refusal-memory.ts";
import { type ApiContext, type Call, clientIp, type PresentedKey } from "./context.ts";
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

/** The key that a request presents, or what it is told where it has none or a made-up one: no object is woken for those, and no row is read. */
export function presentedKey(headers: Headers, env: Env): PresentedKey | { keyId: null; refusal: Told } {
  const secretKey = bearerOf(headers.get("Authorization") ?? "");
  if (secretKey === "") return { keyId: null, refusal: missingKey };
  const { keyId, secretHash } = signingOf(env).memory.read(secretKey);
  return keyId === null ? { keyId, refusal: invalidKey } : { keyId, secretHash };
}

const scheme = "bearer ";
const bearerOf = (header: string): string =>
  header.slice(0, scheme.length).toLowerCase() === scheme ? header.slice(scheme.length).trim() : "";

/**
 * Asks the guard of the request's key. Answers the refusal, or null where the request may run. Refusals are answers, not
 * errors: in a flood, an error's stack would cost more than all the rest.
 */
export async function admit(c: ApiContext, call: Call): Promise<Response | null> {
  const key = call.key ?? presentedKey(call.headers, c.env);
  if (key.keyId === null) return problemAnswer(call, key.refusal);
  const { keyId, secretHash } = key;
  const { scope, isCounted } = call.operation;
  const request: AdmissionRequest = { secretHash, ip: clientIp(call), scope, counted: isCounted };
  const askedAt = Date.now();
  const remembered = refusals.recall(keyId, request, askedAt);
  const admission = remembered ?? (await askAdmission(c.env.KEY_GUARD, keyId, request));
  if (admission === null) return problemAnswer(call, invalidKey);
  if (remembered === null) refusals.remember(keyId, request, admission, askedAt);
  call.recognized = { keyId, ip: request.ip, admission };
  return admission.refusal === null ? null : problemAnswer(call, told(admission.refusal, request, admission));
}

const challenge = 'Bearer realm="api"';
const unauthorized = (code: FailureCode, message: string): Told => ({
  code,
  message,
  headers: { "WWW-Authenticate": code === "missing_key" ? challenge : `${challenge}, error="invalid_token"` },
});

const missingKey = unauthorized("missing_key", "Send an API key: Authorization: Bearer <API_KEY>.");
const invalidKey = unauthorized("invalid_key", "This is not a key of this service, or no longer its secret.");

/** What a client is told of a refusal. */
function told(code: RefusalCode, request: AdmissionRequest, admission: Admission): Told {
  switch (code) {
    case "invalid_key":
      return invalidKey;
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
        message: `This operation needs the scope ${request.scope}.`,
        headers: { "WWW-Authenticate": `${challenge}, error="insufficient_scope", scope="${request.scope}"` },
      };
    case "rate_limit_exceeded":
      return { code, message: `All ${admission.rateLimit.limit} requests of this hour are used.` };
  }
}
