import { requireAccess } from "../dashboard/access.ts";
import { createPages } from "../dashboard/dashboard.ts";
import { errorPage } from "../dashboard/pages/error.tsx";
import { requestContext } from "../http/request-context.ts";
import { requestLine } from "../http/request-line.ts";
import { requireResponse } from "../http/require-response.ts";
import { sameOrigin } from "../http/same-origin.ts";
import { pageSecurityHeaders } from "../http/security-headers.ts";
import { standardHeaders } from "../http/standard-headers.ts";
import { type Build, createSurfaceApp, type Surface } from "../http/surface.ts";
import { searchPages } from "../search/search.tsx";

/**
 * Creates the dashboard pages for members. Each route declares which access the route requires. A route without this declaration responds
 * with 404.
 */
export function createDashboard(build: Build): Surface {
  const app = createSurfaceApp(errorPage);
  app.use(
    requestContext({ isLocal: build.isLocal, finish: [standardHeaders, requestLine] }),
    pageSecurityHeaders,
    sameOrigin,
    requireResponse,
    ...requireAccess(build),
  );
  app.route("/", createPages());
  app.route("/", searchPages);
  return { serves: () => true, app };
}
