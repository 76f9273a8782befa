import { type Event, type EventKind, kindsOf, newChangeEvent, newEvent } from "../../outbox/event.ts";
import { manifest } from "./manifest.ts";
import { TaskData, taskData } from "./schemas.ts";
import type { Task } from "./task.ts";

export const eventKinds = kindsOf(manifest.events[0], TaskData);

const event = (kind: EventKind<typeof TaskData>, task: Task, now: number) =>
  newEvent(kind, { accountId: task.accountId, now }, taskData(task));

const changed = (before: Task, after: Task, now: number) =>
  newChangeEvent(eventKinds["task.updated"], { accountId: after.accountId, now }, { before: taskData(before), after: taskData(after) });

/** Returns the events for a write that creates or changes a task. `before`: the task before the write, or null for a new task. */
export function eventsOfTask(before: Task | null, after: Task, now: number): Event[] {
  const written = before === null ? event(eventKinds["task.created"], after, now) : changed(before, after, now);
  const isCompleted = after.completedAt !== null && (before === null || before.completedAt === null);
  return isCompleted ? [written, event(eventKinds["task.completed"], after, now)] : [written];
}

export const taskDeleted = (task: Task, now: number): Event => event(eventKinds["task.deleted"], task, now);
