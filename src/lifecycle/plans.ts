import { readAccount } from "../accounts/account.ts";
import {
  accountsBehind,
  insertPlan,
  isPlanAsRead,
  newPlanId,
  nextPlanBehind,
  type Plan,
  type Progress,
  progressOf,
  readPlan,
  removePlan,
  updatePlan,
} from "../budget/plan.ts";
import { differing, isEmpty } from "../db/differing.ts";
import { isDanglingReference, isDuplicate, messagesOf } from "../db/failures.ts";
import { always, type Precondition, requirePrecondition, retry, retryOnConflict, wrote } from "../db/optimistic-locking.ts";
import { requireServed } from "../keys/scopes.ts";
import { Failure } from "../lib/errors/failure.ts";
import { applyTerms, type ChangingAccount, writeAccount } from "./change-account.ts";
import { commitOperation, type OperatorContext } from "./operator-context.ts";

// What operators do with plans. A change of a plan is written to its accounts one after another.

export type PlanContent = Pick<Plan, "name" | "accountLimits" | "keyLimits" | "defaultScopes" | "retentionDays">;

/** Creates a plan. Throws `conflict` if another plan has the name. */
export async function makePlan(operatorContext: OperatorContext, content: PlanContent): Promise<Plan> {
  const { db, now, operator } = operatorContext;
  const plan: Plan = { id: newPlanId(now), ...content, version: 1, changedBy: operator, createdAt: now, updatedAt: now };
  const change = { result: plan, statements: { made: insertPlan(db, plan) } };
  await orNameTaken(commitOperation(operatorContext, "plan.made", { targetId: plan.id, details: content }, change));
  return plan;
}

/**
 * Changes a plan. The accounts of the plan get the new terms when `applyPlan` is called. Throws `not_found`, `conflict`, and `precondition_failed` if the
 * caller's precondition does not hold.
 */
export async function changePlan(
  operatorContext: OperatorContext,
  id: string,
  given: Partial<PlanContent>,
  precondition: Precondition = always,
): Promise<Plan> {
  const { db, now, operator } = operatorContext;
  return retryOnConflict(async () => {
    const before = await readPlan(db, id);
    requirePlan(before, precondition);
    if (given.defaultScopes) requireServed(given.defaultScopes, before.defaultScopes ?? [], "/default_scopes");
    const patch = differing(given, before);
    if (isEmpty(patch)) return before;
    const statements = { written: updatePlan(db, before, { ...patch, changedBy: operator, updatedAt: now }) };
    const change = { statements, when: isPlanAsRead(db, before) };
    const { written } = await orNameTaken(commitOperation(operatorContext, "plan.changed", { targetId: id, details: patch }, change));
    return wrote(written) ? readPlan(db, id) : retry;
  });
}

const requirePlan = ({ version }: Plan, precondition: Precondition) =>
  requirePrecondition({ revision: String(version) }, precondition, "plan");

/** Deletes a plan. Throws `not_found`, `precondition_failed`, and `conflict` if an account has the plan. */
export async function deletePlan(operatorContext: OperatorContext, id: string, precondition: Precondition = always): Promise<void> {
  const { db } = operatorContext;
  const used = () => new Failure("conflict", "An account has this plan. Give its accounts another plan first.");
  return retryOnConflict(async () => {
    const plan = await readPlan(db, id);
    requirePlan(plan, precondition);
    if ((await progressOf(db, plan)).accounts > 0) throw used();
    try {
      const change = { statements: { removed: removePlan(db, plan) }, when: isPlanAsRead(db, plan) };
      const { removed } = await commitOperation(operatorContext, "plan.deleted", { targetId: id, details: { name: plan.name } }, change);
      return wrote(removed) ? undefined : retry;
    } catch (error) {
      // An account can get the plan between the two statements.
      if (isDanglingReference(error)) throw used();
      throw error;
    }
  });
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
/** A change of a plan changes fewer keys in one call than a change of one account, because the call also handles several accounts. */
const maxChangedOfPlan = 20;

/**
 * Goes on with changes of plans, from a scheduled job. `cursor`: the plan and the account after which to go on. One call handles few accounts, because each
 * account can have 50 guards to push.
 */
export async function applyPlans(
  changing: Omit<ChangingAccount, "operator">,
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
 * Applies the latest terms of a plan to its accounts, one after another, until `endsAt` or until the limits of `maxKeys` keys have changed. The terms apply
 * to an account from the moment that its row says so. An account whose budget or guards cannot be reached is left for a later call.
 */
export async function applyPlan(
  changing: ChangingAccount,
  id: string,
  {
    after,
    endsAt,
    maxKeys = maxChangedOfPlan,
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
      const account = await retryOnConflict(async () => {
        const latest = await readAccount(db, before.id);
        if (latest.planId !== plan.id) return null;
        return (await writeAccount(changing, latest, { plan, ownTerms: latest.ownTerms })) ? readAccount(db, before.id) : retry;
      });
      const { changed, isDone } = account ? await applyTerms(changing, account, plan, left) : { changed: 0, isDone: true };
      left -= changed;
      if (!isDone) return { ...(await progressOf(db, plan)), next: cursor };
    } catch (error) {
      console.error(`${before.id} does not have the latest terms of its plan yet:`, messagesOf(error));
    }
    cursor = before.id;
  }
  return { ...(await progressOf(db, plan)), next: behind.length < maxAccounts ? null : cursor };
}
