import { and, exists, type SQL } from "drizzle-orm";
import type { LogReadContext } from "../accounts/actor.ts";
import type { Guards } from "../admission/guards.ts";
import { auditEntry } from "../audit/audit.ts";
import type { Statement } from "../db/client.ts";
import { isEmpty } from "../db/differing.ts";
import { asRead, conflicted, isUnchanged, nextVersion, type Precondition, withOptimisticLock, wrote } from "../db/optimistic-locking.ts";
import type { Event } from "../events/event.ts";
import { readLastUse } from "../usage/last-uses.ts";
import type { EvenWhereFull, WriteContext } from "../webhooks/outbox.ts";
import { readActingKey } from "./acting-key.ts";
import { requireScopesWithin } from "./grants.ts";
import type { Key, KeyRow } from "./key.ts";
import { isUnpushed, pushKey } from "./push-key.ts";
import { readCreatorName, readKeyRow } from "./read-keys.ts";
import { reconcileKey } from "./reconcile-key.ts";
import { apiKeys } from "./tables.ts";

/** The context of functions that change a key. The guards are included, because a change must be in force when such a function returns. */
export interface KeyContext extends WriteContext, LogReadContext {
  guards: Guards;
}

/** A change of a key: the fields to set, the event, the behavior in a full account, and further conditions in D1. */
export interface KeyUpdate {
  members: Partial<KeyRow>;
  /** The key before the change, for the event and the audit log. This value is set only if another write has already made part of the change. */
  was?: KeyRow;
  event: (after: Key, now: number, before: Key) => Event;
  evenWhereFull: EvenWhereFull;
  when?: SQL;
  /** Returns a statement for the same batch, given the condition of the change. */
  alongside?: (when: SQL) => Statement;
}

interface KeyEdit {
  precondition: Precondition;
  /**
   * Returns the change to make to the key, or null if there is nothing to change. `own` is the row of the acting key, or null if the actor is not a
   * key.
   */
  decide: (before: KeyRow, own: KeyRow | null) => Promise<KeyUpdate | null>;
  /** Returns the result that is passed to `commit`. By default, the result is the changed key. */
  result?: (after: Key) => unknown;
}

/** Returns the action for the audit log. The action is the event type, except that disabling and enabling have actions of their own. */
function actionOf(eventType: string, before: KeyRow, after: KeyRow): string {
  if (eventType !== "key.updated" || before.state === after.state) return eventType;
  return after.state === "disabled" ? "key.disabled" : "key.enabled";
}

const memberNames: Record<string, string> = {
  name: "name",
  scopes: "scopes",
  hourlyLimit: "hourly_limit",
  allowedIps: "allowed_ips",
  expiresAt: "expires_at",
  state: "status",
  secretHash: "secret",
  overlapEndsAt: "overlap_ends_at",
};

const changesOf = (members: Partial<KeyRow>): string[] => Object.keys(members).flatMap((member) => memberNames[member] ?? []);

/**
 * Updates the key if neither the key nor the acting key changed since they were read. Pushes the updated key to its guard. Throws `not_found`,
 * `precondition_failed` or `forbidden`. Throws `unavailable` if the change is stored but not yet in force. The event can reach a receiver before the
 * guard has the change.
 */
export function writeKey(context: KeyContext, id: string, { precondition, decide, result = (after) => after }: KeyEdit): Promise<Key> {
  const { db, now, commit } = context;
  return withOptimisticLock({ read: () => readKeyRow(context, id), precondition, name: "key" }, async (before) => {
    if (await reconcileKey(context, before)) return conflicted;
    const own = await readActingKey(context);
    if (own) requireScopesWithin(before.scopes, own);
    const change = await decide(before, own);
    const lastUse = await readLastUse(context, id);
    const createdByName = await readCreatorName(context, before);
    if (change === null || isEmpty(change.members)) {
      if (isUnpushed(before)) await pushKey(context, id);
      return { ...before, ...lastUse, createdByName };
    }
    const { pushedVersion, ...row } = { ...before, ...change.members, version: before.version + 1, ...nextVersion(before, now) };
    const after = { ...row, pushedVersion, ...lastUse, createdByName };
    const condition = and(asRead(apiKeys, before), own ? isUnchanged(db, apiKeys, own) : undefined, change.when);
    const was = change.was ?? before;
    const event = change.event({ ...row, pushedVersion, ...lastUse }, now, { ...was, ...lastUse });
    const when = exists(db.select({ id: apiKeys.id }).from(apiKeys).where(condition));
    const outcomes = await commit({
      evenWhereFull: change.evenWhereFull,
      result: result(after),
      events: [event],
      audit: [auditEntry(context, actionOf(event.type, was, after), { type: "key", id, name: after.name }, changesOf(change.members))],
      statements: [
        ...(change.alongside ? [change.alongside(when)] : []),
        db.update(apiKeys).set(row).where(condition).returning({ id: apiKeys.id }),
      ],
      when,
    });
    if (!wrote(outcomes.at(-1))) return conflicted;
    await pushKey(context, id);
    return after;
  });
}
