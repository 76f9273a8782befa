// Written by `npm run generate` from `src/resources.ts`.

import type { Job } from "../jobs/job.ts";
import { jobs as usersJobs } from "../resources/users/jobs.ts";

/** The scheduled jobs that areas define in their own directories. */
export const areaJobs: readonly Job[] = [...usersJobs];
