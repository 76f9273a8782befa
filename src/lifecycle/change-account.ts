import { type Account, isAccountAsRead, readAccount, searchable, updateAccount } from "../accounts/account.ts";
import { isLiveKey } from "../admission/live-keys.ts";
import type { Budgets } from "../budget/budgets.ts";
import { limitsWithin } from "../budget/limits.ts";
import { notePlanVersion, type Plan, planOf, type Terms, termsOf } from "../budget/plan.ts";
import { nextLimitsVersion } from "../budget/shared-limits.ts";
import { apiKeys } from "../db/areas/keys/tables.ts";
import { differing, isEmpty } from "../db/differing.ts";
import { messagesOf } from "../db/failures.ts";
import { always, retry, retryOnConflict, wrote } from "../db/optimistic-locking.ts";
import type { Guards } from "../guard/guards.ts";
import { changeKey } from "../keys/change-key.ts";
import { widens } from "../keys/grants.ts";
import { pushAccount } from "../keys/push-account.ts";
import { pushKeysOf } from "../keys/push-key.ts";
import { raiseVersions } from "../keys/raise-versions.ts";
import { Failure, invalidMember } from "../lib/errors/failure.ts";
import { inBatches } from "../lib/in-batches.ts";
import { omitUndefined } from "../lib/inputs/omit-undefined.ts";
import { activityDays } from "../log/retention.ts";
import { logOf, type WriterEnv, writerAt } from "../log/writers.ts";
import { auditEntry } from "../outbox/audit.ts";
import { orExternalIdTaken, type TeamValues, targetOf } from "./accounts.ts";
import { actorOf, commitOperation, type OperatorContext, operatorCommit } from "./operator-context.ts";

/** The number of keys that are changed at once. */
const changesAtOnce = 10;

// The terms of an account come from its plan, and from the account's own terms, which the operator sets. The row of the account holds the terms that apply, so
// nothing else reads plans. A change of a plan is therefore written to its accounts one after another.

export interface ChangingAccount extends OperatorContext {
  guards: Guards;
  budgets: Budgets;
  env: WriterEnv & { ACTIVITY_DAYS?: string };
}

/**
 * A change of an account: of the values that the team sets, and of its terms. Own terms that are null are removed: the terms of the plan then apply.
 */
export interface AccountPatch extends Partial<TeamValues> {
  planId?: string | null;
  limits?: Terms["sharedLimits"];
  limitCeiling?: number | null;
  retentionDays?: number | null;
}

const termsIn = ({ planId, limits, limitCeiling, retentionDays }: AccountPatch) =>
  differing({ planId, limits, limitCeiling, retentionDays }, {});

const valuesIn = ({ name, email, externalId, metadata, onUnavailable, maxLiveKeys }: Partial<TeamValues>) =>
  omitUndefined({ name, email, externalId, metadata, onUnavailable, maxLiveKeys });

const goOn = "Other keys of the account still have their former limits. Send the request again until it succeeds.";

/** One call changes at most this many keys. Each of these keys needs about 15 D1 statements. */
const maxChanged = 50;

/**
 * Changes an account in one write. `patchOf` returns the change of the account as it was read, and may throw if the account must not be changed. The new
 * values and limits apply to every request that starts after the promise has resolved. Keys with the limits of their plan get its new limits. Other keys whose
 * limits exceed the highest limits are lowered. Returns the ids of the changed keys. Throws `not_found`, `invalid_body` if there is no such plan, and `conflict`
 * if another account has the external id. Throws `unavailable` if the change is saved but not yet active, for example because one call cannot change so many
 * keys. The same call again then goes on.
 */
export async function changeAccount(
  changing: ChangingAccount,
  accountId: string,
  patchOf: (before: Account) => AccountPatch,
): Promise<string[]> {
  const { db } = changing;
  const { patch, plan } = await retryOnConflict(async () => {
    const before = await readAccount(db, accountId);
    const patch = patchOf(before);
    const planId = patch.planId === undefined ? before.planId : patch.planId;
    const plan = await planOf(db, { planId });
    if (planId !== null && plan === null) throw invalidMember("/plan_id", "There is no such plan.", "invalid_value");
    const isWritten = await orExternalIdTaken(
      writeAccount(changing, before, { plan, ownTerms: ownTermsAfter(before, patch), values: patch }),
    );
    return isWritten ? { patch, plan } : retry;
  });
  // A guard that does not respond must not keep the new terms from applying to the other keys.
  const { lowered, changed, isDone } = isEmpty(termsIn(patch))
    ? { lowered: [], changed: 0, isDone: true }
    : await applyTerms(changing, await readAccount(db, accountId), plan, maxChanged);
  // A repeated call finds nothing to change, and waits for the changes of the first one.
  await pushKeysOf(changing, accountId);
  if (!isDone) throw new Failure("unavailable", `The change is stored, and ${changed} keys have their new limits. ${goOn}`);
  return lowered;
}

function ownTermsAfter({ ownTerms }: Account, patch: AccountPatch): Account["ownTerms"] {
  const { planId, ...given } = termsIn(patch);
  const own = { ...ownTerms, ...given };
  const isOwn = ([, value]: [string, unknown]) => value !== null && value !== undefined && !(Array.isArray(value) && value.length === 0);
  return Object.fromEntries(Object.entries(own).filter(isOwn)) as Account["ownTerms"];
}

