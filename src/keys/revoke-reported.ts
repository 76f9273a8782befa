import { eq } from "drizzle-orm";
import { systemOn } from "../accounts/actor.ts";
import { accounts } from "../db/areas/accounts/tables.ts";
import { apiKeys } from "../db/areas/keys/tables.ts";
import { always } from "../db/optimistic-locking.ts";
import { isLiveSecret } from "../guard/decision.ts";
import { callGuard, type Guards } from "../guard/guards.ts";
import { secondMs } from "../lib/time/clock.ts";
import { withDeadline } from "../lib/time/deadline.ts";
import type { WriteContext } from "../outbox/outbox.ts";
import type { LogsReadContext } from "../usage/log-context.ts";
import { keyUpdated } from "./events.ts";
import { readKeyRow } from "./read-keys.ts";
import { reconcileKey } from "./reconcile-key.ts";
import { revokeKeys } from "./revoke-key.ts";
import { revokeLostLeaked } from "./revoke-lost-key.ts";
import { writeKey } from "./write-key.ts";

const timeoutMs = 10 * secondMs;
const maxCached = 10_000;

/**
 * The hashes of the leaked secrets that this isolate has already handled. A handled secret never becomes valid again, so it needs no
 * further lookup.
 */
const handled = new Set<string>();

type ReportContext = Omit<WriteContext, "actor"> & LogsReadContext & { guards: Guards };

/**
 * Revokes a verified key that was reported as leaked. Each isolate handles the same secret only once. Throws if the revocation is not stored or does not take
 * effect. The reporter must then send the report again.
 */
export async function revokeReported(context: ReportContext, { keyId, secretHash }: { keyId: string; secretHash: string }): Promise<void> {
  if (handled.has(secretHash)) return;
  await withDeadline(revokeLeaked(context, keyId, secretHash), timeoutMs, "Revoking a leaked key");
  if (handled.size >= maxCached) handled.delete(handled.values().next().value as string);
  handled.add(secretHash);
}

/**
 * Handles a leaked secret. If the current secret of the key has leaked, revokes the key. If the previous secret of the key has leaked, ends
 * the overlap. If a temporary secret has leaked, ends that one. Does nothing for any other secret.
 */
async function revokeLeaked(context: ReportContext, keyId: string, secretHash: string): Promise<void> {
  const { db, guards } = context;
  const [found] = await db
    .select({ key: apiKeys, logWriter: accounts.logWriter })
    .from(apiKeys)
    .innerJoin(accounts, eq(accounts.id, apiKeys.accountId))
    .where(eq(apiKeys.id, keyId));
  if (!found) return revokeLostLeaked(guards, keyId, secretHash);
  const ofAccount = { ...context, actor: systemOn(found.key.accountId), ...context.logOf(found.logWriter) };
  // If D1 was restored to an earlier state, only the guard has the newer secret.
  await reconcileKey(ofAccount, found.key);
  let isCurrent = false;
  await revokeKeys(ofAccount, async () => {
    const key = await readKeyRow(ofAccount, keyId);
    isCurrent = key.secretHash === secretHash;
    return isCurrent ? [key] : [];
  });
  if (isCurrent) return;
  await writeKey(ofAccount, keyId, {
    precondition: always,
    decide: async (before) =>
      before.state === "revoked" || !isLiveSecret(before, secretHash, context.now)
        ? null
        : { members: { previousSecretHash: null, overlapEndsAt: null }, event: keyUpdated, whenFull: "write" },
  });
  await callGuard(guards, keyId, (guard) => guard.endTemporarySecrets(secretHash));
}
