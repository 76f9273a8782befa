import type { Principal } from "../../admission/authenticate.ts";
import { invalidKey, limitDetails, limitsIn } from "../../admission/denials.ts";
import { decisionMs, undecided, type Verdict, type Verification, verifyKey } from "../../admission/verify.ts";
import { credentialsIn, splitJoined } from "../../credentials/credential-in.ts";
import { importSecretsIn } from "../../credentials/imported-secret.ts";
import { maskPath, maskSecrets } from "../../credentials/mask-keys.ts";
import { newReceipt } from "../../credentials/receipt.ts";
import { keyVerifier, signingSecrets } from "../../credentials/signing-secrets.ts";
import { connect } from "../../db/client.ts";
import { guardsOf } from "../../guard/guards.ts";
import { readUnguarded } from "../../guard/read-config.ts";
import { problemBody, retryAfter } from "../../http/problem.ts";
import { rateLimitHeadersOf, remainingOf } from "../../http/rate-limit-headers.ts";
import { findImported } from "../../keys/imported/find-imported.ts";
import { hashOf } from "../../lib/crypto/hash.ts";
import { failures } from "../../lib/errors/failure.ts";
import { iso, isoOrNull } from "../../lib/time/clock.ts";
import { withDeadline } from "../../lib/time/deadline.ts";
import { logRequest } from "../../log/isolate/log-request.ts";
import type { VerifyAnswer } from "./answers.ts";
import { credentialIn } from "./credential.ts";
import { described } from "./described.ts";
import { isForeign } from "./forward.ts";
import type { VerifyRequest } from "./schemas.ts";

/**
 * The caller of a verification. `accountIds`: the accounts about which it may ask, or null for all. `origin`: the origin of the links to the documentation.
 * `requestId`: the id of the request in its response and in the log.
 */
export interface Caller {
  accountIds: readonly string[] | null;
  origin: string;
  requestId: string;
  waitUntil: (work: Promise<void>) => void;
}

const hashLength = 64;
/** Returns a text, or its hash if the text is not shorter. A guard notes texts of attempts, and the client chooses their length. */
const shortened = (text: string): string => (text.length < hashLength ? text : hashOf(text));

/** The method, the path and the route in the log of a request for which they were not given. */
const notGiven = "-";

/** Returns the scopes that a request needs, in the form of `AdmissionRequest`. */
function scopeOf({ scope, scopes: { all = [], any = [] } = {} }: VerifyRequest): string | null {
  const needed = [...(scope === undefined ? [] : [scope]), ...all, ...(any.length > 0 ? [any.join("|")] : [])];
  return needed.length > 0 ? needed.join(" ") : null;
}

/** Decides about a request that the team's own API has received, counts it, and logs it. */
export const verify = async (env: Env, caller: Caller, given: VerifyRequest): Promise<VerifyAnswer> =>
  (await verifyFor(env, caller, given)).answer;

/**
 * Decides like `verify`. `forProcess`: see `Verification`. `found`: the key of the credential, if it is known already. Returns the answer, and the principal if
 * the caller may ask about it.
 */
export async function verifyFor(
  env: Env,
  caller: Caller,
  given: VerifyRequest,
  { forProcess, found }: Pick<Verification, "forProcess"> & { found?: { keyId: string; secretHash: string } } = {},
): Promise<{ answer: VerifyAnswer; principal?: Principal | undefined }> {
  const startedAt = Date.now();
  const request = described(given);
  const { ip = "", cost, request_id: id } = request;
  const scope = scopeOf(request);
  if (request.unknown && credentialsIn(splitJoined(request.key), []).length > 0) {
    const asked = isForeign(
      connect(env.DB),
      { sent: [{ name: /\s/.test(request.key) ? "authorization" : "x-api-key", value: request.key }] },
      startedAt,
    );
    const foreign = await withDeadline(asked, decisionMs, "Reading the forms of keys").catch(undecided);
    if (foreign !== false) {
      const denial = foreign === true ? invalidKey : foreign;
      return {
        answer: { ...answerOf(env, caller, request, { denial, degraded: false, principal: undefined }), foreign: foreign === true },
      };
    }
  }
  const { requestId: entryId } = caller;
  const verifying = {
    guards: { ...guardsOf(env), isBounded: true as const },
    inBackground: (work: Promise<unknown>) => caller.waitUntil(work.then(() => {})),
    verifiedKeys: keyVerifier(env),
    findImported: async (text: string) => found ?? findImported(connect(env.DB), importSecretsIn(env), text, ip),
    readUnguarded: (keyId: string) => readUnguarded(connect(env.DB), keyId),
  };
  const attempt =
    id === undefined ? undefined : { id: shortened(id), about: shortened(JSON.stringify([request.method, request.path, scope, cost])) };
  const about = { scope, ip, cost, accountIds: caller.accountIds, entryId, attempt };
  const verdict = await verifyKey(verifying, {
    credential: () => credentialIn(connect(env.DB), splitJoined(request.key), "Authorization"),
    ...about,
    forProcess,
  });
  const { principal } = verdict;
  // If the token may not ask about the account of the key, the request is not logged there.
  const isKnown = principal !== undefined && (caller.accountIds?.includes(principal.admission.key.accountId) ?? true);
  if (isKnown && (verdict.denial === null || isEnforced(request, principal))) log(env, caller, request, verdict, principal, startedAt);
  const known = isKnown ? principal : undefined;
  return { answer: answerOf(env, caller, request, { ...verdict, principal: known }), principal: known };
}

