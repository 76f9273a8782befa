// Written by `npm run generate` from `src/resources.ts`.

import type { OnDelete } from "../jobs/on-delete.ts";
import { onDelete as tasksUnassignTasks } from "../resources/tasks/unassign-tasks.ts";

/** What other areas do when an area deletes a row, by the name of the area that deletes. */
export const onDelete: Readonly<Record<string, readonly OnDelete[]>> = {
  users: [tasksUnassignTasks],
};
