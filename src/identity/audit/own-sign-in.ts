import { type SQL, sql } from "drizzle-orm";
import type { ReadContext } from "../../accounts/actor.ts";
import { type BatchCondition, isFailedCondition } from "../../db/batch-condition.ts";
import { idBound } from "../../lib/ids.ts";
import { dayMs } from "../../lib/time/clock.ts";

// Every member, including a viewer, may change their own passkeys, recovery codes and sessions. Each change adds an audit entry that is
// kept for 400 days. The audit log therefore limits how many entries a member can add in 24 hours. Each action has its own limit, so a
// member cannot hide one action by repeating another action.

/**
 * The maximum number of audit entries that one member can add for each action in 24 hours. A sign-in with a recovery code is always
 * recorded, because a member has only a few codes.
 */
export const maxOwn = { "passkey.added": 20, "recovery_codes.made": 20, "session.started": 200, "session.ended": 200 } as const;
type OwnAction = keyof typeof maxOwn;

type Acting = Pick<ReadContext, "actor" | "now">;

/** Returns the SQL that counts the acting member's entries for an action in the last 24 hours. The count stops at one entry above the maximum. */
const countOf = ({ actor, now }: Acting, action: OwnAction): SQL =>
  // The list contains literals, because SQLite cannot use a partial index if the values are parameters.
  sql`(SELECT count(*) FROM (SELECT 1 FROM audit WHERE account_id = ${actor.accountId} AND actor_id = ${actor.by.id} AND id >= ${idBound("aud", now - dayMs)}
    AND action IN ('passkey.added', 'passkey.removed', 'recovery_codes.made', 'session.started', 'session.ended') AND action = ${action}
    LIMIT ${maxOwn[action] + 1}))`;

/** Returns the SQL condition that the acting member has not reached the maximum number of audit entries for the action. */
export const takesOwn = (acting: Acting, action: OwnAction): SQL => sql`${countOf(acting, action)} < ${maxOwn[action]}`;

const nameOf = (action: OwnAction): string => `the log takes one more ${action}`;

/**
 * Returns a batch condition that fails if the acting member has too many audit entries for the action. The batch checks this condition
 * after it stores the new entry.
 */
export const mayStoreOwn = (acting: Acting, action: OwnAction): BatchCondition => ({
  holds: sql`${countOf(acting, action)} <= ${maxOwn[action]}`,
  name: nameOf(action),
});

/** Returns whether a batch failed because the member exceeded the maximum number of audit entries. */
export const isOneTooMany = (error: unknown, action: OwnAction): boolean => isFailedCondition(error, nameOf(action));
