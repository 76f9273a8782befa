import { eq } from "drizzle-orm";
import { systemOn } from "../accounts/actor.ts";
import { denialCache } from "../admission/denial-cache.ts";
import { isKeyId } from "../credentials/key-format.ts";
import { accounts } from "../db/areas/accounts/tables.ts";
import { apiKeys } from "../db/areas/keys/tables.ts";
import { always, type Precondition, requirePrecondition } from "../db/optimistic-locking.ts";
import { isLiveSecret } from "../guard/decision.ts";
import { callGuard } from "../guard/guards.ts";
import { Failure } from "../lib/errors/failure.ts";
import type { LogAccess, LogsReadContext } from "../usage/log-context.ts";
import { readActingKey } from "./acting-key.ts";
import { keyRevoked, keyUpdated } from "./events.ts";
import { requireScopesWithin } from "./grants.ts";
import { type KeyContext, writeKey } from "./write-key.ts";

const revocation = {
  members: { state: "revoked", previousSecretHash: null, overlapEndsAt: null },
  event: keyRevoked,
  evenWhereFull: true,
} as const;

/** Revokes a key permanently. If the key is already revoked, writes nothing. Throws the same errors as `writeKey`. */
export async function revokeKey(context: KeyContext, id: string, precondition: Precondition): Promise<void> {
  try {
    await writeKey(context, id, { precondition, decide: async (before) => (before.state === "revoked" ? null : revocation) });
  } catch (error) {
    const isGone = error instanceof Failure && error.code === "not_found";
    if (!isGone || !(await revokeWithoutRow(context, id, precondition))) throw error;
  }
}

/**
 * If D1 has no row for a key, revokes the key in its guard. The row is missing if D1 was restored to a state from before the key was
 * created. Returns false if the row exists, or if the guard has no such key of this account.
 */
async function revokeWithoutRow(context: KeyContext, id: string, precondition: Precondition): Promise<boolean> {
  const { db, actor, guards } = context;
  if (!isKeyId(id)) return false;
  const [row] = await db.select({ id: apiKeys.id }).from(apiKeys).where(eq(apiKeys.id, id));
  if (row) return false;
  const inForce = await callGuard(guards, id, (guard) => guard.configuration());
  if (inForce?.accountId !== actor.accountId) return false;
  const own = await readActingKey(context);
  if (own) requireScopesWithin(inForce.scopes, own);
  requirePrecondition(inForce, precondition, "key");
  await revokeInGuard(context, id);
  return true;
}

async function revokeInGuard({ guards }: Pick<KeyContext, "guards">, id: string): Promise<void> {
  await callGuard(guards, id, (guard) => guard.revoke());
  denialCache.forget(id, Date.now());
}

/**
 * Handles a leaked secret. If the current secret of the key has leaked, revokes the key. If the previous secret of the key has leaked, ends
 * the overlap. Does nothing for any other secret.
 */
export async function revokeLeaked(
  context: Omit<KeyContext, "actor" | keyof LogAccess> & LogsReadContext,
  keyId: string,
  secretHash: string,
): Promise<void> {
  const [row] = await context.db
    .select({ accountId: accounts.id, logWriter: accounts.logWriter })
    .from(apiKeys)
    .innerJoin(accounts, eq(accounts.id, apiKeys.accountId))
    .where(eq(apiKeys.id, keyId));
  if (!row) {
    // D1 may have been restored to a state from before the key was created.
    const inForce = await callGuard(context.guards, keyId, (guard) => guard.configuration());
    if (inForce?.secretHash === secretHash) await revokeInGuard(context, keyId);
    else if (inForce?.previousSecretHash === secretHash) await callGuard(context.guards, keyId, (guard) => guard.endOverlap());
    return;
  }
  await writeKey({ ...context, actor: systemOn(row.accountId), ...context.logOf(row.logWriter) }, keyId, {
    precondition: always,
    decide: async (before) => {
      if (before.state === "revoked" || !isLiveSecret(before, secretHash, context.now)) return null;
      return before.secretHash === secretHash
        ? revocation
        : { members: { previousSecretHash: null, overlapEndsAt: null }, event: keyUpdated, evenWhereFull: true };
    },
  });
}
