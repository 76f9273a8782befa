import { and, eq, exists } from "drizzle-orm";
import type { Precondition, Writing } from "../accounts/actor.ts";
import { newRevision } from "../db/client.ts";
import { lost, untilWon, wrote } from "../db/race.ts";
import { accounts, apiKeys } from "../db/schema.ts";
import { Failure } from "../errors.ts";
import { requireCeiling, requireFuture } from "./create-key.ts";
import { requireGrantable, requireScopesWithin } from "./grants.ts";
import type { Key, KeyRow } from "./key.ts";
import { hashOf, newSecretKey, type SigningSecret } from "./key-format.ts";
import { type Guards, pushKey } from "./push-key.ts";
import { readKey, readKeyRow } from "./read-keys.ts";

/** A verb that changes a key takes its guard too: a change holds when the verb returns. */
export interface KeyWriting extends Writing {
  guards: Guards;
}

export type KeyPatch = Partial<Pick<KeyRow, "name" | "scopes" | "hourlyLimit" | "allowedIps" | "expiresAt">> & {
  state?: "active" | "disabled";
};

/**
 * Changes the members of a key that `patch` has. Throws `not_found`, `precondition_failed`, `conflict` for a revoked key,
 * `forbidden` for more than the acting key may grant, `unavailable` where the change is stored but its guard cannot be reached.
 */
export function changeKey(writing: KeyWriting, id: string, patch: KeyPatch, holds: Precondition): Promise<Key> {
  return write(writing, id, holds, async (before, own) => {
    if (before.state === "revoked") throw new Failure("conflict", "A revoked key cannot be changed.");
    requireFuture(patch.expiresAt, writing.now);
    if (patch.hourlyLimit !== undefined) {
      const [account] = await writing.db
        .select({ limitCeiling: accounts.limitCeiling })
        .from(accounts)
        .where(eq(accounts.id, before.accountId));
      requireCeiling(patch.hourlyLimit, account?.limitCeiling ?? 0);
    }
    if (own) {
      const isEnabled = before.state === "disabled" && patch.state === "active";
      requireGrantable(isEnabled ? { ...before, ...patch } : patch, own);
    }
    return patch;
  });
}

/** Revokes a key, for good. A revoked key is left as it is. Throws as `changeKey` does. */
export async function revokeKey(writing: KeyWriting, id: string, holds: Precondition): Promise<void> {
  await write(writing, id, holds, async (before) =>
    before.state === "revoked" ? null : { state: "revoked", previousSecretHash: null, overlapEndsAt: null },
  );
}

/**
 * Gives a key a new secret, shown this once. The old one works for `overlapMs` more; an earlier overlap ends. Throws as
 * `changeKey` does, and counts as granting everything that the key has, since the caller gets its secret.
 */
export async function rotateKey(
  writing: KeyWriting & { signing: SigningSecret },
  id: string,
  overlapMs: number,
): Promise<{ key: Key; secretKey: string }> {
  const secretKey = newSecretKey(id, writing.signing);
  const key = await write(
    writing,
    id,
    () => true,
    async (before, own) => {
      if (before.state === "revoked") throw new Failure("conflict", "A revoked key cannot be rotated.");
      if (own) requireGrantable(before, own);
      return {
        secretHash: hashOf(secretKey),
        last4: secretKey.slice(-4),
        previousSecretHash: overlapMs > 0 ? before.secretHash : null,
        overlapEndsAt: overlapMs > 0 ? writing.now + overlapMs : null,
      };
    },
    (changed) => ({ key: changed, secretKey }),
  );
  return { key, secretKey };
}

/**
 * Acts on a secret key that was found where it should not be: the current one revokes its key, one within its overlap
 * ends alone, any other does nothing.
 */
export async function revokeLeaked(writing: Omit<KeyWriting, "actor">, keyId: string, secretHash: string): Promise<void> {
  const [row] = await writing.db.select().from(apiKeys).where(eq(apiKeys.id, keyId));
  if (!row) return;
  const service = { ...writing, actor: { accountId: row.accountId, keyId: null } };
  await write(
    service,
    keyId,
    () => true,
    async (before) => {
      if (before.state === "revoked") return null;
      if (before.secretHash === secretHash) return { state: "revoked", previousSecretHash: null, overlapEndsAt: null };
      if (before.previousSecretHash === secretHash) return { previousSecretHash: null, overlapEndsAt: null };
      return null;
    },
  );
}

/**
 * Reads, lets `change` decide on the new members (null: leave it), writes where nobody else has written meanwhile, else
 * begins again, and pushes. `result` is what the commit is told that the change answers with.
 */
function write(
  writing: KeyWriting,
  id: string,
  holds: Precondition,
  change: (before: KeyRow, own: KeyRow | null) => Promise<Partial<KeyRow> | null>,
  result: (after: Key) => unknown = (after) => after,
): Promise<Key> {
  const { db, actor, now, commit } = writing;
  return untilWon(async () => {
    const before = await readKey(writing, id);
    if (!holds(before.revision)) throw new Failure("precondition_failed", "The key has changed since the version that If-Match names.");
    const own = actor.keyId === null ? null : await readKeyRow(writing, actor.keyId);
    if (own) requireScopesWithin(before.scopes, own);
    const members = await change(before, own);
    if (members === null || Object.keys(members).length === 0) {
      if (before.pushedVersion < before.version) await pushKey(writing, id);
      return before;
    }
    const after = { ...before, ...members, version: before.version + 1, revision: newRevision(), updatedAt: now };
    const { lastUsedAt, lastUsedPath, pushedVersion, ...row } = after;
    const isAsRead = and(eq(apiKeys.accountId, actor.accountId), eq(apiKeys.id, id), eq(apiKeys.revision, before.revision));
    const [written] = await commit({
      result: result(after),
      statements: [db.update(apiKeys).set(row).where(isAsRead).returning({ id: apiKeys.id })],
      when: exists(db.select({ id: apiKeys.id }).from(apiKeys).where(isAsRead)),
    });
    if (!wrote(written)) return lost;
    await pushKey(writing, id);
    return after;
  });
}
