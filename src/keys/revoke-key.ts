import { eq } from "drizzle-orm";
import { type StoreReadContext, systemOn } from "../accounts/actor.ts";
import { accounts } from "../accounts/tables.ts";
import { isLiveSecret } from "../admission/admission.ts";
import { denialCache } from "../admission/denial-cache.ts";
import { askGuard } from "../admission/guards.ts";
import { isKeyId } from "../credentials/key-format.ts";
import { always, type Precondition, requireHolds } from "../db/optimistic-locking.ts";
import { Failure } from "../errors/failure.ts";
import { readActingKey } from "./acting-key.ts";
import { keyRevoked, keyUpdated } from "./events.ts";
import { requireScopesWithin } from "./grants.ts";
import { apiKeys } from "./tables.ts";
import { type KeyContext, writeKey } from "./write-key.ts";

const revocation = {
  members: { state: "revoked", previousSecretHash: null, overlapEndsAt: null },
  event: keyRevoked,
  evenWhereFull: true,
} as const;

/** Revokes a key, for good. A revoked key is left as it is. Throws as `changeKey` does. */
export async function revokeKey(writing: KeyContext, id: string, holds: Precondition): Promise<void> {
  try {
    await writeKey(writing, id, { holds, decide: async (before) => (before.state === "revoked" ? null : revocation) });
  } catch (error) {
    const isGone = error instanceof Failure && error.code === "not_found";
    if (!isGone || !(await revokeWithoutRow(writing, id, holds))) throw error;
  }
}

/**
 * Tells the guard of a key that it is revoked whose row D1 has lost (it was set back to before the key was made). Returns whether
 * there is such a guard and the key was the account's.
 */
async function revokeWithoutRow(writing: KeyContext, id: string, holds: Precondition): Promise<boolean> {
  const { db, actor, guards } = writing;
  if (!isKeyId(id)) return false;
  const [row] = await db.select({ id: apiKeys.id }).from(apiKeys).where(eq(apiKeys.id, id));
  if (row) return false;
  const inForce = await askGuard(guards, id, (guard) => guard.configuration());
  if (inForce?.accountId !== actor.accountId) return false;
  const own = await readActingKey(writing);
  if (own) requireScopesWithin(inForce.scopes, own);
  requireHolds(inForce, holds, "key");
  await revokeInGuard(writing, id);
  return true;
}

async function revokeInGuard({ guards }: Pick<KeyContext, "guards">, id: string): Promise<void> {
  await askGuard(guards, id, (guard) => guard.revoke());
  denialCache.forget(id, Date.now());
}

/**
 * Acts on a secret key that was found where it should not be: the current one revokes its key, one within its overlap
 * ends alone, any other does nothing.
 */
export async function revokeLeaked(
  writing: Omit<KeyContext, "actor" | "activity"> & StoreReadContext,
  keyId: string,
  secretHash: string,
): Promise<void> {
  const [row] = await writing.db
    .select({ accountId: accounts.id, store: accounts.activityStore })
    .from(apiKeys)
    .innerJoin(accounts, eq(accounts.id, apiKeys.accountId))
    .where(eq(apiKeys.id, keyId));
  if (!row) {
    // D1 may have been set back to before the key was made.
    const inForce = await askGuard(writing.guards, keyId, (guard) => guard.configuration());
    if (inForce?.secretHash === secretHash) await revokeInGuard(writing, keyId);
    else if (inForce?.previousSecretHash === secretHash) await askGuard(writing.guards, keyId, (guard) => guard.endOverlap());
    return;
  }
  await writeKey({ ...writing, actor: systemOn(row.accountId), activity: writing.activityIn(row.store) }, keyId, {
    holds: always,
    decide: async (before) => {
      if (before.state === "revoked" || !isLiveSecret(before, secretHash, writing.now)) return null;
      return before.secretHash === secretHash
        ? revocation
        : { members: { previousSecretHash: null, overlapEndsAt: null }, event: keyUpdated, evenWhereFull: true };
    },
  });
}
