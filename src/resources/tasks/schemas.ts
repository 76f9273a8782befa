import { z } from "zod";
import { like } from "../../lib/inputs/like.ts";
import { idInput, text, timeInputOrNull } from "../../lib/inputs/values.ts";
import { iso, isoOrNull } from "../../lib/time/clock.ts";
import { isoText, timeOf } from "../../lib/time/iso-text.ts";
import { priorities, type Task, taskStatuses } from "./task.ts";

export const TaskStatus = z.enum(taskStatuses).meta({
  description: "The status of the task: `todo` (not started), `in_progress`, `done` (completed) or `cancelled`.",
  examples: ["in_progress"],
});

export const TaskPriority = z
  .enum(priorities)
  .meta({ description: "The priority of the task: `low`, `normal`, `high` or `urgent`.", examples: ["high"] });

/** The public form of a task, in responses and in events. */
export const TaskData = z.strictObject({
  id: z.string().meta({ description: "The id of the task.", examples: ["tsk_019a1b2c3d4e7f8091a2b3c4d5e6f708"] }),
  title: z.string().meta({ description: "The title of the task.", examples: ["Write the release notes"] }),
  description: z.string().meta({
    description: "The description of the task, which can be empty.",
    examples: ["For version 2, with the breaking changes first."],
  }),
  status: TaskStatus,
  priority: TaskPriority,
  assignee_id: z
    .string()
    .nullable()
    .meta({
      description: "The id of the user who is assigned to the task, or null if nobody is assigned.",
      examples: ["usr_019a1b2c3d4e7f8091a2b3c4d5e6f708"],
    }),
  labels: z.array(z.string()).meta({
    description: "The labels of the task, in the order in which you sent them. Use labels to group tasks.",
    examples: [["docs", "release"]],
  }),
  due_at: isoText
    .nullable()
    .meta({ description: "The due date of the task, or null if the task has no due date.", examples: ["2026-02-14T17:00:00.000Z"] }),
  completed_at: isoText
    .nullable()
    .meta({ description: "The time when the status became `done`, or null if the status is not `done`.", examples: [null] }),
  created_at: timeOf("The time when the task was created."),
  updated_at: timeOf("The time when the task was last changed."),
});

export const taskData = (task: Task): z.infer<typeof TaskData> => ({
  id: task.id,
  title: task.title,
  description: task.description,
  status: task.status,
  priority: task.priority,
  assignee_id: task.assigneeId,
  labels: task.labels,
  due_at: isoOrNull(task.dueAt),
  completed_at: isoOrNull(task.completedAt),
  created_at: iso(task.createdAt),
  updated_at: iso(task.updatedAt),
});

// The fields of a task that a client may set.

const { shape } = TaskData;
const title = like(text(1, 200), shape.title);
const description = like(text(0, 10_000), shape.description);
const assigneeId = like(idInput.nullable(), shape.assignee_id);
const labels = like(z.array(text(1, 50)).max(20), shape.labels);
const dueAt = like(timeInputOrNull, shape.due_at);

export const NewTask = z.strictObject({
  title,
  description: description.default(""),
  status: TaskStatus.default("todo"),
  priority: TaskPriority.default("normal"),
  assignee_id: assigneeId.default(null),
  labels: labels.default([]),
  due_at: dueAt.default(null),
});

export const TaskPatch = z.strictObject({
  title: title.optional(),
  description: description.nullable().optional(),
  status: TaskStatus.optional(),
  priority: TaskPriority.optional(),
  assignee_id: assigneeId.optional(),
  labels: labels.nullable().optional(),
  due_at: dueAt.optional(),
});
