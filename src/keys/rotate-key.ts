import type { ReadContext } from "../accounts/actor.ts";
import { askGuard, type Guards } from "../admission/guards.ts";
import { newSecretKey, type SigningSecret } from "../credentials/key-format.ts";
import { hashOf } from "../crypto/hash.ts";
import { always } from "../db/optimistic-locking.ts";
import { Failure } from "../errors/failure.ts";
import { readActingKey } from "./acting-key.ts";
import { keyRotated } from "./events.ts";
import { requireGrantable, requireScopesWithin } from "./grants.ts";
import type { Key, KeyRow } from "./key.ts";
import { isWaiting, pushKey } from "./push-key.ts";
import { readKeyRow } from "./read-keys.ts";
import { type KeyContext, writeKey } from "./write-key.ts";

/**
 * Gives a key a new secret, shown this once. The old one works for `overlapMs` more; an earlier overlap ends. Throws as
 * `changeKey` does, and counts as granting everything that the key has, since the caller gets its secret.
 */
export async function rotateKey(
  writing: KeyContext & { signing: SigningSecret },
  id: string,
  overlapMs: number,
): Promise<{ key: Key; secretKey: string }> {
  const secretKey = newSecretKey(id, writing.signing);
  await readKeyRow(writing, id);
  // A secret that is stored but not in force would be shown to nobody: nothing is stored unless the guard is there.
  await askGuard(writing.guards, id, (guard) => guard.rateLimit());
  const key = await writeKey(writing, id, {
    holds: always,
    decide: async (before, own) => {
      if (before.state === "revoked") throw new Failure("conflict", "A revoked key cannot be rotated.");
      requireRotatable(before, own);
      const overlap =
        overlapMs > 0
          ? { previousSecretHash: before.secretHash, overlapEndsAt: writing.now + overlapMs }
          : { previousSecretHash: null, overlapEndsAt: null };
      // Without an overlap, it ends the old secret.
      const evenWhereFull = overlapMs > 0 ? false : "within the reserve";
      const signers = { signedBy: writing.signing.name, previousSignedBy: before.signedBy };
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

/** Throws `forbidden` where the acting key may not rotate the key, and `not_found`. */
export async function authorizeRotation(reading: ReadContext, id: string): Promise<void> {
  requireRotatable(await readKeyRow(reading, id), await readActingKey(reading));
}

function requireRotatable(key: KeyRow, own: KeyRow | null): void {
  if (!own) return;
  requireScopesWithin(key.scopes, own);
  requireGrantable(key, own);
}

/** Pushes the key where a change of it is stored that its guard has not confirmed. Throws `not_found` and `unavailable`. */
export async function pushIfWaiting(pushing: ReadContext & { guards: Guards }, id: string): Promise<void> {
  if (isWaiting(await readKeyRow(pushing, id))) await pushKey(pushing, id);
}
