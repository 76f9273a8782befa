import { z } from "zod";
import { iso, isoOrNull } from "../clock.ts";
import { isoText } from "../iso-text.ts";
import { priorities, type Task, taskStatuses } from "./task.ts";

/** A task as everybody outside sees it: in answers and in events. */
export const TaskData = z.strictObject({
  id: z.string().meta({ examples: ["tsk_019a1b2c3d4e7f8091a2b3c4d5e6f708"] }),
  title: z.string(),
  description: z.string(),
  status: z.enum(taskStatuses),
  priority: z.enum(priorities),
  assignee_id: z.string().nullable().meta({ description: "A user of the account." }),
  labels: z.array(z.string()),
  due_at: isoText.nullable(),
  completed_at: isoText.nullable().meta({ description: "Set when the status becomes done, cleared when it leaves done." }),
  created_at: isoText,
  updated_at: isoText,
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
