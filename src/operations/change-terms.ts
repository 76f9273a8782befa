import { type Account, isAccountAsRead, readAccount, updateAccount } from "../accounts/account.ts";
import {
  accountsBehind,
  insertPlan,
  newPlanId,
  nextPlanBehind,
  notePlanVersion,
  type Plan,
  type Progress,
  planOf,
  progressOf,
  readPlan,
  removePlan,
  type Terms,
  termsOf,
  updatePlan,
} from "../accounts/plan.ts";
import { nextLimitsVersion } from "../accounts/shared-limits.ts";
import { activityDays } from "../activity/retention.ts";
import { logOf, type WriterEnv, writerAt } from "../activity/writers.ts";
import type { Budgets, Guards } from "../admission/guards.ts";
import { isLiveKey } from "../admission/live-keys.ts";
import { limitsWithin } from "../admission/window.ts";
import { auditEntry } from "../audit/audit.ts";
import { differing, isEmpty } from "../db/differing.ts";
import { isDanglingReference, isDuplicate, messagesOf } from "../db/failures.ts";
import { always, conflicted, retryOnConflict, wrote } from "../db/optimistic-locking.ts";
import { Failure, invalidMember } from "../errors/failure.ts";
import { omitUndefined } from "../inputs/omit-undefined.ts";
import { changeKey } from "../keys/change-key.ts";
import { pushAccount } from "../keys/push-account.ts";
import { pushKeysOf } from "../keys/push-key.ts";
import { raiseVersions } from "../keys/raise-versions.ts";
import { apiKeys } from "../keys/tables.ts";
import { orExternalIdTaken, type TeamValues, targetOf } from "./change-account.ts";
import { actorOf, type Operating, operatorCommit } from "./operating.ts";
import { storeOperation } from "./operator-audit.ts";

// The terms of an account come from its plan, and from the account's own terms, which the operator sets. The row of the account holds the terms that apply, so
// nothing else reads plans. A change of a plan is therefore written to its accounts one after another.

/** The context of a change of terms. */
export interface ChangingTerms extends Operating {
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

/** One call lowers at most this many keys. Each of these keys needs about 15 D1 statements. */
const maxLowered = 50;
/** A change of a plan lowers fewer keys in one call, because the call also handles several accounts. */
const maxLoweredOfPlan = 20;

/**
 * Changes an account in one write. `patchOf` returns the change of the account as it was read, and may throw if the account must not be changed. The new
 * values and limits apply to every request that starts after the promise has resolved. Keys whose limits exceed the highest limits are lowered. Returns the
 * ids of these keys. Throws `not_found`, `invalid_body` if there is no such plan, `conflict` if another account has the external id, and `unavailable` if the
 * change is stored but not yet in force.
 */
export async function changeAccount(
  changing: ChangingTerms,
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
    return isWritten ? { patch, plan } : conflicted;
  });
  await pushKeysOf(changing, accountId);
  if (isEmpty(termsIn(patch))) return [];
  const { lowered } = await putInForce(changing, await readAccount(db, accountId), plan, maxLowered);
  return lowered;
}

function ownTermsAfter({ ownTerms }: Account, patch: AccountPatch): Account["ownTerms"] {
  const { planId, ...given } = termsIn(patch);
  const own = { ...ownTerms, ...given };
  const isOwn = ([, value]: [string, unknown]) => value !== null && value !== undefined && !(Array.isArray(value) && value.length === 0);
  return Object.fromEntries(Object.entries(own).filter(isOwn)) as Account["ownTerms"];
}

