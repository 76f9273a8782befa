import { normalizedPath } from "./http/request-path.ts";
import type { Build, Surface } from "./http/surface.ts";
import { createApi } from "./surfaces/api.ts";
import { createDashboard } from "./surfaces/dashboard.ts";
import { createDocumentation } from "./surfaces/documentation.ts";
import { createForwardAuth } from "./surfaces/forward-auth.ts";
import { createHealth } from "./surfaces/health.ts";
import { createMetrics } from "./surfaces/metrics.ts";
import { createOperatorApi } from "./surfaces/operator-api.ts";
import { createOperatorPages } from "./surfaces/operator-pages.ts";
import { createSignIn } from "./surfaces/sign-in.ts";

/**
 * Combines all surfaces into the app of the Worker. Each request is handled by the first surface in the list whose `serves` function
 * accepts the path.
 */
export function createApp({ isLocal, isOpen = isLocal }: { isLocal: boolean; isOpen?: boolean }) {
  const build: Build = { isLocal, isOpen: isLocal && isOpen };
  const surfaces: readonly Surface[] = [
    createApi(build),
    createHealth(build),
    createForwardAuth(build),
    createOperatorApi(build),
    createMetrics(build),
    createOperatorPages(build),
    createDocumentation(build),
    createSignIn(build),
    createDashboard(build),
  ];
  const surfaceOf = (path: string) => surfaces.find(({ serves }) => serves(path)) as Surface;
  const fetch = (request: Request, env: Env, ctx: ExecutionContext) => surfaceOf(normalizedPath(request)).app.fetch(request, env, ctx);
  return { fetch, surfaceOf };
}
