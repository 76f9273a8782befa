import { and, asc, lt, type SQL, sql } from "drizzle-orm";
import { type ReadContext, systemOn } from "../../accounts/actor.ts";
import { holdsNow } from "../../db/batch-condition.ts";
import { isDanglingReference } from "../../db/failures.ts";
import { asRead, isUnchanged, nextVersion, type Precondition, retry, withOptimisticLock, wrote } from "../../db/optimistic-locking.ts";
import type { OnDelete } from "../../jobs/on-delete.ts";
import { Failure, throwTogether } from "../../lib/errors/failure.ts";
import { inTurns } from "../../lib/in-turns.ts";
import { minuteMs } from "../../lib/time/clock.ts";
import { commitTo, type Outbox, type WriteContext } from "../../outbox/outbox.ts";
import { userDeleted } from "./events.ts";
import { manifest } from "./manifest.ts";
import { readUser } from "./read-users.ts";
import { users } from "./tables.ts";
import type { User } from "./user.ts";

// A user may have any number of tasks. D1 runs nothing else during a batch. One Worker invocation may send at most 1,000 statements to D1.
// A deletion therefore has several steps. The first step marks the user as being deleted and hides the user. The next steps unassign the
// user's tasks, one piece at a time. The last step deletes the row of the user. A scheduled job finishes deletions that were interrupted or
// were too large for one request.

const { inDeletion: maxInDeletion } = manifest.limits;
/** The scheduled job continues an unfinished deletion that is older than this time, in milliseconds. */
const abandonedMs = minuteMs;
/** The maximum number of pieces that one request runs. Each piece sends at most 8 statements to D1. */
const maxPiecesPerRequest = 20;

/**
 * Deletes a user and unassigns the user's tasks. If a deletion needs more than 20 pieces, the scheduled job finishes the deletion. Twenty
 * pieces cover 10,000 tasks. If the account has 20 webhooks, twenty pieces cover 2,500 tasks. Throws `not_found`, `precondition_failed` and
 * `limit_reached`.
 */
export async function deleteUser(
  context: WriteContext,
  id: string,
  precondition: Precondition,
  onDelete: readonly OnDelete[],
): Promise<void> {
  const { db, now, commit } = context;
  const marked = await withOptimisticLock({ read: () => readUser(context, id), precondition, name: "user" }, async (before) => {
    await requireFew(context);
    const { deletionRequestedAt, revision } = { deletionRequestedAt: now, ...nextVersion(before, now) };
    const { marked: written } = await commit({
      whenFull: "write",
      events: [],
      statements: {
        marked: db
          .update(users)
          .set({ deletionRequestedAt, revision })
          .where(and(asRead(users, before), areFew(context)))
          .returning({ id: users.id }),
      },
      when: isUnchanged(db, users, before),
    });
    return wrote(written) ? { ...before, deletionRequestedAt, revision } : retry;
  });
  await finishDeletion(context, marked, onDelete, maxPiecesPerRequest);
}

/** Returns an SQL condition that is true if fewer than `maxInDeletion` users of the account are being deleted. */
const areFew = ({ actor }: ReadContext): SQL =>
  sql`(SELECT count(*) FROM users WHERE account_id = ${actor.accountId} AND deletion_requested_at IS NOT NULL) < ${maxInDeletion}`;

async function requireFew(context: ReadContext): Promise<void> {
  if (!(await holdsNow(context.db, areFew(context))))
    throw new Failure("limit_reached", `${maxInDeletion} users of this account are still being deleted. Wait a minute, then try again.`);
}

/**
 * Continues unfinished deletions and runs at most `limit` pieces in total. Returns the number of pieces that ran. The accounts take turns,
 * and each turn runs one piece. Within an account, the oldest deletion is finished first. If a deletion fails, the other deletions
 * continue. At the end, throws one error that contains the errors of all failed deletions.
 */
export async function finishDeletions(outbox: Outbox, onDelete: readonly OnDelete[], now: number, limit: number): Promise<number> {
  const { db } = outbox;
  const marked = await db
    .select()
    .from(users)
    .where(lt(users.deletionRequestedAt, now - abandonedMs))
    .orderBy(sql`row_number() OVER (PARTITION BY ${users.accountId} ORDER BY ${users.deletionRequestedAt})`, asc(users.deletionRequestedAt))
    .limit(limit);
  const deletions = marked.map((user) => ({ user, left: start(onDelete) }));
  const byAccount = Map.groupBy(deletions, ({ user }) => user.accountId);
  const errors: unknown[] = [];
  const pieces = await inTurns(byAccount.values(), limit, async ({ user, left }) => {
    const context = { db, now, actor: systemOn(user.accountId), commit: commitTo(outbox) };
    const next = await doPiece(context, user, onDelete, left).catch((error: unknown) => {
      errors.push(error);
      return null;
    });
    return next && { user, left: next };
  });
  throwTogether(errors, "some deletions of users could not be finished");
  return pieces;
}

/** The work that is left before the row of a user can be deleted. */
interface Left {
  /** The areas whose rows may still refer to the user. */
  areas: readonly OnDelete[];
  /** The maximum number of rows of the first area in the next piece. */
  atOnce: number;
}

const start = (areas: readonly OnDelete[]): Left => ({ areas, atOnce: areas[0]?.maxAtOnce ?? 0 });

/** Runs at most `atMost` pieces of a deletion. The deletion may be unfinished afterwards. */
async function finishDeletion(context: WriteContext, user: User, onDelete: readonly OnDelete[], atMost: number): Promise<void> {
  let left: Left | null = start(onDelete);
  for (let pieces = 0; pieces < atMost && left !== null; pieces++) left = await doPiece(context, user, onDelete, left);
}

/** Runs the next piece of a deletion. Returns the work that is left, or null if the user is deleted. */
async function doPiece(context: WriteContext, user: User, onDelete: readonly OnDelete[], left: Left): Promise<Left | null> {
  const startedAt = Date.now();
  const [area, ...others] = left.areas;
  const outcome = (await area?.detachSome(context, user.id, left.atOnce)) ?? "none left";
  if (outcome === "none left") {
    if (others.length > 0) return start(others);
    if (await deleteRow(context, user)) return null;
  }
  // This pause is longer than the piece took, so D1 spends most of its time on other requests.
  await new Promise((resolve) => setTimeout(resolve, Math.max(1, 1.5 * (Date.now() - startedAt))));
  // If another request has referred to the user meanwhile, the work starts again.
  if (outcome === "none left") return start(onDelete);
  // If another write changed one of the rows, the next piece takes half as many rows.
  return outcome === "changed meanwhile" ? { ...left, atOnce: Math.max(1, Math.floor(left.atOnce / 2)) } : start(left.areas);
}

/** Deletes the row of a user. Returns false if a row of another area refers to the user again. */
async function deleteRow({ db, now, commit }: WriteContext, user: User): Promise<boolean> {
  try {
    await commit({
      whenFull: "write",
      events: [userDeleted(user, now)],
      statements: { deleted: db.delete(users).where(asRead(users, user)) },
      when: isUnchanged(db, users, user),
    });
    return true;
  } catch (error) {
    if (isDanglingReference(error)) return false;
    throw error;
  }
}
