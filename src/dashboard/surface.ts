import type { Hono } from "hono";
import { requestContext } from "../http/request-context.ts";
import { requireResponse } from "../http/require-response.ts";
import { sameOrigin } from "../http/same-origin.ts";
import { pageSecurityHeaders } from "../http/security-headers.ts";
import { type Build, createSurfaceApp, type Surface } from "../http/surface.ts";
import { requireAccess } from "./access/access.ts";
import type { PageEnv } from "./context.ts";
import { createPages } from "./dashboard.ts";
import { errorPage } from "./pages/error/page.tsx";

/**
 * Creates the dashboard pages for members. Each route declares which access the route requires. A route without this declaration responds
 * with 404. `more`: pages of other transports.
 */
export function createDashboard(build: Build, more: readonly Hono<PageEnv>[]): Surface {
  const app = createSurfaceApp(errorPage);
  app.use(requestContext({ isLocal: build.isLocal }), pageSecurityHeaders, sameOrigin, requireResponse, ...requireAccess(build));
  app.route("/", createPages());
  for (const pages of more) app.route("/", pages);
  return { serves: () => true, app };
}
