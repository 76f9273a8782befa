import { eq } from "drizzle-orm";
import { isLiveKey } from "../admission/live-keys.ts";
import type { Budgets } from "../budget/budgets.ts";
import { accountsUnpushed, confirmLimits, raiseLimitsVersion, readSharedLimits } from "../budget/shared-limits.ts";
import { accounts } from "../db/areas/accounts/tables.ts";
import { apiKeys } from "../db/areas/keys/tables.ts";
import { messagesOf } from "../db/failures.ts";
import { configColumns } from "../guard/read-config.ts";
import { errorsOf, Failure, throwTogether } from "../lib/errors/failure.ts";
import { secondMs } from "../lib/time/clock.ts";
import { withDeadline } from "../lib/time/deadline.ts";
import { forgetDecisions, LeasesOfChange } from "./leases-of-change.ts";
import { type Push, untilConfirmed } from "./push-key.ts";

const timeoutMs = 5 * secondMs;

export interface PushAccount extends Push {
  budgets: Budgets;
}

/**
 * Pushes the shared limits of an account to its budget, and then to the guards of all its live keys. The limits apply to every request that starts after this
 * function has returned. If the budget or a guard does not confirm the limits within 5 s, throws `unavailable`. After such an error, the limits stay stored,
 * and a scheduled job pushes them again.
 */
export async function pushAccount(push: PushAccount, accountId: string): Promise<void> {
  const told = { confirmed: new Set<string>(), leases: new LeasesOfChange() };
  try {
    await withDeadline(
      untilConfirmed(() => pushOnce(push, accountId, told), Date.now() + timeoutMs),
      timeoutMs,
      "The push of an account",
    );
  } catch (cause) {
    throw new Failure("unavailable", "The limits are saved and take effect once the account's budget and guards respond.", { cause });
  }
}

/** `confirmed`: the guards that have confirmed a revision of the limits, so that a retry calls only the others. `leases`: those of all guards. */
async function pushOnce(
  { db, guards, budgets }: PushAccount,
  accountId: string,
  { confirmed, leases }: { confirmed: Set<string>; leases: LeasesOfChange },
): Promise<void> {
  for (;;) {
    const stored = await readSharedLimits(db, accountId);
    if (!stored) return;
    const { config, isActive } = await budgets.getByName(accountId).configure(stored);
    if (config.revision !== stored.revision) {
      await raiseLimitsVersion(db, accountId, stored, config.version);
      continue;
    }
    if (!isActive) throw new Error("a guard still holds units of the earlier limits");
    const keys = await db
      .select({ id: apiKeys.id, ...configColumns })
      .from(apiKeys)
      .innerJoin(accounts, eq(accounts.id, apiKeys.accountId))
      .where(isLiveKey(accountId, Date.now()));
    const outcomes = await Promise.allSettled(
      keys
        .filter(({ id }) => !confirmed.has(`${stored.revision} ${id}`))
        .map(async ({ id, ...key }) => {
          forgetDecisions(id);
          const active = await guards.getByName(id).configure(key);
          leases.add(id, active.outdatedForMs);
          if (active.accountRevision === stored.revision) confirmed.add(`${stored.revision} ${id}`);
          return active;
        }),
    );
    throwTogether(errorsOf(outcomes), "some guards cannot be reached");
    const active = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
    const others = active.filter(({ accountRevision }) => accountRevision !== stored.revision);
    if (others.length > 0) {
      await raiseLimitsVersion(db, accountId, stored, Math.max(...others.map(({ accountVersion }) => accountVersion)));
      continue;
    }
    await leases.ended();
    await confirmLimits(db, accountId, stored);
    return;
  }
}

/** Pushes accounts whose limits are not confirmed yet. Returns the number of confirmed accounts, and the cursor of the next accounts. */
export async function pushWaitingAccounts(
  push: PushAccount,
  cursor: string,
  limit: number,
): Promise<{ done: number; last: string | null }> {
  const waiting = await accountsUnpushed(push.db, cursor, limit);
  let done = 0;
  for (const id of waiting) {
    try {
      await pushAccount(push, id);
      done++;
    } catch (error) {
      console.error("the limits of an account are not yet active:", messagesOf(error));
    }
  }
  return { done, last: waiting.length < limit ? null : (waiting.at(-1) ?? null) };
}