/** Writes the terms of an account, and the values that the team sets. Returns false if another change came between. */
export async function writeAccount(
  changing: ChangingAccount,
  before: Account,
  { plan, ownTerms, values = {} }: { plan: Plan | null; ownTerms: Account["ownTerms"]; values?: Partial<TeamValues> },
): Promise<boolean> {
  const { db, now } = changing;
  const planId = plan?.id ?? null;
  const terms = differing({ ...termsOf(plan, ownTerms), planId }, before);
  const changed = differing(valuesIn(values), before);
  if (isEmpty({ ...terms, ...changed, ...differing({ ownTerms }, before) })) return true;
  const next = terms.sharedLimits ? nextLimitsVersion(before) : {};
  const members = {
    ...changed,
    ...searchable({ ...before, ...changed }),
    ...terms,
    ownTerms,
    ...next,
    ...(planId !== before.planId && { planVersion: 0 }),
  };
  const changes = Object.keys(changed).map((member) => wordOf[member as keyof typeof wordOf]);
  const ofTerms = Object.fromEntries(Object.entries(terms).map(([member, value]) => [wordOf[member as keyof typeof wordOf], value]));
  // The entry says what the terms are now. It does not contain the values of the team, because they can be personal data.
  const details = { ...ofTerms, ...(changes.length > 0 && { changes }) };
  const when = isAccountAsRead(before);
  const { changed: written } = await commitOperation(
    changing,
    "account.changed",
    { accountId: before.id, details },
    {
      audit: [
        auditEntry({ actor: actorOf(changing, before.id), now }, "account.changed", targetOf(before), [
          ...changes,
          ...Object.keys(ofTerms),
        ]),
      ],
      statements: {
        // The guards of the keys know the values of the team.
        versions: isEmpty(changed) ? [] : [raiseVersions(db, before.id, now, when)],
        changed: updateAccount(db, before.id, members, when),
      },
      when,
    },
  );
  return wrote(written);
}

/** The names of an account's columns in the audit. */
const wordOf = {
  name: "name",
  email: "email",
  externalId: "external_id",
  metadata: "metadata",
  onUnavailable: "on_unavailable",
  maxLiveKeys: "max_live_keys",
  planId: "plan_id",
  sharedLimits: "limits",
  limitCeiling: "limit_ceiling",
  keyLimits: "key_limits",
  defaultScopes: "default_scopes",
  retentionDays: "retention_days",
} as const;

/**
 * Applies the stored terms of an account: pushes its limits, hides log entries that are past their retention, and changes the limits of at most `atMost`
 * keys. When all of this is done, notes the version of the plan. Returns the ids of the lowered keys, and the number of all changed keys. `isDone` is false if
 * more keys must be changed.
 */
export async function applyTerms(
  changing: ChangingAccount,
  account: Account,
  plan: Plan | null,
  atMost: number,
): Promise<{ lowered: string[]; changed: number; isDone: boolean }> {
  const { db, env, now } = changing;
  if (account.pushedLimitsVersion < account.limitsVersion) await pushAccount(changing, account.id);
  await hideOldEntries(changing, account);
  const { limitCeiling, keyLimits } = account;
  const keys = await db.select().from(apiKeys).where(isLiveKey(account.id, now));
  // The limits of expired keys are not changed. An expired key cannot get a new expiry while its limits are too high.
  const outdated = keys.flatMap(({ id, ...key }) => {
    const isOfPlan = key.limitsFrom === "plan";
    const ofPlan = { hourlyLimit: limitCeiling, otherLimits: keyLimits };
    const within = { hourlyLimit: Math.min(key.hourlyLimit, limitCeiling), otherLimits: limitsWithin(key.otherLimits, keyLimits) };
    const patch = differing(isOfPlan ? ofPlan : within, key);
    const isLowered = widens({ ...key, ...patch }, key);
    return isEmpty(patch) ? [] : [{ id, patch: { ...patch, limitsFrom: key.limitsFrom }, isLowered }];
  });
  const actor = actorOf(changing, account.id);
  const some = outdated.slice(0, atMost);
  const change = ({ id, patch }: (typeof some)[number]) => {
    const details = { limit: patch.hourlyLimit, limits: patch.otherLimits };
    const commit = operatorCommit(changing, "key.limited", { accountId: account.id, targetId: id, details });
    return changeKey({ ...changing, ...logOf(env, account.logWriter), actor, commit }, id, patch, always);
  };
  // A change of a busy key waits for its leases.
  for (const batch of inBatches(some, changesAtOnce)) await Promise.all(batch.map(change));
  const isDone = some.length === outdated.length;
  if (isDone && plan && account.planVersion < plan.version) await notePlanVersion(db, account, plan);
  return { lowered: some.filter(({ isLowered }) => isLowered).map(({ id }) => id), changed: some.length, isDone };
}

/** Hides log entries that are past the account's retention. If the log writer does not respond, a scheduled job hides them within an hour. */
async function hideOldEntries({ env, now }: ChangingAccount, { id, logWriter, retentionDays }: Account): Promise<void> {
  try {
    await writerAt(env, logWriter).deleteOld([{ accountId: id, days: retentionDays ?? activityDays(env) }], now);
  } catch (error) {
    console.error(`the log of ${id} still shows entries that are past their retention:`, messagesOf(error));
  }
}
