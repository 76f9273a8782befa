import type { LeaseReturn } from "../budget/holding.ts";
import type { KeyVerifier } from "../credentials/verified-keys.ts";
import type { Admission, AdmissionRequest } from "../guard/decision.ts";
import { type Guards, requestAdmission } from "../guard/guards.ts";
import { processLeaseMs } from "../guard/lease-setting.ts";
import type { FailureContent } from "../lib/errors/failure.ts";
import { type Moment, thisMoment } from "../lib/time/moment.ts";
import { beginDecision, endDecision } from "../lib/time/turns.ts";
import { countDecisions } from "../log/isolate/count-decisions.ts";
import { denialCache } from "./denial-cache.ts";
import { denialContent, invalidKey, limitsIn, missingKey, violatedIn } from "./denials.ts";
import { type InBackground, leases } from "./lease-holder.ts";

// Authenticates and admits keys. This code does not depend on any route. Denials are returned, not thrown. In a flood of denied requests,
// the stack traces of thrown errors would cost more than all other work.

/** The request to authenticate, without the secret itself. */
export type KeyRequest = Omit<AdmissionRequest, "secretHash">;

/** The id of a key whose secret has a valid tag, and the admission request for the key's guard. */
export interface Credential {
  keyId: string;
  request: AdmissionRequest;
}

/** The key of a request, and the decision of the key's guard on this request. */
export interface Principal {
  keyId: string;
  ip: string;
  admission: Admission;
}

/** A denied request. If the key is not known, `principal` is absent. */
export interface Denied {
  denial: FailureContent;
  principal?: Principal;
}

/**
 * Verifies a secret key without any I/O. Denies the request if the key is missing or forged, or if this isolate has a cached denial of the
 * same request.
 */
export function authenticateKey(
  verifiedKeys: Pick<KeyVerifier, "verify">,
  secretKey: string,
  { ip, scope, counted, cost, verification }: KeyRequest,
  now: Moment,
): { credential: Credential } | Denied {
  if (secretKey === "") return { denial: missingKey };
  const verified = verifiedKeys.verify(secretKey);
  if (verified === null) return { denial: invalidKey };
  const { keyId, secretHash } = verified;
  const request: AdmissionRequest = { secretHash, ip, scope, counted, cost };
  if (verification) request.verification = verification;
  const admission = leases.wouldAdmit(keyId, request, now) ? null : denialCache.recall(keyId, request, now);
  if (admission === null || !isAnswerTo(admission, request)) return { credential: { keyId, request } };
  countDecisions({ denialCache: 1 });
  return denied({ keyId, ip, admission }, request);
}

/**
 * Returns whether a cached denial answers a request. A repeated attempt may have been admitted before the limit was used up, so only the guard can
 * answer it. For a caller that may not ask about the account, the key does not exist.
 */
function isAnswerTo({ refusal, key }: Admission, { verification }: AdmissionRequest): boolean {
  if (!verification) return true;
  const { accountIds, attempt } = verification;
  if (accountIds !== null && !accountIds.includes(key.accountId)) return false;
  return attempt === undefined || refusal !== "rate_limit_exceeded";
}

/**
 * Decides whether a request may run, and counts it: by a lease of this isolate, or by the guard of the key. Throws `unavailable` if the guard does not respond.
 * `inBackground`: runs work after the response.
 */
export async function admitKey(
  guards: Guards,
  { keyId, request }: Credential,
  inBackground: InBackground,
): Promise<{ principal: Principal } | Denied> {
  const now = thisMoment();
  const near = leases.admit(keyId, request, now);
  if (near !== null) {
    if (!request.isLook) countDecisions({ lease: 1 });
    leases.keep(guards, keyId, request, now, inBackground);
    return { principal: { keyId, ip: request.ip, admission: near } };
  }
  const question = leases.questionTo(guards, keyId, request, now);
  beginDecision();
  let answer: Admission | null;
  try {
    answer = await requestAdmission(guards, keyId, question);
  } finally {
    endDecision();
  }
  if (!request.isLook) countDecisions({ guard: 1 });
  if (answer === null) {
    leases.drop(keyId);
    return { denial: invalidKey };
  }
  const admission = leases.takeAnswer(keyId, { ...question, at: now }, answer, thisMoment());
  denialCache.store(keyId, request, admission, now);
  leases.keep(guards, keyId, request, thisMoment(), inBackground);
  const principal = { keyId, ip: request.ip, admission };
  return admission.refusal === null ? { principal } : denied(principal, request);
}

/** The wish of a process of the team for a lease. `returns`: what is left of its leases. */
export interface LeaseForProcess {
  want: number;
  returns: readonly LeaseReturn[];
}

/** Decides like `admitKey`, at the guard. The admission of a process can bring a lease. */
export async function admitForProcess(
  guards: Guards,
  { keyId, request }: Credential,
  wish: LeaseForProcess,
): Promise<{ principal: Principal } | Denied> {
  const at = thisMoment();
  const question = { ...request, ...wish, leaseMs: processLeaseMs };
  const answer = await requestAdmission(guards, keyId, question);
  countDecisions({ guard: 1 });
  if (answer === null) {
    leases.drop(keyId);
    return { denial: invalidKey };
  }
  const { lease, ...decision } = answer;
  const admission = leases.takeAnswer(keyId, { ...request, at }, decision, thisMoment());
  denialCache.store(keyId, request, admission, at);
  if (lease) countDecisions({ given: lease.units, wasted: lease.wasted });
  const principal = { keyId, ip: request.ip, admission: lease ? { ...admission, lease } : admission };
  return admission.refusal === null ? { principal } : denied(principal, request);
}

/** The contents of denials. A cached denial is the answer to many requests with the same scope and cost. */
const contents = new WeakMap<Admission, FailureContent>();

function denied(principal: Principal, { scope, cost = 1 }: AdmissionRequest): Denied {
  const { admission } = principal;
  const { refusal } = admission;
  if (refusal === null) return { denial: invalidKey, principal };
  const known = contents.get(admission);
  if (known) return { denial: known, principal };
  const limits = refusal === "cost_exceeds_limit" ? limitsIn(admission).filter(({ limit }) => cost > limit) : violatedIn(admission);
  const denial = denialContent(refusal, { scope, limits, cost });
  contents.set(admission, denial);
  return { denial, principal };
}
