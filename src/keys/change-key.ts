import { and, eq, exists, type SQL } from "drizzle-orm";
import type { Precondition, Reading, Writing } from "../accounts/actor.ts";
import { newRevision } from "../db/client.ts";
import { laterThan, lost, untilWon, wrote } from "../db/race.ts";
import { apiKeys } from "../db/schema.ts";
import { Failure } from "../errors.ts";
import { hashOf } from "../hash.ts";
import { readLastUse } from "../usage/last-uses.ts";
import type { Event } from "../webhooks/event.ts";
import { isLiveSecret } from "./admission.ts";
import { hasRoom, requireBounds, requireRoom } from "./bounds.ts";
import { requireGrantable, requireScopesWithin } from "./grants.ts";
import { askGuard, type Guards } from "./guards.ts";
import { isExpired, type Key, type KeyRow, statusOf } from "./key.ts";
import { keyRevoked, keyRotated, keyUpdated } from "./key-events.ts";
import { newSecretKey, type SigningSecret } from "./key-format.ts";
import { isWaiting, pushKey } from "./push-key.ts";
import { readKeyRow } from "./read-keys.ts";

/** A verb that changes a key takes its guard too: a change holds when the verb returns. */
export interface KeyWriting extends Writing {
  guards: Guards;
}

export type KeyPatch = Partial<Pick<KeyRow, "name" | "scopes" | "hourlyLimit" | "allowedIps" | "expiresAt">> & {
  state?: "active" | "disabled";
};

/**
 * Changes the members of a key that `patch` has. Throws `not_found`, `precondition_failed`, `conflict` for a revoked key,
 * `forbidden` for more than the acting key may grant, `limit_reached` where an expired key would be one live key too many,
 * `unavailable` where the change is stored but its guard cannot be reached.
 */
export async function changeKey(writing: KeyWriting, id: string, patch: KeyPatch, holds: Precondition): Promise<Key> {
  const { now } = writing;
  await requireBounds(writing, patch);
  return write(writing, id, holds, async (before, own) => {
    if (before.state === "revoked") throw new Failure("conflict", "A revoked key cannot be changed.");
    const after = { ...before, ...patch };
    const isRevived = statusOf(before, now) !== "active" && statusOf(after, now) === "active";
    if (own) requireGrantable(isRevived ? after : patch, own);
    if (!isExpired(before, now) || isExpired(after, now)) return { members: patch, event: keyUpdated };
    await requireRoom(writing);
    return { members: patch, when: hasRoom(writing), event: keyUpdated };
  });
}

const revocation = { members: { state: "revoked", previousSecretHash: null, overlapEndsAt: null }, event: keyRevoked } as const;

/** Revokes a key, for good. A revoked key is left as it is. Throws as `changeKey` does. */
export async function revokeKey(writing: KeyWriting, id: string, holds: Precondition): Promise<void> {
  await write(writing, id, holds, async (before) => (before.state === "revoked" ? null : revocation));
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
  await readKeyRow(writing, id);
  // A secret that is stored but not in force would be shown to nobody: nothing is stored unless the guard is there.
  await askGuard(writing.guards, id, (guard) => guard.rateLimit());
  const key = await write(
    writing,
    id,
    () => true,
    async (before, own) => {
      if (before.state === "revoked") throw new Failure("conflict", "A revoked key cannot be rotated.");
      if (own) requireGrantable(before, own);
      const overlap =
        overlapMs > 0
          ? { previousSecretHash: before.secretHash, overlapEndsAt: writing.now + overlapMs }
          : { previousSecretHash: null, overlapEndsAt: null };
      return { members: { secretHash: hashOf(secretKey), last4: secretKey.slice(-4), ...overlap }, event: keyRotated };
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
      if (before.state === "revoked" || !isLiveSecret(before, secretHash, writing.now)) return null;
      return before.secretHash === secretHash
        ? revocation
        : { members: { previousSecretHash: null, overlapEndsAt: null }, event: keyUpdated };
    },
  );
}

/** Pushes the key where a change of it is stored that its guard has not confirmed. Throws `not_found` and `unavailable`. */
export async function pushIfWaiting(pushing: Reading & { guards: Guards }, id: string): Promise<void> {
  if (isWaiting(await readKeyRow(pushing, id))) await pushKey(pushing, id);
}

/** The members that a change sets, the event that it makes, and what besides must hold in D1 for it to be made. */
interface Decision {
  members: Partial<KeyRow>;
  event: (key: Key, now: number) => Event;
  when?: SQL;
}

/**
 * Reads, lets `decide` say what to set (null: leave it), writes where nobody else has written meanwhile, else begins again,
 * and pushes. `result` is what the commit is told that the change answers with.
 */
function write(
  writing: KeyWriting,
  id: string,
  holds: Precondition,
  decide: (before: KeyRow, own: KeyRow | null) => Promise<Decision | null>,
  result: (after: Key) => unknown = (after) => after,
): Promise<Key> {
  const { db, actor, now, commit } = writing;
  return untilWon(async () => {
    const before = await readKeyRow(writing, id);
    if (!holds(before.revision)) throw new Failure("precondition_failed", "The key has changed since the version that If-Match names.");
    const own = actor.keyId === null ? null : await readKeyRow(writing, actor.keyId);
    if (own) requireScopesWithin(before.scopes, own);
    const decision = await decide(before, own);
    const lastUse = await readLastUse(writing, id);
    if (decision === null || Object.keys(decision.members).length === 0) {
      if (isWaiting(before)) await pushKey(writing, id);
      return { ...before, ...lastUse };
    }
    const { pushedVersion, ...row } = {
      ...before,
      ...decision.members,
      version: before.version + 1,
      revision: newRevision(),
      updatedAt: laterThan(before, now),
    };
    const after = { ...row, pushedVersion, ...lastUse };
    const isAsRead = and(eq(apiKeys.accountId, actor.accountId), eq(apiKeys.id, id), eq(apiKeys.revision, before.revision), decision.when);
    const [written] = await commit({
      result: result(after),
      events: [decision.event(after, now)],
      statements: [db.update(apiKeys).set(row).where(isAsRead).returning({ id: apiKeys.id })],
      when: exists(db.select({ id: apiKeys.id }).from(apiKeys).where(isAsRead)),
    });
    if (!wrote(written)) return lost;
    await pushKey(writing, id);
    return after;
  });
}
