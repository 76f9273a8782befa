import { newRevision } from "../db/client.ts";
import { isDanglingReference } from "../db/failures.ts";
import { asRead, conflicted, isUnchanged, nextVersion, type Precondition, withOptimisticLock, wrote } from "../db/optimistic-locking.ts";
import { tasks } from "../db/schema.ts";
import { invalidMember } from "../errors.ts";
import type { Writing } from "../events/commit.ts";
import { newId } from "../ids.ts";
import { readTask } from "./read-tasks.ts";
import { completionOf, searchTextOf, type Task, type TaskContent } from "./task.ts";
import { eventsOfTask, taskDeleted } from "./task-events.ts";

/** Makes a task. Throws `invalid_body` where the assignee is no user of the account. */
export async function createTask({ db, actor, now, commit }: Writing, content: TaskContent): Promise<Task> {
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
  await withKnownAssignee(commit({ result: task, events: eventsOfTask(null, task, now), statements: [db.insert(tasks).values(task)] }));
  return task;
}

/** Changes the members that `patch` has. Throws `not_found`, `precondition_failed` and `invalid_body`. */
export function changeTask(writing: Writing, id: string, patch: Partial<TaskContent>, holds: Precondition): Promise<Task> {
  const { db, now, commit } = writing;
  return withOptimisticLock({ read: () => readTask(writing, id), holds, name: "task" }, async (before) => {
    if (Object.keys(patch).length === 0) return before;
    const changed = { ...before, ...patch };
    const after = {
      ...changed,
      searchText: searchTextOf(changed),
      completedAt: completionOf(before, changed.status, now),
      ...nextVersion(before, now),
    };
    const [written] = await withKnownAssignee(
      commit({
        result: after,
        events: eventsOfTask(before, after, now),
        statements: [db.update(tasks).set(after).where(asRead(tasks, before)).returning({ id: tasks.id })],
        when: isUnchanged(db, tasks, before),
      }),
    );
    return wrote(written) ? after : conflicted;
  });
}

/** Deletes a task. Throws `not_found` and `precondition_failed`. */
export function deleteTask(writing: Writing, id: string, holds: Precondition): Promise<void> {
  const { db, now, commit } = writing;
  return withOptimisticLock({ read: () => readTask(writing, id), holds, name: "task" }, async (before) => {
    const [deleted] = await commit({
      result: null,
      events: [taskDeleted(before, now)],
      statements: [db.delete(tasks).where(asRead(tasks, before)).returning({ id: tasks.id })],
      when: isUnchanged(db, tasks, before),
    });
    return wrote(deleted) ? undefined : conflicted;
  });
}

async function withKnownAssignee<T>(write: Promise<T>): Promise<T> {
  try {
    return await write;
  } catch (error) {
    if (isDanglingReference(error)) throw invalidMember("/assignee_id", "There is no such user.", "unknown_user");
    throw error;
  }
}
