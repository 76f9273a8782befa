import { and, exists, type SQL } from "drizzle-orm";
import { apiKeys } from "../db/areas/keys/tables.ts";
import { isEmpty } from "../db/differing.ts";
import { asRead, isUnchanged, nextVersion, type Precondition, retry, withOptimisticLock, wrote } from "../db/optimistic-locking.ts";
import type { Guards } from "../guard/guards.ts";
import { auditEntry } from "../outbox/audit.ts";
import type { Event } from "../outbox/event.ts";
import type { WhenFull, WriteContext } from "../outbox/outbox.ts";
import { readLastUse } from "../usage/last-uses.ts";
import type { LogReadContext } from "../usage/log-context.ts";
import { readActingKey } from "./acting-key.ts";
import { requireScopesWithin } from "./grants.ts";
import type { Key, KeyRow } from "./key.ts";
import { isUnpushed, pushKey } from "./push-key.ts";
import { readCreatorName, readKeyRow } from "./read-keys.ts";
import { reconcileKey } from "./reconcile-key.ts";

/** The context for functions that change a key. Such a function pushes the change to the key's guard before the function returns. */
export interface KeyContext extends WriteContext, LogReadContext {
  guards: Guards;
}

/**
 * A change of a key. `members`: the fields to set. `whenFull`: whether the change is allowed in a full account. `when`: an additional
 * condition in D1.
 */
export interface KeyUpdate {
  members: Partial<KeyRow>;
  event: (after: Key, now: number, before: Key) => Event;
  whenFull: WhenFull;
  when?: SQL;
}

interface KeyEdit {
  precondition: Precondition;
  /**
   * Returns the change of the key, or null if nothing needs to change. `own`: the row of the key that makes the change, or null if the actor is
   * not a key.
   */
  decide: (before: KeyRow, own: KeyRow | null) => Promise<KeyUpdate | null>;
  /** Returns the result that is passed to `commit`. By default, the result is the changed key. */
  result?: (after: Key) => unknown;
}

/**
 * Returns the name of the action for the audit log. If the change disables or enables a key, the name is `key.disabled` or `key.enabled`. For all
 * other changes, the name is the event type.
 */
function actionOf(eventType: string, before: KeyRow, after: KeyRow): string {
  if (eventType !== "key.updated" || before.state === after.state) return eventType;
  return after.state === "disabled" ? "key.disabled" : "key.enabled";
}

const memberNames: Record<string, string> = {
  name: "name",
  externalId: "external_id",
  metadata: "metadata",
  scopes: "scopes",
  hourlyLimit: "hourly_limit",
  otherLimits: "limits",
  limitsFrom: "limits_from",
  allowedIps: "allowed_ips",
  expiresAt: "expires_at",
  state: "status",
  secretHash: "secret",
  overlapEndsAt: "overlap_ends_at",
};

/** Returns the names of what a change sets. `limits_from` is named only if no limits are, because new limits of a key are always its own. */
function changesOf({ limitsFrom, ...members }: Partial<KeyRow>): string[] {
  const isAlone = limitsFrom !== undefined && members.hourlyLimit === undefined && members.otherLimits === undefined;
  return Object.keys(isAlone ? { ...members, limitsFrom } : members).flatMap((member) => memberNames[member] ?? []);
}

/**
 * Updates a key, and pushes the updated key to its guard. If another write changes the key or the acting key in the meantime, reads both keys
 * again and repeats the attempt. The acting key is the key that makes the change. Throws `not_found`, `precondition_failed` or `forbidden`. If
 * the change is saved but not yet active, throws `unavailable`. A receiver can get the event before the guard gets the change.
 */
export function writeKey(context: KeyContext, id: string, { precondition, decide, result = (after) => after }: KeyEdit): Promise<Key> {
  const { db, now, commit } = context;
  return withOptimisticLock({ read: () => readKeyRow(context, id), precondition, name: "key" }, async (before) => {
    if (await reconcileKey(context, before)) return retry;
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
    const event = change.event({ ...row, pushedVersion, ...lastUse }, now, { ...before, ...lastUse });
    const when = exists(db.select({ id: apiKeys.id }).from(apiKeys).where(condition));
    const { written } = await commit({
      whenFull: change.whenFull,
      result: result(after),
      events: [event],
      audit: [auditEntry(context, actionOf(event.type, before, after), { type: "key", id, name: after.name }, changesOf(change.members))],
      statements: { written: db.update(apiKeys).set(row).where(condition).returning({ id: apiKeys.id }) },
      when,
    });
    if (!wrote(written)) return retry;
    await pushKey(context, id);
    return after;
  });
}
