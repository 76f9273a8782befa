import { problem } from "../http/problem.ts";
import { requestContext } from "../http/request-context.ts";
import { requireResponse } from "../http/require-response.ts";
import { type Build, createSurfaceApp, type Surface } from "../http/surface.ts";
import type { TeamContext } from "./context.ts";
import { decideForward } from "./routes/forward.ts";
import { forwardPath } from "./verify/forward.ts";

/**
 * Creates forward auth, a surface of its own: a proxy takes each response as a decision and may pass it on. The responses therefore carry no policy of this
 * host, and nothing of the request but its headers is read.
 */
export function createForwardAuth({ isLocal }: Pick<Build, "isLocal">): Surface {
  const app = createSurfaceApp(problem);
  app.use(requestContext({ isLocal }), requireResponse);
  app.all(forwardPath, (c) => decideForward(c as unknown as TeamContext));
  return { serves: (path) => path === forwardPath, app };
}
