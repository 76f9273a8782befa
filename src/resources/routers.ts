// Written by `npm run generate` from `src/resources.ts`.

import type { ApiRouter } from "../api/router.ts";
import { areaRouters } from "../api/routers.ts";
import { servesSamples } from "../db/registry/manifests.ts";
import { routes as analyticsRoutes } from "./analytics/routes.ts";
import { routes as tasksRoutes } from "./tasks/routes.ts";
import { routes as usersRoutes } from "./users/routes.ts";

/** The routers of the resources that are served, and those of all areas, in the order of the documentation. */
export const routers: readonly ApiRouter[] = [
  ...(servesSamples ? [usersRoutes] : []),
  ...(servesSamples ? [tasksRoutes] : []),
  ...(servesSamples ? [analyticsRoutes] : []),
  ...areaRouters,
];
