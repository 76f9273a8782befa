import type { Manifest } from "../../db/manifest.ts";
import * as tables from "./tables.ts";

export const manifest = {
  name: "tasks",
  order: 20,
  isSample: true,
  tags: [{ name: "Tasks", description: "Tasks with a status, an assignee and a due date." }],
  ids: { tsk: "task" },
  scopes: { "tasks:read": { isDefault: true }, "tasks:write": { isDefault: true } },
  events: [
    {
      schema: "Task",
      scope: "tasks:read",
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
      types: {
        "task.created": { description: "A task was created." },
        "task.updated": {
          description: "A task was changed, or its assignee was deleted.",
          previous: { status: "in_progress", completed_at: null, updated_at: "2026-01-30T08:00:00.000Z" },
        },
        "task.completed": {
          description: "The status of a task became done. This event is sent in addition to task.created or task.updated.",
        },
        "task.deleted": { description: "A task was deleted. The event contains the last version of the task." },
      },
    },
  ],
  // The maximum amount of task text that is scanned for one filtered page, in megabytes.
  limits: { scannedMb: 4 },
  limitNotes: ["A filtered page of tasks reads at most about {{tasks.scannedMb}} MB of text."],
  tables,
  facts: {
    tasks: {
      rows: { max: 100_000, advice: "tasks. Delete tasks that you no longer need." },
      bytes: { row: 530 },
      export: { as: "task", hidden: ["search_text"] },
    },
  },
  // An assignee of a task is a user. A batch creates deliveries of each task to each webhook. The number of webhooks therefore limits the number
  // of tasks in a batch.
  reads: ["users", "webhooks"],
  onDelete: { users: "unassign-tasks.ts" },
} as const satisfies Manifest;
