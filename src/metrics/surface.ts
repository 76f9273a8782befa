import { shareCpu } from "../http/cpu-share.ts";
import { problem } from "../http/problem.ts";
import { requestContext } from "../http/request-context.ts";
import { requireResponse } from "../http/require-response.ts";
import { apiSecurityHeaders } from "../http/security-headers.ts";
import { team } from "../http/share-owner.ts";
import { type Build, createSurfaceApp, type Surface } from "../http/surface.ts";
import { requireToken } from "../team/authenticate.ts";
import { unbound } from "../team/bound-to-accounts.ts";
import { metrics } from "./metrics.ts";

const path = "/metrics";

/** Creates the route `/metrics` for monitors with an operator token. */
export function createMetrics({ isLocal }: Pick<Build, "isLocal">): Surface {
  const app = createSurfaceApp(problem);
  app.use(
    requestContext({ isLocal, headers: apiSecurityHeaders }),
    requireResponse,
    requireToken(() => "metrics:read"),
    unbound,
    shareCpu(() => team),
  );
  app.route("/", metrics);
  return { serves: (requested) => requested === path, app };
}
