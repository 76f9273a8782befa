// Written by `npm run generate` from `src/resources.ts`.

import type { Job } from "../jobs/job.ts";
import { jobs as usersJobs } from "../resources/users/jobs.ts";

/** The jobs that areas state beside their rules. */
export const areaJobs: readonly Job[] = [...usersJobs];
