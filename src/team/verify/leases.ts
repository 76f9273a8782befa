import { admitForProcess, type LeaseForProcess, type Principal } from "../../admission/authenticate.ts";
import { invalidKey } from "../../admission/denials.ts";
import { undecided } from "../../admission/verify.ts";
import { type LeaseReceipt, leaseReceiptOf, newLeaseReceipt } from "../../credentials/receipt.ts";
import { charactersOf, type SecretForm } from "../../credentials/secret-form.ts";
import { signingSecrets } from "../../credentials/signing-secrets.ts";
import { connect } from "../../db/client.ts";
import { messagesOf } from "../../db/failures.ts";
import { callGuard, guardsOf } from "../../guard/guards.ts";
import { knownForms } from "../../keys/imported/find-imported.ts";
import { newId } from "../../lib/ids.ts";
import type { Holder } from "./entries.ts";
import type { LeaseItem, LeasesAnswer } from "./lease-schemas.ts";
import { answerOf, type Caller, verifyFor } from "./verify.ts";

// Leases for the team's own processes: with a lease, a process decides about the requests of a key by itself. The rules are those of `guard/lease.ts`.

/** The time that a renewal may take, in milliseconds. A key with a slow guard does not delay other keys. A request that waits has the time of any decision. */
const renewalMs = 300;

type Answer = LeasesAnswer["data"][number];
type Unplaced = Omit<Answer, "index" | "retry">;

/** A process of the team that asks about a key. */
interface Asking {
  env: Env;
  caller: Caller;
  issuer: string;
}

const noLease = { lease: null, units: 0, for_ms: 0, is_urgent: false, order: 0, allowed_ips: [] };

/** Decides about the requests that wait, and gives and renews leases. Each key is answered by itself. */
export async function lease(env: Env, caller: Caller, { issuer }: Holder, items: readonly LeaseItem[]): Promise<LeasesAnswer> {
  const late = new Promise<null>((resolve) => setTimeout(() => resolve(null), renewalMs));
  const forms = knownForms(connect(env.DB), Date.now()).catch(() => []);
  const data = await Promise.all(
    items.map(async (item, index): Promise<Answer> => {
      const own = { ...caller, requestId: newId("req", Date.now()) };
      const asked = answerItem({ env, caller: own, issuer }, item).catch((error: unknown) => {
        console.error("a lease was not answered:", messagesOf(error));
        return null;
      });
      const answer = await (item.key === undefined ? Promise.race([asked, late]) : asked);
      const busy = { denial: undecided(), degraded: false, principal: undefined };
      return { ...(answer ?? { ...answerOf(env, own, plain, busy), ...noLease }), retry: answer === null, index };
    }),
  );
  const known = (await Promise.race([forms, late])) ?? [];
  return { data, forms: known.map(shownForm) };
}

const shownForm = ({ prefix, minLength, maxLength, alphabet }: SecretForm) => {
  return { prefix, minLength, maxLength, characters: charactersOf({ alphabet }) };
};

const plain = { key: "", cost: 1, report: false } as const;

async function answerItem(asking: Asking, { key, lease: text, request, want, back }: LeaseItem): Promise<Unplaced> {
  const { env, caller, issuer } = asking;
  const signing = signingSecrets(env);
  const returns = back.flatMap(({ lease: each, unused }) => {
    const read = leaseReceiptOf(each, signing);
    return read?.issuer === issuer ? [{ ...read, unused: Math.min(unused, read.units) }] : [];
  });
  const wishFor = (keyId: string): LeaseForProcess => ({
    want,
    returns: returns.filter((each) => each.keyId === keyId).map(({ id, unused }) => ({ id, unused })),
  });
  if (key !== undefined) {
    const { answer, principal } = await verifyFor(env, caller, { ...plain, ...request, key }, { forProcess: wishFor });
    return { ...answer, ...leaseOf(asking, principal) };
  }
  const held = leaseReceiptOf(text ?? "", signing);
  if (held?.issuer !== issuer || !(caller.accountIds?.includes(held.accountId) ?? true))
    return { ...answerOf(env, caller, plain, { denial: invalidKey, degraded: false, principal: undefined }), ...noLease };
  return renew(asking, held, wishFor(held.keyId));
}

/** Renews a lease. Without a wish for units, only takes back what is left. */
async function renew(asking: Asking, { keyId, secretHash }: LeaseReceipt, wish: LeaseForProcess): Promise<Unplaced> {
  const { env, caller } = asking;
  const guards = { ...guardsOf(env), isBounded: true as const };
  const verification = { accountIds: caller.accountIds, entryId: caller.requestId };
  const credential = { keyId, request: { secretHash, ip: "", scope: null, counted: true, cost: 0, verification } };
  if (wish.want === 0) {
    await callGuard(guards, keyId, (guard) => guard.settle(wish.returns));
    // Nothing was decided.
    return { ...answerOf(env, caller, plain, { denial: null, degraded: false, principal: undefined }), allowed: false, ...noLease };
  }
  const outcome = await admitForProcess(guards, credential, wish);
  const denial = "denial" in outcome ? outcome.denial : null;
  const { principal } = outcome;
  return { ...answerOf(env, caller, plain, { denial, degraded: false, principal }), ...leaseOf(asking, principal) };
}

function leaseOf({ env, issuer }: Asking, principal: Principal | undefined): Pick<Answer, keyof typeof noLease> {
  const { lease: given, secret, order = 0 } = principal?.admission ?? {};
  const [signing] = signingSecrets(env);
  if (!principal || !given || !secret) return { ...noLease, order };
  const { config, id, units, forMs, isUrgent } = given;
  const now = Date.now();
  const secretHash = secret === "current" ? config.secretHash : (config.previousSecretHash ?? "");
  const about = {
    id,
    units,
    issuer,
    keyId: principal.keyId,
    secretHash,
    accountId: config.accountId,
    logWriter: config.logWriter,
    secret,
    from: now,
    until: now + forMs,
  };
  return { lease: newLeaseReceipt(about, signing), units, for_ms: forMs, is_urgent: isUrgent, order, allowed_ips: config.allowedIps };
}
