// Written by `npm run generate` from `src/resources.ts`.

import type { OnDelete } from "../jobs/on-delete.ts";
import { onDelete as tasksUnassignTasks } from "./tasks/unassign-tasks.ts";

/** What other resources do when a resource deletes a row, by the name of the resource that deletes. */
export const onDelete: Readonly<Record<string, readonly OnDelete[]>> = {
  users: [tasksUnassignTasks],
};
