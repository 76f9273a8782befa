import type { Precondition } from "../db/optimistic-locking.ts";
import { Failure } from "../errors.ts";
import { hasRoom, requireBounds, requireRoom } from "./bounds.ts";
import { requireGrantable } from "./grants.ts";
import { isExpired, type Key, type KeyRow, statusOf } from "./key.ts";
import { keyUpdated } from "./key-events.ts";
import { type KeyContext, writeKey } from "./write-key.ts";

export type KeyPatch = Partial<Pick<KeyRow, "name" | "scopes" | "hourlyLimit" | "allowedIps" | "expiresAt">> & {
  state?: "active" | "disabled";
};

/**
 * Changes the members of a key that `patch` has. Throws `not_found`, `precondition_failed`, `conflict` for a revoked key,
 * `forbidden` for more than the acting key may grant, `limit_reached` where an expired key would be one live key too many,
 * `unavailable` where the change is stored but its guard cannot be reached.
 */
export async function changeKey(writing: KeyContext, id: string, patch: KeyPatch, holds: Precondition): Promise<Key> {
  const { now } = writing;
  await requireBounds(writing, patch);
  return writeKey(writing, id, {
    holds,
    decide: async (before, own) => {
      if (before.state === "revoked") throw new Failure("conflict", "A revoked key cannot be changed.");
      const after = { ...before, ...patch };
      const isRevived = statusOf(before, now) !== "active" && statusOf(after, now) === "active";
      if (own) requireGrantable(isRevived ? after : patch, own);
      if (!isExpired(before, now) || isExpired(after, now)) return { members: patch, event: keyUpdated };
      await requireRoom(writing);
      return { members: patch, when: hasRoom(writing), event: keyUpdated };
    },
  });
}
