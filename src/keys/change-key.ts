import { type SQL, sql } from "drizzle-orm";
import { holdsNow } from "../db/batch-condition.ts";
import { differing, isEmpty } from "../db/differing.ts";
import type { Precondition } from "../db/optimistic-locking.ts";
import { Failure, invalidMember } from "../errors/failure.ts";
import { hasRoom, requireBounds, requireRoom } from "./bounds.ts";
import { keyUpdated } from "./events.ts";
import { requireGrantable, widens } from "./grants.ts";
import { isExpired, type Key, type KeyRow, statusOf } from "./key.ts";
import { expiredBeforeRemoval } from "./keys-known-to.ts";
import { evenWhereFullOf } from "./tightening.ts";
import { type KeyContext, writeKey } from "./write-key.ts";

export type KeyPatch = Partial<Pick<KeyRow, "name" | "scopes" | "hourlyLimit" | "allowedIps" | "expiresAt">> & {
  state?: "active" | "disabled";
  /** Ends an overlap of secrets then; null, or a time that has passed, at once. */
  overlapEndsAt?: number | null;
};

/**
 * Changes the members of a key that `patch` has. Writes nothing, and pushes nothing that is confirmed, if none differs. Throws `not_found`,
 * `precondition_failed`, `conflict` for a revoked key, `forbidden` for more than the acting key may grant, `limit_reached` where an expired
 * key would be one live key too many. Throws `conflict` where a member who may know its secret was removed since, and `unavailable` where the
 * change is stored but its guard cannot be reached.
 */
export async function changeKey(writing: KeyContext, id: string, { overlapEndsAt, ...given }: KeyPatch, holds: Precondition): Promise<Key> {
  const { now } = writing;
  await requireBounds(writing, given);
  return writeKey(writing, id, {
    holds,
    decide: async (before, own) => {
      if (before.state === "revoked") throw new Failure("conflict", "A revoked key cannot be changed.");
      const patch = differing({ ...given, ...overlapUntil(before, overlapEndsAt, now) }, before);
      if (isEmpty(patch)) return null;
      const after = { ...before, ...patch };
      const isRevived = statusOf(before, now) !== "active" && statusOf(after, now) === "active";
      // A key that may do more than before, or works again, is treated as a new one: all of it must be within the acting key.
      if (own) requireGrantable(isRevived || widens(before, after) ? after : patch, own);
      const update = { members: patch, event: keyUpdated, evenWhereFull: evenWhereFullOf(before, after, writing.actor) };
      if (before.expiresAt === null || after.expiresAt === before.expiresAt) return update;
      // A removal in this moment may find the key expired already.
      const isDead = expiredBeforeRemoval(before, before.expiresAt);
      await requireAlive(writing, isDead);
      if (!isExpired(before, now) || isExpired(after, now)) return { ...update, when: sql`NOT ${isDead}` };
      await requireBounds(writing, { hourlyLimit: after.hourlyLimit });
      await requireRoom(writing);
      return { ...update, when: sql`${hasRoom(writing)} AND NOT ${isDead}` };
    },
  });
}

/** Throws `conflict` where a key had expired before a member was removed who may have its secret: the page did not ask whether the key may live on. */
async function requireAlive({ db }: KeyContext, isDead: SQL): Promise<void> {
  if (await holdsNow(db, isDead))
    throw new Failure("conflict", "After this key had expired, a member was removed who may know its secret. Make a new key.");
}

/** What ending the overlap at a time changes. Throws `invalid_body` where it would go on for longer, or there is none. */
function overlapUntil(before: KeyRow, endsAt: number | null | undefined, now: number): Partial<KeyRow> {
  if (endsAt === undefined) return {};
  const ended = { previousSecretHash: null, overlapEndsAt: null };
  const isOver = before.overlapEndsAt === null || before.overlapEndsAt <= now;
  if (endsAt === null || endsAt <= now) return isOver ? {} : ended;
  if (before.overlapEndsAt === null || endsAt > before.overlapEndsAt)
    throw invalidMember("/overlap_ends_at", "Must not be later than the overlap ends already.", "too_big");
  return { overlapEndsAt: endsAt };
}
