import { type Event, kindsAbout, newChangeEvent, newEvent, ofChange } from "../../events/event.ts";
import { TaskData, taskData } from "./schemas.ts";
import type { Task } from "./task.ts";

const kind = kindsAbout(TaskData, {
  scope: "tasks:read",
  schema: "Task",
  example: {
    id: "tsk_019a1b2c3d4e7f8091a2b3c4d5e6f708",
    title: "Write the release notes",
    description: "",
    status: "done",
    priority: "high",
    assignee_id: "usr_019a1b2c3d4e7f8091a2b3c4d5e6f708",
    labels: ["docs"],
    due_at: "2026-02-01T12:00:00.000Z",
    completed_at: "2026-01-31T09:30:00.000Z",
    created_at: "2026-01-30T08:00:00.000Z",
    updated_at: "2026-01-31T09:30:00.000Z",
  },
});

const created = kind("task.created", "A task was made.");
const updated = ofChange(kind("task.updated", "A task was changed, or has lost its assignee."), {
  status: "in_progress",
  completed_at: null,
  updated_at: "2026-01-30T08:00:00.000Z",
});
const completed = kind("task.completed", "The status of a task has become done. Comes beside task.created or task.updated.");
const deleted = kind("task.deleted", "A task was deleted. It is shown as it was last.");

export const taskEventKinds = [created, updated, completed, deleted];

const event = (kind: typeof created, task: Task, now: number) => newEvent(kind, { accountId: task.accountId, now }, taskData(task));

const changed = (before: Task, after: Task, now: number) =>
  newChangeEvent(updated, { accountId: after.accountId, now }, { before: taskData(before), after: taskData(after) });

/** What a write of a task makes known. `before`: null where it is new. */
export function eventsOfTask(before: Task | null, after: Task, now: number): Event[] {
  const written = before === null ? event(created, after, now) : changed(before, after, now);
  const isCompleted = after.completedAt !== null && (before === null || before.completedAt === null);
  return isCompleted ? [written, event(completed, after, now)] : [written];
}

export const taskDeleted = (task: Task, now: number): Event => event(deleted, task, now);