function log(
  env: Env,
  { requestId, waitUntil }: Caller,
  request: VerifyRequest,
  { denial, degraded }: Verdict,
  principal: Principal,
  startedAt: number,
): void {
  const { keyId, ip, admission } = principal;
  const { method = notGiven, cost, user_agent: userAgent = "" } = request;
  const admitted = denial === null;
  logRequest(env, waitUntil, {
    accountId: admission.key.accountId,
    logWriter: admission.key.logWriter,
    keyId,
    method,
    route: shownRouteOf(request),
    // The response of an admitted request is not known yet. The team's API reports it later.
    status: denial === null ? null : failures[denial.code].status,
    ip: ip || null,
    errorCode: denial?.code ?? null,
    missingScope: denial?.code === "insufficient_scope" ? (scopeOf(request) ?? undefined) : undefined,
    reason: denial?.message,
    admitted,
    counted: admitted && !degraded,
    secret: admission.secret,
    startedAt,
    endedAt: Date.now(),
    details: () => ({
      id: admission.verified?.entryId ?? requestId,
      path: shownPathOf(request),
      ...limitDetails(admission, cost),
      // The API's own operations name their scope in the documentation. Only the team's API knows what this request needed.
      problem: denial?.code === "insufficient_scope" ? { detail: denial.message, errors: [] } : null,
      country: null,
      userAgent,
    }),
  });
}

export function answerOf(
  env: Env,
  caller: Caller,
  request: VerifyRequest,
  { denial, degraded, principal }: Omit<Verdict, "principal"> & { principal: Principal | undefined },
): VerifyAnswer {
  const admission = principal?.admission;
  const requestId = admission?.verified?.entryId ?? caller.requestId;
  const status = denial === null ? 200 : failures[denial.code].status;
  const limits = admission && !degraded ? limitsIn(admission) : [];
  const now = Date.now();
  return {
    allowed: denial === null,
    status,
    code: denial?.code ?? null,
    degraded,
    foreign: false,
    enforced: isEnforced(request, principal),
    request_id: requestId,
    receipt: denial === null && request.report && principal ? receiptFor(env, principal, request, { requestId, degraded }) : null,
    ...partiesOf(principal),
    rate_limits: limits.map((each) => ({
      name: each.name,
      limit: each.limit,
      used: each.used,
      remaining: remainingOf(each),
      resets_at: iso(each.resetsAt),
    })),
    headers: {
      ...(admission && limits.length > 0 && rateLimitHeadersOf(admission, now)),
      ...denial?.headers,
      ...retryAfter(status, admission),
    },
    problem: denial && {
      ...problemBody(denial, { origin: caller.origin, instance: request.path === undefined ? "/" : shownPathOf(request), requestId }),
    },
  };
}

/** Returns whether a denial counts. In shadow mode, it counts for the accounts that the client names. */
function isEnforced({ shadow }: VerifyRequest, principal: Principal | undefined): boolean {
  if (!shadow || !principal) return !shadow || shadow.share === 1;
  const { accounts = [], share = 0 } = shadow;
  const { key, verified } = principal.admission;
  const isNamed = accounts.some((each) => each === key.accountId || each === verified?.accountExternalId);
  return isNamed || Number.parseInt(hashOf(key.accountId).slice(0, 8), 16) < share * 2 ** 32;
}

function receiptFor(
  env: Env,
  { keyId, ip, admission: { key, secret } }: Principal,
  request: VerifyRequest,
  { requestId, degraded }: { requestId: string; degraded: boolean },
): string {
  const [signing] = signingSecrets(env);
  const { accountId, logWriter } = key;
  const { method = notGiven, cost } = request;
  const about = { method, path: shownPathOf(request), route: shownRouteOf(request), ip: ip || null, cost: cost === 1 ? null : cost };
  return newReceipt({ accountId, logWriter, entryId: requestId, keyId, ...about, counted: !degraded, secret }, signing);
}

const minSecretLength = 16;

/** Returns the path for the log: without its query, and with secrets masked. */
function shownPathOf({ path = notGiven, key }: VerifyRequest): string {
  // `maskPath` knows the keys of this service. An imported key can have any form.
  const secrets = credentialsIn(splitJoined(key), []).filter(({ length }) => length >= minSecretLength);
  return secrets.reduce((shown, secret) => shown.replaceAll(secret, "***"), maskPath(path.split("?")[0] ?? ""));
}
const shownRouteOf = ({ route = notGiven }: VerifyRequest): string => maskSecrets(route, 200);

function partiesOf(principal: Principal | undefined): Pick<VerifyAnswer, "account" | "key"> {
  const { key, verified } = principal?.admission ?? {};
  if (!principal || !key || !verified) return { account: null, key: null };
  return {
    account: {
      id: key.accountId,
      external_id: verified.accountExternalId,
      name: key.accountName,
      metadata: JSON.parse(verified.accountMetadata),
    },
    key: {
      id: principal.keyId,
      external_id: verified.externalId,
      name: key.name,
      scopes: key.scopes,
      metadata: JSON.parse(verified.metadata),
      expires_at: isoOrNull(key.expiresAt),
    },
  };
}
