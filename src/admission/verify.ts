import { maxCredential } from "../credentials/credential-in.ts";
import type { KeyVerifier } from "../credentials/verified-keys.ts";
import { type Admission, type AdmissionRequest, denialOf, factsOf, type KeyConfig, verifiedFactsOf } from "../guard/decision.ts";
import { callGuard, type Guards, isUnreachable } from "../guard/guards.ts";
import type { OnUnavailable } from "../guard/read-config.ts";
import { Failure, type FailureContent } from "../lib/errors/failure.ts";
import { parseIpList } from "../lib/net/ip-list.ts";
import { withDeadline } from "../lib/time/deadline.ts";
import { thisMoment } from "../lib/time/moment.ts";
import { admitForProcess, admitKey, authenticateKey, type Denied, type LeaseForProcess, type Principal } from "./authenticate.ts";
import { denialContent, invalidKey } from "./denials.ts";
import type { InBackground } from "./lease-holder.ts";

// Decides about a request that the team's own API has received. This code knows no HTTP: the team API, forward auth and the RPC entrypoint call it.
// It uses the same checks and the same call to the guard as the requests that this Worker serves itself.

/** A request that the team's own API has received. */
export interface Verification {
  /** Returns the API key of the client, or an empty string. Throws `invalid_header` if the client sent two different keys. */
  credential: () => Promise<string>;
  scope: string | null;
  /** The IP address of the client, or an empty string. A key with `allowed_ips` is then denied. */
  ip: string;
  /** The number of units that the request uses. */
  cost: number;
  /** The accounts about which the caller may ask, or null for all accounts. */
  accountIds: readonly string[] | null;
  /** The id in the request log for this request. */
  entryId: string;
  /** The caller's own id of the request, and a text that describes the request. */
  attempt?: { id: string; about: string } | undefined;
  /** Present if a process of the team may get a lease. Gets the key. */
  forProcess?: ((keyId: string) => LeaseForProcess) | undefined;
}

/** What `verifyKey` needs. `findImported` looks for a key whose secret is not of this service's form. `readUnguarded` reads a key from D1. */
export interface Verifying {
  guards: Guards;
  inBackground: InBackground;
  verifiedKeys: KeyVerifier;
  findImported: (text: string) => Promise<{ keyId: string; secretHash: string } | null>;
  readUnguarded: (keyId: string) => Promise<(KeyConfig & OnUnavailable) | null>;
}

/**
 * The decision on a request. `denial` is null if the request may run. `degraded`: the guard did not respond, and D1 decided without counting the
 * request.
 */
export interface Verdict {
  denial: FailureContent | null;
  principal?: Principal;
  degraded: boolean;
}

/** The time for a decision, in milliseconds. A client waits a second for it. */
export const decisionMs = 800;

/**
 * Decides about a request within 800 ms, and counts it. Never throws: if the decision is not possible, the request is denied with `unavailable`. If the guard of
 * the key cannot be reached and the account says `on_unavailable: "known"`, D1 decides, and the request is not counted.
 */
export async function verifyKey(verifying: Verifying, verification: Verification): Promise<Verdict> {
  try {
    return await withDeadline(decide(verifying, verification), decisionMs, "Deciding about a request");
  } catch (error) {
    return { denial: failureOf(error), degraded: false };
  }
}

async function decide(verifying: Verifying, { credential, scope, ip, cost, forProcess, ...verification }: Verification): Promise<Verdict> {
  const { accountIds, entryId, attempt } = verification;
  const request = { ip, scope, counted: true, cost, verification: { accountIds, entryId, attempt } };
  const secretKey = await credential();
  if (secretKey.length > maxCredential) return { denial: invalidKey, degraded: false };
  const found = verifying.verifiedKeys.verify(secretKey) ?? (await verifying.findImported(secretKey));
  const outcome = authenticateKey({ verify: () => found }, secretKey, request, thisMoment());
  const { guards, inBackground } = verifying;
  const wish = found ? forProcess?.(found.keyId) : undefined;
  if ("denial" in outcome) {
    // The isolate remembers this denial, so its guard gets what comes back in a call of its own.
    if (found && wish && wish.returns.length > 0)
      inBackground(callGuard(guards, found.keyId, (guard) => guard.settle(wish.returns)).catch(() => {}));
    return deniedAs(outcome, entryId);
  }
  try {
    const admitted = await (wish ? admitForProcess(guards, outcome.credential, wish) : admitKey(guards, outcome.credential, inBackground));
    return "denial" in admitted ? deniedAs(admitted, entryId) : { denial: null, principal: admitted.principal, degraded: false };
  } catch (error) {
    if (!isUnreachable(error)) throw error;
    return withoutGuard(verifying, outcome.credential, error);
  }
}

/** Returns the verdict for a denied request. A denial that the isolate remembered belongs to an earlier request, so it has the id of that request. */
function deniedAs({ denial, principal }: Denied, entryId: string): Verdict {
  if (!principal) return { denial, degraded: false };
  const { verified } = principal.admission;
  if (!verified || verified.entryId === entryId) return { denial, principal, degraded: false };
  return {
    denial,
    principal: { ...principal, admission: { ...principal.admission, verified: { ...verified, entryId } } },
    degraded: false,
  };
}

async function withoutGuard(
  { readUnguarded }: Verifying,
  { keyId, request }: { keyId: string; request: AdmissionRequest },
  cause: unknown,
): Promise<Verdict> {
  const config = await readUnguarded(keyId).catch(() => null);
  if (config?.onUnavailable !== "known") throw cause;
  const refusal = denialOf(config, parseIpList(config.allowedIps), request, Date.now());
  const principal = { keyId, ip: request.ip, admission: uncounted(config, refusal, request) };
  if (refusal === "invalid_key") return { denial: invalidKey, degraded: true };
  return { denial: refusal === null ? null : denialContent(refusal, { scope: request.scope }), principal, degraded: true };
}

/** Returns the admission of a request that no guard has counted. Its limits are not known. */
function uncounted(config: KeyConfig, refusal: Admission["refusal"], { secretHash, verification }: AdmissionRequest): Admission {
  return {
    refusal,
    key: factsOf(config),
    rateLimit: { limit: config.hourlyLimit, used: 0, resetsAt: 0 },
    limits: [],
    secret: secretHash === config.secretHash ? "current" : "previous",
    verified: verifiedFactsOf(config, verification?.entryId ?? ""),
  };
}

export const undecided = (cause?: unknown): Failure =>
  new Failure("unavailable", "The service cannot decide about this request right now. Try again in a moment.", { cause });

const failureOf = (cause: unknown): FailureContent => (cause instanceof Failure ? cause : undecided(cause));
