import { and, asc, eq, gt, lt } from "drizzle-orm";
import type { Account } from "../accounts/account.ts";
import { accounts } from "../db/areas/accounts/tables.ts";
import { type Db, newRevision, type Statement } from "../db/client.ts";

// The limits that all keys of an account share have a version and a revision of their own, as each key has. The budget and the guards ignore limits with the
// same version or an earlier one.

/** The limits of an account as D1 stores them. */
export interface StoredLimits {
  version: number;
  revision: string;
  limits: Account["sharedLimits"];
}

/** Returns the limits that the keys of an account share, or null if there is no such account. */
export async function readSharedLimits(db: Db, accountId: string): Promise<StoredLimits | null> {
  const { limitsVersion: version, limitsRevision: revision, sharedLimits: limits } = accounts;
  const [stored] = await db.select({ version, revision, limits }).from(accounts).where(eq(accounts.id, accountId));
  return stored ?? null;
}

/** Returns the members that a change of the shared limits writes in addition. */
export const nextLimitsVersion = ({ limitsVersion }: Pick<Account, "limitsVersion">) => ({
  limitsVersion: limitsVersion + 1,
  limitsRevision: newRevision(),
});

/** Returns a statement that notes that the budget and all guards have confirmed the limits. */
export const confirmLimits = (db: Db, accountId: string, { version, revision, limits }: StoredLimits): Statement =>
  db
    .update(accounts)
    .set({ pushedLimitsVersion: version, limitsInForce: limits })
    .where(and(eq(accounts.id, accountId), lt(accounts.pushedLimitsVersion, version), eq(accounts.limitsRevision, revision)));

/**
 * Returns a statement that gives stored limits a version above `active`, because the budget or a guard has limits that the row does not have. If the row has
 * changed since it was read, the statement does nothing: a later push was faster. If it has not changed, D1 was set back to an earlier state.
 */
export const raiseLimitsVersion = (db: Db, accountId: string, { version, revision }: StoredLimits, active: number): Statement =>
  db
    .update(accounts)
    .set({ limitsVersion: Math.max(version, active) + 1, limitsRevision: newRevision() })
    .where(and(eq(accounts.id, accountId), eq(accounts.limitsRevision, revision)));

/** Returns the ids of accounts whose limits are not confirmed yet. The list is sorted and starts after `after`. */
export async function accountsUnpushed(db: Db, after: string, limit: number): Promise<string[]> {
  const isUnpushed = lt(accounts.pushedLimitsVersion, accounts.limitsVersion);
  const rows = await db
    .select({ id: accounts.id })
    .from(accounts)
    .where(and(isUnpushed, gt(accounts.id, after)))
    .orderBy(asc(accounts.id))
    .limit(limit);
  return rows.map(({ id }) => id);
}
