import { type SQL, sql } from "drizzle-orm";
import type { Reading } from "../accounts/actor.ts";
import { dayMs } from "../clock.ts";
import { type BatchCondition, isFailedCondition } from "../db/batch-condition.ts";
import { Failure } from "../errors.ts";
import { idBound } from "../ids.ts";

/** Changes of a member's own sign-in in 24 hours that the audit log takes: entries stay 400 days, and every member may make them. */
export const mostOwnChanges = 200;

/** How many changes of their own sign-in the acting member has made in the last 24 hours, for D1; at most one more than the audit log takes. */
const ownChanges = ({ actor, now }: Pick<Reading, "actor" | "now">): SQL =>
  // Literals, not parameters: SQLite uses the partial index only for literals.
  sql`(SELECT count(*) FROM (SELECT 1 FROM audit WHERE account_id = ${actor.accountId} AND actor_id = ${actor.by.id} AND id >= ${idBound("aud", now - dayMs)}
    AND action IN ('passkey.added', 'passkey.removed', 'recovery_codes.made', 'session.started', 'session.ended') LIMIT ${mostOwnChanges + 1}))`;

/** The condition that the audit log takes one more change of the acting member's own sign-in. */
export const takesOwnChange = (reading: Pick<Reading, "actor" | "now">): SQL => sql`${ownChanges(reading)} < ${mostOwnChanges}`;

const tooManyChanges = "the member has not changed their sign-in too often";

/** The same, in a batch that has stored the entry of this change already. */
export const mayChangeSignIn = (reading: Pick<Reading, "actor" | "now">): BatchCondition => ({
  holds: sql`${ownChanges(reading)} <= ${mostOwnChanges}`,
  name: tooManyChanges,
});

/** What to throw for an error of a batch with `mayChangeSignIn`. */
export const orTooManyChanges = (error: unknown): unknown =>
  isFailedCondition(error, tooManyChanges)
    ? new Failure(
        "limit_reached",
        `Your passkeys, recovery codes and sessions changed ${mostOwnChanges} times in 24 hours. Try again tomorrow.`,
        {
          cause: error,
        },
      )
    : error;
