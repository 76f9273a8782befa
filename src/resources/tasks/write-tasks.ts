import { and, eq, exists, isNull } from "drizzle-orm";
import { isFailedCondition, requireInBatch } from "../../db/batch-condition.ts";
import { type Db, newRevision, type Statement } from "../../db/client.ts";
import { differing, isEmpty } from "../../db/differing.ts";
import { asRead, isUnchanged, nextVersion, type Precondition, retry, withOptimisticLock, wrote } from "../../db/optimistic-locking.ts";
import { invalidMember } from "../../lib/errors/failure.ts";
import { newId } from "../../lib/ids.ts";
import type { WriteContext } from "../../outbox/outbox.ts";
import { users } from "../users/tables.ts";
import { eventsOfTask, taskDeleted } from "./events.ts";
import { readTask } from "./read-tasks.ts";
import { tasks } from "./tables.ts";
import { completionOf, searchTextOf, type Task, type TaskContent } from "./task.ts";

/**
 * Creates a task. If the assignee is not a user of the account, throws `invalid_body`. If the account cannot store another task, throws
 * `limit_reached`.
 */
export async function createTask({ db, actor, now, commit }: WriteContext, content: TaskContent): Promise<Task> {
  const task: Task = {
    id: newId("tsk", now),
    accountId: actor.accountId,
    ...content,
    searchText: searchTextOf(content),
    completedAt: completionOf(null, content.status, now),
    revision: newRevision(),
    createdAt: now,
    updatedAt: now,
  };
  const statements = { assignee: requireAssignee(db, task), made: db.insert(tasks).values(task) };
  await withKnownAssignee(
    commit({ result: task, events: eventsOfTask(null, task, now), adds: [{ accountId: actor.accountId, what: "tasks" }], statements }),
  );
  return task;
}

/**
 * Updates a task with the values in `patch`. If all values are already the same, writes nothing. Throws `not_found`, `precondition_failed` or
 * `invalid_body`.
 */
export function changeTask(context: WriteContext, id: string, patch: Partial<TaskContent>, precondition: Precondition): Promise<Task> {
  const { db, now, commit } = context;
  return withOptimisticLock({ read: () => readTask(context, id), precondition, name: "task" }, async (before) => {
    const changes = differing(patch, before);
    if (isEmpty(changes)) return before;
    const changed = { ...before, ...changes };
    const after = {
      ...changed,
      searchText: searchTextOf(changed),
      completedAt: completionOf(before, changed.status, now),
      ...nextVersion(before, now),
    };
    const { updated } = await withKnownAssignee(
      commit({
        result: after,
        events: eventsOfTask(before, after, now),
        statements: {
          assignee: changes.assigneeId === undefined ? [] : requireAssignee(db, after),
          updated: db.update(tasks).set(after).where(asRead(tasks, before)).returning({ id: tasks.id }),
        },
        when: isUnchanged(db, tasks, before),
      }),
    );
    return wrote(updated) ? after : retry;
  });
}

/** Deletes a task. Throws `not_found` or `precondition_failed`. */
export function deleteTask(context: WriteContext, id: string, precondition: Precondition): Promise<void> {
  const { db, now, commit } = context;
  return withOptimisticLock({ read: () => readTask(context, id), precondition, name: "task" }, async (before) => {
    const { deleted } = await commit({
      whenFull: "write",
      events: [taskDeleted(before, now)],
      statements: { deleted: db.delete(tasks).where(asRead(tasks, before)).returning({ id: tasks.id }) },
      when: isUnchanged(db, tasks, before),
    });
    return wrote(deleted) ? undefined : retry;
  });
}

const assigneeIsThere = "the assignee is a user of the account";

/** Returns a statement that checks the assignee. If the assignee is not a user of the account or is being deleted, the statement fails the batch. */
const requireAssignee = (db: Db, { accountId, assigneeId }: Task): Statement[] => {
  if (assigneeId === null) return [];
  const assignee = and(eq(users.accountId, accountId), eq(users.id, assigneeId), isNull(users.deletionRequestedAt));
  return [requireInBatch(db, { holds: exists(db.select({ id: users.id }).from(users).where(assignee)), name: assigneeIsThere })];
};

async function withKnownAssignee<T>(write: Promise<T>): Promise<T> {
  try {
    return await write;
  } catch (error) {
    if (isFailedCondition(error, assigneeIsThere)) throw invalidMember("/assignee_id", "There is no such user.", "unknown_user");
    throw error;
  }
}
