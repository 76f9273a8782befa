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

// A user may have any number of tasks, D1 does nothing else while it runs a batch, and an invocation may send it 1,000 statements. So the user
// is marked first. From then on nobody sees it. Its tasks lose their assignee in pieces, and its row goes last. A scheduled job finishes what
// breaks off or exceeds what one request may do.

const { inDeletion: maxInDeletion } = manifest.limits;
/** How long a deletion may rest before the scheduled job takes it up. */
const abandonedMs = minuteMs;
/** Pieces of one request. A piece is 8 statements at most. */
const maxPiecesPerRequest = 20;

/**
 * Deletes a user and leaves its tasks without an assignee. The scheduled job finishes what takes more than 20 pieces: above 10,000 tasks, or
 * 2,500 in an account of 20 webhooks. Throws `not_found`, `precondition_failed` and `limit_reached`.
 */
export async function deleteUser(writing: WriteContext, id: string, holds: Precondition): Promise<void> {
  const { db, now, commit } = writing;
  const marked = await withOptimisticLock({ read: () => readUser(writing, id), holds, name: "user" }, async (before) => {
    await requireFew(writing);
    const { deletionRequestedAt, revision } = { deletionRequestedAt: now, ...nextVersion(before, now) };
    const [written] = await commit({
      evenWhereFull: true,
      result: null,
      events: [],
      statements: [
        db
          .update(users)
          .set({ deletionRequestedAt, revision })
          .where(and(asRead(users, before), areFew(writing)))
          .returning({ id: users.id }),
      ],
      when: isUnchanged(db, users, before),
    });
    return wrote(written) ? { ...before, deletionRequestedAt, revision } : conflicted;
  });
  await finishDeletion(writing, marked, maxPiecesPerRequest);
}

/** The condition that few users of the account are being deleted. */
const areFew = ({ actor }: ReadContext): SQL =>
  sql`(SELECT count(*) FROM users WHERE account_id = ${actor.accountId} AND deletion_requested_at IS NOT NULL) < ${maxInDeletion}`;

async function requireFew(reading: ReadContext): Promise<void> {
  if (!(await holdsNow(reading.db, areFew(reading))))
    throw new Failure("limit_reached", `${maxInDeletion} users of this account are still being deleted. Wait a minute, then try again.`);
}

/**
 * Goes on with deletions that were broken off, at most `limit` pieces in all. Accounts take turns, a piece each, and the oldest of an account
 * is finished first. One that fails holds up no other. Answers how many pieces were done.
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
    const writing = { db, now, actor: systemOn(user.accountId), commit: commitTo(outbox) };
    const next = await doPiece(writing, user, deletion.atOnce).catch((error: unknown) => {
      errors.push(error);
      return null;
    });
    const left = next === null ? others : [{ user, atOnce: next }, ...others];
    if (left.length > 0) turns.push(left);
  }
  throwTogether(errors, "some deletions of users could not be finished");
  return pieces;
}

/** After `atMost` pieces, the deletion may be unfinished. */
async function finishDeletion(writing: WriteContext, user: User, atMost: number): Promise<void> {
  let atOnce: number | null = maxAtOnce;
  for (let pieces = 0; pieces < atMost && atOnce !== null; pieces++) atOnce = await doPiece(writing, user, atOnce);
}

/** Does the next piece of a deletion. Returns how many tasks the piece after it may take; null where the user is deleted. */
async function doPiece(writing: WriteContext, user: User, atOnce: number): Promise<number | null> {
  const startedAt = Date.now();
  const outcome = await unassignSome(writing, user.id, atOnce);
  if (outcome === "none left" && (await deleteRow(writing, user))) return null;
  // Most of the time is for everybody else.
  await new Promise((resolve) => setTimeout(resolve, Math.max(1, 1.5 * (Date.now() - startedAt))));
  // A piece that somebody changed something of is tried again as two.
  return outcome === "changed meanwhile" ? Math.max(1, Math.floor(atOnce / 2)) : maxAtOnce;
}

/** Returns false where a task was given to the user meanwhile. */
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
