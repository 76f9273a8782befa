import { and, eq, type SQL, sql } from "drizzle-orm";
import { isFailedCondition, requireInBatch } from "../db/batch-condition.ts";
import { raw } from "../db/client.ts";
import { tasks } from "../db/schema.ts";
import type { Writing } from "../events/commit.ts";
import type { Task } from "./task.ts";
import { eventsOfTask } from "./task-events.ts";

/** As many tasks as one batch changes: D1 does nothing else meanwhile. */
const atOnce = 500;

const tasksUnchanged = "the tasks are as they were read";

/** Leaves some of a user's tasks without an assignee, with their events. Answers whether more may be left. */
export async function unassignSome(writing: Writing, userId: string): Promise<boolean> {
  const { db, actor, now, commit } = writing;
  const assigned = await db
    .select()
    .from(tasks)
    .where(and(eq(tasks.accountId, actor.accountId), eq(tasks.assigneeId, userId)))
    .limit(atOnce);
  if (assigned.length === 0) return false;
  // As the statement below computes it.
  const unassigned = assigned.map((task) => ({ ...task, assigneeId: null, updatedAt: Math.max(now, task.updatedAt + 1) }));
  try {
    await commit({
      result: null,
      events: assigned.flatMap((before, index) => eventsOfTask(before, unassigned[index] ?? before, now)),
      statements: [
        requireInBatch(db, allUnchanged(actor.accountId, assigned), tasksUnchanged),
        raw(db, unassign(actor.accountId, assigned, now)),
      ],
    });
  } catch (error) {
    // Read again what somebody changed meanwhile.
    if (!isFailedCondition(error, tasksUnchanged)) throw error;
  }
  return true;
}

/** The rows are looked up by what was read, one by one: the other way about, each task of the account would be compared with all of it. */
export const allUnchanged = (accountId: string, read: readonly Pick<Task, "id" | "revision">[]): SQL =>
  sql`(SELECT count(*) FROM json_each(${JSON.stringify(read.map(({ id, revision }) => [id, revision]))}) AS read
    CROSS JOIN tasks ON tasks.account_id = ${accountId} AND tasks.id = read.value ->> 0 AND tasks.revision = read.value ->> 1) = ${read.length}`;

export const unassign = (accountId: string, read: readonly Pick<Task, "id">[], now: number): SQL =>
  sql`UPDATE tasks SET assignee_id = NULL, revision = lower(hex(randomblob(8))), updated_at = max(${now}, updated_at + 1)
    WHERE account_id = ${accountId} AND id IN (SELECT value FROM json_each(${JSON.stringify(read.map(({ id }) => id))}))`;
