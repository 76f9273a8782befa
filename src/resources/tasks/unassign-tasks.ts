import { and, eq, type SQL, sql } from "drizzle-orm";
import { isFailedCondition, requireInBatch } from "../../db/batch-condition.ts";
import { raw } from "../../db/client.ts";
import { nextUpdate } from "../../db/optimistic-locking.ts";
import type { WriteContext } from "../../webhooks/outbox.ts";
import { eventsOfTask } from "./events.ts";
import { tasks } from "./tables.ts";
import type { Task } from "./task.ts";

/** As much as one batch changes: D1 does nothing else meanwhile. */
export const maxAtOnce = 500;
/** Each task has a delivery to each webhook of the account. */
const maxDeliveriesAtOnce = 2_500;
/** A piece ends with the task whose description crosses this. */
const maxCharactersAtOnce = 500_000;

const tasksUnchanged = "the tasks are as they were read";

/** Leaves at most `atOnce` of a user's tasks without an assignee, with their events: all that it has read, or none where one of them was changed meanwhile. */
export async function unassignSome(
  writing: WriteContext,
  userId: string,
  atOnce: number,
): Promise<"some unassigned" | "changed meanwhile" | "none left"> {
  const { db, actor, now, commit } = writing;
  const assigned = await db
    .select()
    .from(tasks)
    .where(and(eq(tasks.accountId, actor.accountId), sql`${tasks.id} IN (${someAssigned(actor.accountId, userId, atOnce)})`));
  if (assigned.length === 0) return "none left";
  const events = assigned.flatMap((before) => {
    // The statement below computes the same time.
    const after = { ...before, assigneeId: null, updatedAt: nextUpdate(before, now) };
    return eventsOfTask(before, after, now);
  });
  const statements = [
    requireInBatch(db, { holds: allUnchanged(actor.accountId, assigned), name: tasksUnchanged }),
    raw(db, unassign(actor.accountId, assigned, now)),
  ];
  try {
    await commit({ result: null, events, statements, evenWhereFull: true });
    return "some unassigned";
  } catch (error) {
    if (isFailedCondition(error, tasksUnchanged)) return "changed meanwhile";
    throw error;
  }
}

/**
 * The ids of at most `atOnce` tasks of a user whose descriptions, and the deliveries of whose events, fit in one piece. Selects at least one where there
 * is one.
 */
const someAssigned = (accountId: string, userId: string, atOnce: number): SQL =>
  sql`SELECT id FROM (SELECT id, sum(length) OVER (ROWS UNBOUNDED PRECEDING) - length AS before
    FROM (SELECT id, length(description) AS length FROM tasks WHERE account_id = ${accountId} AND assignee_id = ${userId}
      LIMIT max(1, min(${atOnce}, CAST(${maxDeliveriesAtOnce} / max(1, (SELECT count(*) FROM webhooks WHERE account_id = ${accountId})) AS INTEGER)))))
    WHERE before < ${maxCharactersAtOnce}`;

/** The rows are looked up by what was read, one by one: the other way about, each task of the account would be compared with all of it. */
export const allUnchanged = (accountId: string, read: readonly Pick<Task, "id" | "revision">[]): SQL =>
  sql`(SELECT count(*) FROM json_each(${JSON.stringify(read.map(({ id, revision }) => [id, revision]))}) AS read
    CROSS JOIN tasks ON tasks.account_id = ${accountId} AND tasks.id = read.value ->> 0 AND tasks.revision = read.value ->> 1) = ${read.length}`;

export const unassign = (accountId: string, read: readonly Pick<Task, "id">[], now: number): SQL =>
  sql`UPDATE tasks SET assignee_id = NULL, revision = lower(hex(randomblob(8))), updated_at = max(${now}, updated_at + 1)
    WHERE account_id = ${accountId} AND id IN (SELECT value FROM json_each(${JSON.stringify(read.map(({ id }) => id))}))`;