/** Writes the terms of an account, and the values that the team sets. Returns false if another change came between. */
async function writeAccount(
  changing: ChangingTerms,
  before: Account,
  { plan, ownTerms, values = {} }: { plan: Plan | null; ownTerms: Account["ownTerms"]; values?: Partial<TeamValues> },
): Promise<boolean> {
  const { db, now } = changing;
  const planId = plan?.id ?? null;
  const terms = differing({ ...termsOf(plan, ownTerms), planId }, before);
  const { name, email, externalId, metadata, onUnavailable, maxLiveKeys } = values;
  const changed = differing(omitUndefined({ name, email, externalId, metadata, onUnavailable, maxLiveKeys }), before);
  if (isEmpty({ ...terms, ...changed, ...differing({ ownTerms }, before) })) return true;
  const next = terms.sharedLimits ? nextLimitsVersion(before) : {};
  const members = { ...changed, ...terms, ownTerms, ...next, ...(planId !== before.planId && { planVersion: 0 }) };
  const changes = Object.keys(changed).map((member) => wordOf[member as keyof typeof wordOf]);
  const ofTerms = Object.fromEntries(Object.entries(terms).map(([member, value]) => [wordOf[member as keyof typeof wordOf], value]));
  // The entry says what the terms are now. It does not contain the values of the team, because they can be personal data.
  const details = { ...ofTerms, ...(changes.length > 0 && { changes }) };
  const when = isAccountAsRead(before);
  const commit = operatorCommit(changing, "account.changed", { accountId: before.id, details });
  const outcomes = await commit({
    evenWhereFull: true,
    result: null,
    events: [],
    audit: [
      auditEntry({ actor: actorOf(changing, before.id), now }, "account.changed", targetOf(before), [...changes, ...Object.keys(ofTerms)]),
    ],
    statements: [
      // The guards of the keys know the values of the team.
      ...(isEmpty(changed) ? [] : [raiseVersions(db, before.id, now, when)]),
      updateAccount(db, before.id, members, when),
    ],
    when,
  });
  return wrote(outcomes.at(-1));
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
 * Puts the stored terms of an account in force: pushes its limits, hides log entries that are past their retention, and lowers at most `atMost` keys. When all
 * of this is done, notes the version of the plan. Returns the ids of the lowered keys. `isDone` is false if more keys must be lowered.
 */
async function putInForce(
  changing: ChangingTerms,
  account: Account,
  plan: Plan | null,
  atMost: number,
): Promise<{ lowered: string[]; isDone: boolean }> {
  const { db, env, now } = changing;
  if (account.pushedLimitsVersion < account.limitsVersion) await pushAccount(changing, account.id);
  await hideOldEntries(changing, account);
  const { limitCeiling, keyLimits } = account;
  const keys = await db.select().from(apiKeys).where(isLiveKey(account.id, now));
  // The limits of expired keys are not lowered. An expired key cannot get a new expiry while its limits are too high.
  const above = keys.flatMap(({ id, ...key }) => {
    const within = { hourlyLimit: Math.min(key.hourlyLimit, limitCeiling), otherLimits: limitsWithin(key.otherLimits, keyLimits) };
    const patch = differing(within, key);
    return isEmpty(patch) ? [] : [{ id, patch }];
  });
  const actor = actorOf(changing, account.id);
  const some = above.slice(0, atMost);
  for (const { id, patch } of some) {
    const details = { limit: patch.hourlyLimit, limits: patch.otherLimits };
    const commit = operatorCommit(changing, "key.limited", { accountId: account.id, targetId: id, details });
    await changeKey({ ...changing, ...logOf(env, account.logWriter), actor, commit }, id, patch, always);
  }
  const isDone = some.length === above.length;
  if (isDone && plan && account.planVersion < plan.version) await notePlanVersion(db, account, plan);
  return { lowered: some.map(({ id }) => id), isDone };
}

/** Hides log entries that are past the account's retention. If the log writer does not respond, a scheduled job hides them within an hour. */
async function hideOldEntries({ env, now }: ChangingTerms, { id, logWriter, retentionDays }: Account): Promise<void> {
  try {
    await writerAt(env, logWriter).deleteOld([{ accountId: id, days: retentionDays ?? activityDays(env) }], now);
  } catch (error) {
    console.error(`the log of ${id} still shows entries that are past their retention:`, messagesOf(error));
  }
}

export type PlanContent = Pick<Plan, "name" | "accountLimits" | "keyLimits" | "defaultScopes" | "retentionDays">;

/** Creates a plan. Throws `conflict` if another plan has the name. */
export async function makePlan({ db, now, operator }: Operating, content: PlanContent): Promise<Plan> {
  const plan: Plan = { id: newPlanId(now), ...content, version: 1, changedBy: operator, createdAt: now, updatedAt: now };
  await orNameTaken(
    db.batch([insertPlan(db, plan), storeOperation(db, { now, operator, action: "plan.made", targetId: plan.id, details: content })]),
  );
  return plan;
}

/** Changes a plan. The accounts of the plan get the new terms when `applyPlan` is called. Throws `not_found` and `conflict`. */
export async function changePlan({ db, now, operator }: Operating, id: string, given: Partial<PlanContent>): Promise<Plan> {
  return retryOnConflict(async () => {
    const before = await readPlan(db, id);
    const patch = differing(given, before);
    if (isEmpty(patch)) return before;
    const written = await orNameTaken(updatePlan(db, before, { ...patch, changedBy: operator, updatedAt: now }));
    const [plan] = written;
    if (!plan) return conflicted;
    await storeOperation(db, { now, operator, action: "plan.changed", targetId: id, details: patch });
    return plan;
  });
}

/** Deletes a plan. Throws `not_found`, and `conflict` if an account has the plan. */
export async function deletePlan({ db, now, operator }: Operating, id: string): Promise<void> {
  const plan = await readPlan(db, id);
  const used = () => new Failure("conflict", "An account has this plan. Give its accounts another plan first.");
  if ((await progressOf(db, plan)).accounts > 0) throw used();
  try {
    await db.batch([
      removePlan(db, id),
      storeOperation(db, { now, operator, action: "plan.deleted", targetId: id, details: { name: plan.name } }),
    ]);
  } catch (error) {
    // An account can get the plan between the two statements.
    if (isDanglingReference(error)) throw used();
    throw error;
  }
}

async function orNameTaken<Result>(work: Promise<Result> | PromiseLike<Result>): Promise<Result> {
  try {
    return await work;
  } catch (error) {
    if (isDuplicate(error, "plans.name")) throw new Failure("conflict", "Another plan has this name.");
    throw error;
  }
}

/** How far a change of a plan is. `next`: the cursor of the accounts that are left, or null. */
export interface Applied extends Progress {
  next: string | null;
}

const accountsAtOnce = 5;

/**
 * Goes on with changes of plans, from a scheduled job. `cursor`: the plan and the account after which to go on. One call handles few accounts, because each
 * account can have 50 guards to push.
 */
export async function applyPlans(
  changing: Omit<ChangingTerms, "operator">,
  cursor: string,
  { endsAt, maxKeys, maxAccounts }: { endsAt: number; maxKeys: number; maxAccounts: number },
): Promise<{ done: number; next: string | null }> {
  const [planId = "", after = ""] = cursor.split("/");
  const plan = await nextPlanBehind(changing.db, planId);
  if (!plan) return { done: 0, next: null };
  const from = plan.id === planId ? after : "";
  const applied = await applyPlan({ ...changing, operator: plan.changedBy }, plan.id, { after: from, endsAt, maxKeys, maxAccounts });
  // "!" is the first character after the id of a plan, so the next run skips this plan.
  return { done: 1, next: applied.next === null ? `${plan.id}!` : `${plan.id}/${applied.next}` };
}

/**
 * Gives the accounts of a plan its latest terms, one account after another, until `endsAt` or until `maxKeys` keys were lowered. The terms apply to an account
 * from the moment that its row says so. An account whose budget or guards cannot be reached is left for a later call.
 */
export async function applyPlan(
  changing: ChangingTerms,
  id: string,
  {
    after,
    endsAt,
    maxKeys = maxLoweredOfPlan,
    maxAccounts = accountsAtOnce,
  }: { after: string; endsAt: number; maxKeys?: number; maxAccounts?: number },
): Promise<Applied> {
  const { db } = changing;
  const plan = await readPlan(db, id);
  const behind = await accountsBehind(db, plan, after, maxAccounts);
  let [cursor, left] = [after, maxKeys];
  for (const before of behind) {
    if (Date.now() > endsAt || left <= 0) return { ...(await progressOf(db, plan)), next: cursor };
    try {
      if (!(await writeAccount(changing, before, { plan, ownTerms: before.ownTerms }))) throw new Error("another change came between");
      const { lowered, isDone } = await putInForce(changing, await readAccount(db, before.id), plan, left);
      left -= lowered.length;
      if (!isDone) return { ...(await progressOf(db, plan)), next: cursor };
    } catch (error) {
      console.error(`${before.id} does not have the latest terms of its plan yet:`, messagesOf(error));
    }
    cursor = before.id;
  }
  return { ...(await progressOf(db, plan)), next: behind.length < maxAccounts ? null : cursor };
}
