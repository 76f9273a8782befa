import type { ReadContext } from "../accounts/actor.ts";
import { callGuard, type Guards } from "../admission/guards.ts";
import { newSecretKey, type SigningSecret } from "../credentials/key-format.ts";
import { hashOf } from "../crypto/hash.ts";
import { always } from "../db/optimistic-locking.ts";
import { Failure } from "../errors/failure.ts";
import { readActingKey } from "./acting-key.ts";
import { keyRotated } from "./events.ts";
import { requireGrantable, requireScopesWithin } from "./grants.ts";
import type { Key, KeyRow } from "./key.ts";
import { isUnpushed, pushKey } from "./push-key.ts";
import { readKeyRow } from "./read-keys.ts";
import { type KeyContext, writeKey } from "./write-key.ts";

/**
 * Gives a key a new secret. Returns the secret, because no later request can read it. The old secret works for another `overlapMs` milliseconds. Any
 * earlier overlap ends immediately. The acting key must be allowed to grant all permissions of the key, because the caller receives the key's secret.
 * Throws `conflict` for a revoked key, and the same errors as `writeKey`.
 */
export async function rotateKey(
  context: KeyContext & { signing: SigningSecret },
  id: string,
  overlapMs: number,
): Promise<{ key: Key; secretKey: string }> {
  const secretKey = newSecretKey(id, context.signing);
  await readKeyRow(context, id);
  // If the change were stored but not pushed, the caller would never see the new secret. Before anything is stored, this call checks that the guard
  // can be reached.
  await callGuard(context.guards, id, (guard) => guard.rateLimit());
  const key = await writeKey(context, id, {
    precondition: always,
    decide: async (before, own) => {
      if (before.state === "revoked") throw new Failure("conflict", "A revoked key cannot be rotated.");
      requireRotatable(before, own);
      const overlap =
        overlapMs > 0
          ? { previousSecretHash: before.secretHash, overlapEndsAt: context.now + overlapMs }
          : { previousSecretHash: null, overlapEndsAt: null };
      // A rotation without an overlap ends the old secret. In a full account, such a rotation may use the storage that is reserved for deleting or
      // ending something.
      const evenWhereFull = overlapMs > 0 ? false : "within the reserve";
      const signers = { signedBy: context.signing.name, previousSignedBy: before.signedBy };
      return {
        members: { secretHash: hashOf(secretKey), last4: secretKey.slice(-4), ...overlap, ...signers },
        event: keyRotated,
        evenWhereFull,
      };
    },
    result: (changed) => ({ key: changed, secretKey }),
  });
  return { key, secretKey };
}

/** Throws `not_found` if the key does not exist. Throws `forbidden` if the acting key may not rotate the key. */
export async function authorizeRotation(context: ReadContext, id: string): Promise<void> {
  requireRotatable(await readKeyRow(context, id), await readActingKey(context));
}

function requireRotatable(key: KeyRow, own: KeyRow | null): void {
  if (!own) return;
  requireScopesWithin(key.scopes, own);
  requireGrantable(key, own);
}

/** Pushes the key if its guard has not confirmed a stored change. Throws `not_found` or `unavailable`. */
export async function pushIfWaiting(pushing: ReadContext & { guards: Guards }, id: string): Promise<void> {
  if (isUnpushed(await readKeyRow(pushing, id))) await pushKey(pushing, id);
}
