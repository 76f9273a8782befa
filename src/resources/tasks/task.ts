import { folded } from "../../lib/inputs/fold.ts";
import type { tasks } from "./tables.ts";

export type Task = typeof tasks.$inferSelect;

export const taskStatuses = ["todo", "in_progress", "done", "cancelled"] as const;
export const priorities = ["low", "normal", "high", "urgent"] as const;

/** The fields of a task that a client can set. */
export type TaskContent = Pick<Task, "title" | "description" | "status" | "priority" | "assigneeId" | "labels" | "dueAt">;

export const searchTextOf = ({ title, description }: Pick<Task, "title" | "description">) => folded(`${title}\n${description}`);

/**
 * Returns the completion time of a task. When the status becomes `done`, the time is set. When the status is no longer `done`, the time is
 * cleared.
 */
export const completionOf = (before: Pick<Task, "completedAt"> | null, status: Task["status"], now: number): number | null =>
  status === "done" ? (before?.completedAt ?? now) : null;
