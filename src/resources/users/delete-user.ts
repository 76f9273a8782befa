import { and, asc, lt, type SQL, sql } from "drizzle-orm";
import { type ReadContext, systemOn } from "../../accounts/actor.ts";
import { holdsNow } from "../../db/batch-condition.ts";
import { isDanglingReference } from "../../db/failures.ts";
import { asRead, conflicted, isUnchanged, nextVersion, type Precondition, withOptimisticLock, wrote } from "../../db/optimistic-locking.ts";
import { Failure, throwTogether } from "../../errors/failure.ts";
import { minuteMs } from "../../time/clock.ts";
import { commitTo, type Outbox, type WriteContext } from "../../webhooks/outbox.ts";
import { maxAtOnce, unassignSome } from "../tasks/unassign-tasks.ts";
import { userDeleted } from "./events.ts";
import { manifest } from "./manifest.ts";
import { readUser } from "./read-users.ts";
import { users } from "./tables.ts";
import type { User } from "./user.ts";

// A user may have any number of tasks. D1 runs nothing else during a batch, and an invocation may send D1 at most 1,000 statements. A deletion
// therefore starts by marking the user, who becomes invisible. The deletion then unassigns the tasks of the user in pieces. The row of the user is
// deleted last. A scheduled job finishes deletions that were interrupted or were too large for one request.

const { inDeletion: maxInDeletion } = manifest.limits;
/** The age in milliseconds at which the scheduled job continues an unfinished deletion. */
const abandonedMs = minuteMs;
/** The maximum number of pieces in one request. A piece runs at most 8 statements. */
const maxPiecesPerRequest = 20;

/**
 * Deletes a user and unassigns the user's tasks. The scheduled job finishes a deletion of more than 20 pieces. Twenty pieces hold 10,000 tasks, or
 * 2,500 tasks if the account has 20 webhooks. Throws `not_found`, `precondition_failed` and `limit_reached`.
 */
export async function deleteUser(context: WriteContext, id: string, precondition: Precondition): Promise<void> {
  const { db, now, commit } = context;
  const marked = await withOptimisticLock({ read: () => readUser(context, id), precondition, name: "user" }, async (before) => {
    await requireFew(context);
    const { deletionRequestedAt, revision } = { deletionRequestedAt: now, ...nextVersion(before, now) };
    const [written] = await commit({
      evenWhereFull: true,
      result: null,
      events: [],
      statements: [
        db
          .update(users)
          .set({ deletionRequestedAt, revision })
          .where(and(asRead(users, before), areFew(context)))
          .returning({ id: users.id }),
      ],
      when: isUnchanged(db, users, before),
    });
    return wrote(written) ? { ...before, deletionRequestedAt, revision } : conflicted;
  });
  await finishDeletion(context, marked, maxPiecesPerRequest);
}

/** Returns an SQL condition that is true if fewer than `maxInDeletion` users of the account are being deleted. */
const areFew = ({ actor }: ReadContext): SQL =>
  sql`(SELECT count(*) FROM users WHERE account_id = ${actor.accountId} AND deletion_requested_at IS NOT NULL) < ${maxInDeletion}`;

async function requireFew(context: ReadContext): Promise<void> {
  if (!(await holdsNow(context.db, areFew(context))))
    throw new Failure("limit_reached", `${maxInDeletion} users of this account are still being deleted. Wait a minute, then try again.`);
}

/**
 * Continues unfinished deletions, at most `limit` pieces in total. Returns the number of pieces that ran. Accounts take turns, one piece at a time.
 * The oldest deletion of an account finishes first. A failed deletion does not stop the others. Throws the errors of failed deletions together at the
 * end.
 */
export async function finishDeletions(outbox: Outbox, now: number, limit: number): Promise<number> {
  const { db } = outbox;
  const marked = await db
    .select()
    .from(users)
    .where(lt(users.deletionRequestedAt, now - abandonedMs))
    .orderBy(sql`row_number() OVER (PARTITION BY ${users.accountId} ORDER BY ${users.deletionRequestedAt})`, asc(users.deletionRequestedAt))
    .limit(limit);
  const deletions = marked.map((user) => ({ user, atOnce: maxAtOnce }));
  const turns = [...Map.groupBy(deletions, ({ user }) => user.accountId).values()];
  const errors: unknown[] = [];
  let pieces = 0;
  for (; pieces < limit; pieces++) {
    const [deletion, ...others] = turns.shift() ?? [];
    if (!deletion) break;
    const { user } = deletion;
    const context = { db, now, actor: systemOn(user.accountId), commit: commitTo(outbox) };
    const next = await doPiece(context, user, deletion.atOnce).catch((error: unknown) => {
      errors.push(error);
      return null;
    });
    const left = next === null ? others : [{ user, atOnce: next }, ...others];
    if (left.length > 0) turns.push(left);
  }
  throwTogether(errors, "some deletions of users could not be finished");
  return pieces;
}

/** Runs at most `atMost` pieces of a deletion. The deletion may be unfinished afterwards. */
async function finishDeletion(context: WriteContext, user: User, atMost: number): Promise<void> {
  let atOnce: number | null = maxAtOnce;
  for (let pieces = 0; pieces < atMost && atOnce !== null; pieces++) atOnce = await doPiece(context, user, atOnce);
}

/** Runs the next piece of a deletion. Returns how many tasks the following piece may take, or null if the user is deleted. */
async function doPiece(context: WriteContext, user: User, atOnce: number): Promise<number | null> {
  const startedAt = Date.now();
  const outcome = await unassignSome(context, user.id, atOnce);
  if (outcome === "none left" && (await deleteRow(context, user))) return null;
  // Waits longer than the piece took, so that D1 spends most of its time on other requests.
  await new Promise((resolve) => setTimeout(resolve, Math.max(1, 1.5 * (Date.now() - startedAt))));
  // If another write changed one of the tasks, the next piece takes half as many tasks.
  return outcome === "changed meanwhile" ? Math.max(1, Math.floor(atOnce / 2)) : maxAtOnce;
}

/** Deletes the row of a user. Returns false if another request has assigned a task to the user. */
async function deleteRow({ db, now, commit }: WriteContext, user: User): Promise<boolean> {
  try {
    await commit({
      evenWhereFull: true,
      result: null,
      events: [userDeleted(user, now)],
      statements: [db.delete(users).where(asRead(users, user))],
      when: isUnchanged(db, users, user),
    });
    return true;
  } catch (error) {
    if (isDanglingReference(error)) return false;
    throw error;
  }
}
