import type { tasks } from "./tables.ts";

export type Task = typeof tasks.$inferSelect;

export const taskStatuses = ["todo", "in_progress", "done", "cancelled"] as const;
export const priorities = ["low", "normal", "high", "urgent"] as const;

/** What a client may set of a task. */
export type TaskContent = Pick<Task, "title" | "description" | "status" | "priority" | "assigneeId" | "labels" | "dueAt">;

export const searchTextOf = ({ title, description }: Pick<Task, "title" | "description">) => `${title}\n${description}`.toLowerCase();

/** When a task was completed: set as it becomes done, kept while it is, cleared as it leaves. */
export const completionOf = (before: Pick<Task, "completedAt"> | null, status: Task["status"], now: number): number | null =>
  status === "done" ? (before?.completedAt ?? now) : null;
