import { and, eq, type SQL, sql } from "drizzle-orm";
import { isFailedCondition, requireInBatch } from "../../db/batch-condition.ts";
import { raw } from "../../db/client.ts";
import { nextUpdate } from "../../db/optimistic-locking.ts";
import type { OnDelete, PieceOutcome } from "../../jobs/on-delete.ts";
import type { WriteContext } from "../../outbox/outbox.ts";
import { eventsOfTask } from "./events.ts";
import { tasks } from "./tables.ts";
import type { Task } from "./task.ts";

/** The maximum number of tasks in one batch. D1 runs nothing else during a batch. */
const maxAtOnce = 500;
/** The maximum number of deliveries in one batch. Each task has a delivery to each webhook of the account. */
const maxDeliveriesAtOnce = 2_500;
/** A batch ends when its task descriptions have this number of characters in total. The last description in the batch may exceed this number. */
const maxCharactersAtOnce = 500_000;

const tasksUnchanged = "the tasks are as they were read";

/**
 * Removes the assignee from at most `atOnce` tasks that are assigned to a user, and writes the events. If another write has changed one of these
 * tasks first, changes none of the tasks.
 */
async function unassignSome(context: WriteContext, userId: string, atOnce: number): Promise<PieceOutcome> {
  const { db, actor, now, commit } = context;
  const assigned = await db
    .select()
    .from(tasks)
    .where(and(eq(tasks.accountId, actor.accountId), sql`${tasks.id} IN (${someAssigned(actor.accountId, userId, atOnce)})`));
  if (assigned.length === 0) return "none left";
  const events = assigned.flatMap((before) => {
    // `unassign` computes the same time in SQL.
    const after = { ...before, assigneeId: null, updatedAt: nextUpdate(before, now) };
    return eventsOfTask(before, after, now);
  });
  const statements = {
    unchanged: requireInBatch(db, { holds: allUnchanged(actor.accountId, assigned), name: tasksUnchanged }),
    unassigned: raw(db, unassign(actor.accountId, assigned, now)),
  };
  try {
    await commit({ events, statements, whenFull: "write" });
    return "some changed";
  } catch (error) {
    if (isFailedCondition(error, tasksUnchanged)) return "changed meanwhile";
    throw error;
  }
}

/**
 * Selects the ids of at most `atOnce` tasks that are assigned to a user. The descriptions and deliveries of the selected tasks must fit in one
 * batch. If the user has any tasks, selects at least one task.
 */
const someAssigned = (accountId: string, userId: string, atOnce: number): SQL =>
  sql`SELECT id FROM (SELECT id, sum(length) OVER (ROWS UNBOUNDED PRECEDING) - length AS before
    FROM (SELECT id, length(description) AS length FROM tasks WHERE account_id = ${accountId} AND assignee_id = ${userId}
      LIMIT max(1, min(${atOnce}, CAST(${maxDeliveriesAtOnce} / max(1, (SELECT count(*) FROM webhooks WHERE account_id = ${accountId})) AS INTEGER)))))
    WHERE before < ${maxCharactersAtOnce}`;

/**
 * Returns an SQL condition. The condition is true if none of the given tasks has changed since the tasks were read. With CROSS JOIN, SQLite looks
 * up each given task by its primary key. In the opposite join order, SQLite would compare every task of the account with every given task.
 */
export const allUnchanged = (accountId: string, read: readonly Pick<Task, "id" | "revision">[]): SQL =>
  sql`(SELECT count(*) FROM json_each(${JSON.stringify(read.map(({ id, revision }) => [id, revision]))}) AS read
    CROSS JOIN tasks ON tasks.account_id = ${accountId} AND tasks.id = read.value ->> 0 AND tasks.revision = read.value ->> 1) = ${read.length}`;

export const unassign = (accountId: string, read: readonly Pick<Task, "id">[], now: number): SQL =>
  sql`UPDATE tasks SET assignee_id = NULL, revision = lower(hex(randomblob(8))), updated_at = max(${now}, updated_at + 1)
    WHERE account_id = ${accountId} AND id IN (SELECT value FROM json_each(${JSON.stringify(read.map(({ id }) => id))}))`;

/** When a user is deleted, the tasks of the user are kept without an assignee. */
export const onDelete: OnDelete = { maxAtOnce, detachSome: unassignSome };
