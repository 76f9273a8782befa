import { createApi } from "./api/api.ts";
import { createSignIn } from "./dashboard/access/surface.ts";
import { createOperatorPages } from "./dashboard/desk/surface.ts";
import { createDashboard } from "./dashboard/surface.ts";
import { searchPages } from "./docs/search.tsx";
import { createDocumentation } from "./docs/surface.ts";
import { teamDocs } from "./docs/team-docs.tsx";
import { normalizedPath } from "./http/request-path.ts";
import type { Build, Surface } from "./http/surface.ts";
import type { Run } from "./jobs/job.ts";
import { jobs } from "./jobs/jobs.ts";
import { runJobs } from "./jobs/run-jobs.ts";
import { createHealth } from "./metrics/health.ts";
import { createMetrics } from "./metrics/surface.ts";
import { resourceJobs } from "./resources/jobs.ts";
import { onDelete } from "./resources/on-delete.ts";
import { routers } from "./resources/routers.ts";
import { createForwardAuth } from "./team/forward-auth-surface.ts";
import { createTeamApi } from "./team/surface.ts";

/**
 * Combines all surfaces into the app of the Worker. Each request is handled by the first surface in the list whose `serves` function
 * accepts the path.
 */
export function createApp({ isLocal, isOpen = isLocal }: { isLocal: boolean; isOpen?: boolean }) {
  const build: Build = { isLocal, isOpen: isLocal && isOpen };
  const surfaces: readonly Surface[] = [
    createApi(build, routers),
    createHealth(build),
    createForwardAuth(build),
    createTeamApi(build),
    createMetrics(build),
    createOperatorPages(build, [teamDocs]),
    createDocumentation(build),
    createSignIn(build),
    createDashboard(build, [searchPages]),
  ];
  const surfaceOf = (path: string) => surfaces.find(({ serves }) => serves(path)) as Surface;
  const fetch = (request: Request, env: Env, ctx: ExecutionContext) => surfaceOf(normalizedPath(request)).app.fetch(request, env, ctx);
  return { fetch, surfaceOf };
}

/** Runs the scheduled jobs of all areas and resources that are due. Throws if a job failed, after all jobs have ended. */
export const runScheduledJobs = (env: Env, now: number, deliver: Run["deliver"]): Promise<void> =>
  runJobs({ env, now, deliver, onDelete }, [...resourceJobs, ...jobs]);
