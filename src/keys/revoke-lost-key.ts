import { eq } from "drizzle-orm";
import { isKeyId } from "../credentials/key-format.ts";
import { apiKeys } from "../db/areas/keys/tables.ts";
import { type Precondition, requirePrecondition } from "../db/optimistic-locking.ts";
import { callGuard, type Guards } from "../guard/guards.ts";
import { Failure } from "../lib/errors/failure.ts";
import { readActingKey } from "./acting-key.ts";
import { requireScopesWithin } from "./grants.ts";
import { LeasesOfChange } from "./leases-of-change.ts";
import type { KeyContext } from "./write-key.ts";

// If D1 was restored to a state from before a key was created, the row of the key is missing, but its guard still admits the key.

/** Revokes a key without a row in D1 in its guard. Returns no rows. Throws `not_found` if D1 has the row, or if the account has no such key. */
export async function revokeLostKey(context: KeyContext, id: string, precondition: Precondition): Promise<[]> {
  const { db, actor, guards } = context;
  const isLost = isKeyId(id) && (await db.select({ id: apiKeys.id }).from(apiKeys).where(eq(apiKeys.id, id))).length === 0;
  const active = isLost ? await callGuard(guards, id, (guard) => guard.configuration()) : null;
  if (active?.accountId !== actor.accountId) throw new Failure("not_found", "There is no such key.");
  const own = await readActingKey(context);
  if (own) requireScopesWithin(active.scopes, own);
  requirePrecondition(active, precondition, "key");
  await revokeInGuard(guards, id);
  return [];
}

/** Handles a leaked secret of a key without a row in D1, as `revokeLeaked` does. */
export async function revokeLostLeaked(guards: Guards, id: string, secretHash: string): Promise<void> {
  const active = await callGuard(guards, id, (guard) => guard.configuration());
  if (active?.secretHash === secretHash) return revokeInGuard(guards, id);
  await callGuard(guards, id, (guard) => guard.endTemporarySecrets(secretHash));
  await untilLeasesEnd(
    id,
    callGuard(guards, id, (guard) => guard.endOverlap(secretHash)),
  );
}

/** Revokes a key in its guard. Returns when the last lease of before has ended. */
export const revokeInGuard = (guards: Guards, id: string): Promise<void> =>
  untilLeasesEnd(
    id,
    callGuard(guards, id, (guard) => guard.revoke()),
  );

async function untilLeasesEnd(id: string, outdatedForMs: Promise<number>): Promise<void> {
  const leases = new LeasesOfChange();
  leases.add(id, await outdatedForMs);
  await leases.ended();
}
