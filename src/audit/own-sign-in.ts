import { type SQL, sql } from "drizzle-orm";
import type { ReadContext } from "../accounts/actor.ts";
import { type BatchCondition, isFailedCondition } from "../db/batch-condition.ts";
import { idBound } from "../ids/ids.ts";
import { dayMs } from "../time/clock.ts";

// Every member, a viewer too, may change their own sign-in, and each change leaves an entry in the audit log for 400 days. So the log takes only so
// many in 24 hours. Each kind is counted by itself: nobody hides one by many of another.

/** Entries of a kind that the audit log takes of a member in 24 hours. A sign-in by recovery code is always recorded: there are only so many codes. */
export const maxOwn = { "passkey.added": 20, "recovery_codes.made": 20, "session.started": 200, "session.ended": 200 } as const;
type OwnAction = keyof typeof maxOwn;

type Acting = Pick<ReadContext, "actor" | "now">;

/** How many entries of a kind there are of the acting member in the last 24 hours; at most one more than the log takes. */
const countOf = ({ actor, now }: Acting, action: OwnAction): SQL =>
  // Literals, not parameters, in the list: SQLite uses the partial index only for literals.
  sql`(SELECT count(*) FROM (SELECT 1 FROM audit WHERE account_id = ${actor.accountId} AND actor_id = ${actor.by.id} AND id >= ${idBound("aud", now - dayMs)}
    AND action IN ('passkey.added', 'passkey.removed', 'recovery_codes.made', 'session.started', 'session.ended') AND action = ${action}
    LIMIT ${maxOwn[action] + 1}))`;

/** The condition that the audit log takes one more of the acting member. */
export const takesOwn = (acting: Acting, action: OwnAction): SQL => sql`${countOf(acting, action)} < ${maxOwn[action]}`;

const nameOf = (action: OwnAction): string => `the log takes one more ${action}`;

/** The same, for a batch that has stored the entry already. */
export const mayStoreOwn = (acting: Acting, action: OwnAction): BatchCondition => ({
  holds: sql`${countOf(acting, action)} <= ${maxOwn[action]}`,
  name: nameOf(action),
});

/** Whether a batch failed because the log takes no more. */
export const isOneTooMany = (error: unknown, action: OwnAction): boolean => isFailedCondition(error, nameOf(action));
