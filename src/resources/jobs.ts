// Written by `npm run generate` from `src/resources.ts`.

import type { Job } from "../jobs/job.ts";
import { jobs as usersJobs } from "./users/jobs.ts";

/** The scheduled jobs of the resources. */
export const resourceJobs: readonly Job[] = [...usersJobs];
