import type { VerifiedKeys } from "../credentials/verified-keys.ts";
import type { FailureContent } from "../errors/failure.ts";
import { type Admission, type AdmissionRequest, denialContent, invalidKey, missingKey } from "./admission.ts";
import { denialCache } from "./denial-cache.ts";
import { askAdmission, type Guards } from "./guards.ts";

// Authentication and admission of a key, for every surface: neither knows where a request came from. Denials are values, not errors: in a flood, the
// stack of an error would cost more than all the rest.

/** What is asked for with a secret key. `scope`: null where any key will do. */
export type KeyRequest = Omit<AdmissionRequest, "secretHash">;

/** A secret key whose tag is valid, and the request for the guard of its key. */
export interface Credential {
  keyId: string;
  request: AdmissionRequest;
}

/** The key that a request acts for, admitted or denied. */
export interface Principal {
  keyId: string;
  ip: string;
  admission: Admission;
}

/** A request that may not run. `principal`: its key, if it is known. */
export interface Denied {
  denial: FailureContent;
  principal?: Principal;
}

/** Verifies a secret key without any I/O. Denies a missing key, a forged key, and a key whose denial the isolate remembers. */
export function authenticateKey(
  verifiedKeys: VerifiedKeys,
  secretKey: string,
  { ip, scope, counted }: KeyRequest,
  now: number,
): { credential: Credential } | Denied {
  if (secretKey === "") return { denial: missingKey };
  const verified = verifiedKeys.identify(secretKey);
  if (verified === null) return { denial: invalidKey };
  const { keyId, secretHash } = verified;
  const request = { secretHash, ip, scope, counted };
  const admission = denialCache.recall(keyId, request, now);
  return admission === null ? { credential: { keyId, request } } : denied({ keyId, ip, admission }, request);
}

/** Asks the guard of a key whether a request may run, and counts the request. Throws `unavailable` if the guard does not respond. */
export async function admitKey(guards: Guards, { keyId, request }: Credential): Promise<{ principal: Principal } | Denied> {
  const askedAt = Date.now();
  const admission = await askAdmission(guards, keyId, request);
  if (admission === null) return { denial: invalidKey };
  denialCache.remember(keyId, request, admission, askedAt);
  const principal = { keyId, ip: request.ip, admission };
  return admission.refusal === null ? { principal } : denied(principal, request);
}

function denied(principal: Principal, { scope }: AdmissionRequest): Denied {
  const { refusal, rateLimit } = principal.admission;
  return { denial: refusal === null ? invalidKey : denialContent(refusal, { scope, limit: rateLimit.limit }), principal };
}
