import type { ReadContext } from "../accounts/actor.ts";
import { newSecretKey, type SigningSecret, shownPrefixOf } from "../credentials/key-format.ts";
import { always } from "../db/optimistic-locking.ts";
import { callGuard, type Guards } from "../guard/guards.ts";
import { hashOf } from "../lib/crypto/hash.ts";
import { Failure } from "../lib/errors/failure.ts";
import { readActingKey } from "./acting-key.ts";
import { keyRotated } from "./events.ts";
import { requireGrantable, requireScopesWithin } from "./grants.ts";
import type { Key, KeyRow } from "./key.ts";
import { isUnpushed, pushKey } from "./push-key.ts";
import { readKeyRow } from "./read-keys.ts";
import { type KeyContext, writeKey } from "./write-key.ts";

/**
 * Gives a key a new secret. Returns the new secret. No later request can read this secret. The old secret stays valid for another
 * `overlapMs` milliseconds. If an earlier overlap is still running, that overlap ends immediately. The caller receives the secret of the
 * key, so the acting key must be allowed to grant all permissions of the key. Throws `conflict` if the key is revoked. Also throws the same
 * errors as `writeKey`.
 */
export async function rotateKey(
  context: KeyContext & { signing: () => SigningSecret },
  id: string,
  overlapMs: number,
): Promise<{ key: Key; secretKey: string }> {
  const signing = context.signing();
  const secretKey = newSecretKey(id, signing);
  await readKeyRow(context, id);
  // If the change were stored but not pushed, the caller would never see the new secret. This call therefore checks that the guard can be
  // reached. The change is stored only after this check.
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
      // A rotation without an overlap makes the old secret invalid immediately. In a full account, such a rotation may use the storage
      // reserve. The reserve is only for changes that delete or end something.
      const whenFull = overlapMs > 0 ? "deny" : "reserve";
      const signers = { signedBy: signing.name, previousSignedBy: before.signedBy };
      return {
        members: {
          secretHash: hashOf(secretKey),
          last4: secretKey.slice(-4),
          shownPrefix: shownPrefixOf(secretKey),
          ...overlap,
          ...signers,
        },
        event: keyRotated,
        whenFull,
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

/**
 * If the guard has not confirmed a stored change of the key, pushes the key. Throws `not_found` if the key does not exist. Throws
 * `unavailable` if the guard does not confirm the change.
 */
export async function pushIfWaiting(pushing: ReadContext & { guards: Guards }, id: string): Promise<void> {
  if (isUnpushed(await readKeyRow(pushing, id))) await pushKey(pushing, id);
}
