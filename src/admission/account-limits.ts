import { readAccount } from "../accounts/account.ts";
import type { ReadContext } from "../accounts/actor.ts";
import type { Budgets } from "../budget/budgets.ts";
import { endOf, type FixedPeriod, type SharedUsage, startOf } from "../budget/limits.ts";
import { planOf } from "../budget/plan.ts";
import { apiKeys } from "../db/areas/keys/tables.ts";
import { isOneOf } from "../db/is-one-of.ts";
import { Failure } from "../lib/errors/failure.ts";
import { secondMs } from "../lib/time/clock.ts";
import { withDeadline } from "../lib/time/deadline.ts";
import { leases } from "./lease-holder.ts";

const timeoutMs = 5 * secondMs;

/** The plan of an account, what is used of its shared limits, and by which keys. The key that used the most is first. */
export interface AccountLimits {
  plan: { id: string; name: string } | null;
  limits: SharedUsage[];
  byKey: { keyId: string; keyName: string | null; used: Partial<Record<FixedPeriod, number>> }[];
}

/**
 * Reads the limits of an account from its budget. The figures are at most five seconds old. Units that are out with other holders of leases do not count as used.
 * Units that a guard has lost in a crash count as used by no key. Throws `unavailable` if the budget does not respond.
 */
export async function readAccountLimits({ db, actor, now, budgets }: ReadContext & { budgets: Budgets }): Promise<AccountLimits> {
  const account = await readAccount(db, actor.accountId);
  const plan = await planOf(db, account);
  const named = plan && { id: plan.id, name: plan.name };
  // An account that never had shared limits has no budget.
  if (account.limitsVersion === 0) return { plan: named, limits: [], byKey: [] };
  const returns = leases.takeReturnsOf(account.id);
  const read = await withDeadline(budgets.getByName(account.id).usage(returns), timeoutMs, "Asking a budget").catch((cause: unknown) => {
    for (const [keyId, left] of Object.entries(returns)) leases.keepReturns(keyId, left);
    throw new Failure("unavailable", "The service cannot reach the budget of the account right now. Try again in a moment.", { cause });
  });
  const usage = read?.usage ?? [];
  const limits = usage.map(({ per, limit, used, startsAt }) => {
    const start = startsAt === 0 ? startOf[per](now) : startsAt;
    return { per, limit, used, resetsAt: endOf({ per, startsAt: start }) };
  });
  const ids = [...new Set(usage.flatMap(({ byKey }) => [...byKey.keys()]))];
  const names = await readNames(db, ids);
  const byKey = ids.map((keyId) => ({
    keyId,
    keyName: names.get(keyId) ?? null,
    used: Object.fromEntries(usage.map(({ per, byKey: units }) => [per, units.get(keyId) ?? 0])) as Partial<Record<FixedPeriod, number>>,
  }));
  const most = ({ used }: (typeof byKey)[number]) => Math.max(...Object.values(used));
  return { plan: named, limits, byKey: byKey.toSorted((a, b) => most(b) - most(a)) };
}

async function readNames(db: ReadContext["db"], ids: readonly string[]): Promise<Map<string, string>> {
  const rows = await db.select({ id: apiKeys.id, name: apiKeys.name }).from(apiKeys).where(isOneOf(apiKeys.id, ids));
  return new Map(rows.map(({ id, name }) => [id, name]));
}
