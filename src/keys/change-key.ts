import { sql } from "drizzle-orm";
import { limitsWithin } from "../budget/limits.ts";
import { differing, isEmpty } from "../db/differing.ts";
import type { Precondition } from "../db/optimistic-locking.ts";
import { Failure, invalidMember } from "../lib/errors/failure.ts";
import { hasKeyTerms, hasRoomForKey, type KeyTerms, readKeyTerms, requireBounds, requireRoom } from "./bounds.ts";
import { keyUpdated } from "./events.ts";
import { requireGrantable, widens } from "./grants.ts";
import { isExpired, type Key, type KeyRow, statusOf } from "./key.ts";
import { patched } from "./metadata.ts";
import { requireServed } from "./scopes.ts";
import { whenFullOf } from "./tightening.ts";
import { type KeyContext, writeKey } from "./write-key.ts";

export type KeyPatch = Partial<
  Pick<KeyRow, "name" | "externalId" | "scopes" | "hourlyLimit" | "otherLimits" | "limitsFrom" | "allowedIps" | "expiresAt">
> & {
  state?: "active" | "disabled";
  /**
   * The time at which the key's previous secret stops working, in milliseconds since the epoch. If the value is null or a past time, the previous
   * secret stops working immediately.
   */
  overlapEndsAt?: number | null;
  /** A merge patch of the metadata. Null removes all values. */
  metadataPatch?: Record<string, unknown> | null | undefined;
};

/**
 * Changes the given fields of a key. If no value changes, writes nothing. If the guard has not confirmed an earlier change, pushes that
 * change. Throws `invalid_body` if the limit, the expiry or the end of the overlap is out of bounds. Throws `not_found` if the key does not
 * exist, and `precondition_failed` if `precondition` is not met. Throws `conflict` if the key is revoked. Throws `forbidden` if the acting
 * key may not grant the change. Throws `limit_reached` if the change revives an expired key and the account has no room for another live
 * key. If the change is stored but the key's guard cannot be reached, throws `unavailable`.
 */
export async function changeKey(
  context: KeyContext,
  id: string,
  { overlapEndsAt, metadataPatch, ...given }: KeyPatch,
  precondition: Precondition,
): Promise<Key> {
  const { now } = context;
  await requireBounds(context, given);
  return writeKey(context, id, {
    precondition,
    decide: async (before, own) => {
      if (before.state === "revoked") throw new Failure("conflict", "A revoked key cannot be changed.");
      if (given.scopes) requireServed(given.scopes, before.scopes, "/scopes");
      if (own && given.limitsFrom === "plan" && own.limitsFrom === "key")
        throw new Failure("forbidden", "This key has limits of its own, so it may not give a key those of the plan.");
      const isLimited = given.hourlyLimit !== undefined || given.otherLimits !== undefined;
      const terms = isLimited || given.limitsFrom === "plan" ? await readKeyTerms(context.db, context.actor.accountId) : null;
      if (terms) await requireBounds(context, given);
      const limits = terms && limitsAfter(before, given, terms);
      const metadata = patched(before.metadata, metadataPatch);
      const patch = differing({ ...given, ...limits, ...(metadata && { metadata }), ...overlapUntil(before, overlapEndsAt, now) }, before);
      if (isEmpty(patch)) return null;
      const after = { ...before, ...patch };
      const isRevived = statusOf(before, now) !== "active" && statusOf(after, now) === "active";
      // If a key gains permissions or becomes active again, the same rule applies as for a new key. The acting key must be allowed to grant
      // all permissions of the changed key.
      if (own) requireGrantable(isRevived || widens(before, after) ? after : patch, own);
      // The operator may lower the highest limits between this check and the write, so the write checks them again.
      const isWithin = terms ? hasKeyTerms(context.actor.accountId, terms) : sql`true`;
      const update = { members: patch, event: keyUpdated, whenFull: whenFullOf(before, after, context.actor), when: isWithin };
      if (before.expiresAt === null || after.expiresAt === before.expiresAt) return update;
      if (!isExpired(before, now) || isExpired(after, now)) return update;
      await requireBounds(context, { hourlyLimit: after.hourlyLimit, otherLimits: after.otherLimits });
      await requireRoom(context);
      return { ...update, when: sql`${isWithin} AND ${hasRoomForKey(context)}` };
    },
  });
}

/** Returns the limits that a change sets. Limits that differ from those of the key become its own, unless the change names the plan. */
function limitsAfter(before: KeyRow, given: KeyPatch, { ceiling, highest }: KeyTerms): Partial<KeyRow> {
  if (given.limitsFrom === "plan") return { hourlyLimit: ceiling, otherLimits: highest };
  const { hourlyLimit = before.hourlyLimit } = given;
  const limits = { hourlyLimit, otherLimits: given.otherLimits ? limitsWithin(given.otherLimits, highest) : before.otherLimits };
  return { ...limits, limitsFrom: given.limitsFrom ?? (isEmpty(differing(limits, before)) ? before.limitsFrom : "key") };
}

/**
 * Returns the field changes that make the key's previous secret stop working at `endsAt`. If `endsAt` is in the future and would start or
 * extend an overlap, throws `invalid_body`.
 */
function overlapUntil(before: KeyRow, endsAt: number | null | undefined, now: number): Partial<KeyRow> {
  if (endsAt === undefined) return {};
  const ended = { previousSecretHash: null, overlapEndsAt: null };
  const isOver = before.overlapEndsAt === null || before.overlapEndsAt <= now;
  if (endsAt === null || endsAt <= now) return isOver ? {} : ended;
  if (before.overlapEndsAt === null || endsAt > before.overlapEndsAt)
    throw invalidMember("/overlap_ends_at", "Must not be later than the current end of the overlap.", "too_big");
  return { overlapEndsAt: endsAt };
}
