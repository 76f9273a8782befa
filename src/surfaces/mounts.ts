// Written by `npm run generate` from `src/resources.ts`.

import { routes as activityRoutes } from "../activity/routes.ts";
import { routes as admissionRoutes } from "../admission/routes.ts";
import type { ApiRouter } from "../api/router.ts";
import { routes as auditRoutes } from "../audit/routes.ts";
import { routes as eventsRoutes } from "../events/routes.ts";
import { routes as keysLeakedKeyRoutes } from "../keys/leaked-key-routes.ts";
import { routes as keysRoutes } from "../keys/routes.ts";
import { routes as meRoutes } from "../me/routes.ts";
import { routes as openapiRoutes } from "../openapi/routes.ts";
import { servesSamples } from "../registry/manifests.ts";
import { routes as analyticsRoutes } from "../resources/analytics/routes.ts";
import { routes as tasksRoutes } from "../resources/tasks/routes.ts";
import { routes as usersRoutes } from "../resources/users/routes.ts";
import { routes as usageRoutes } from "../usage/routes.ts";
import { routes as webhooksDeliveryRoutes } from "../webhooks/delivery-routes.ts";
import { routes as webhooksRedeliveryRoutes } from "../webhooks/redelivery-routes.ts";
import { routes as webhooksRoutes } from "../webhooks/routes.ts";

/** The routers of all areas that are served, in the order of the documentation. */
export const routers: readonly ApiRouter[] = [
  ...(servesSamples ? [usersRoutes] : []),
  ...(servesSamples ? [tasksRoutes] : []),
  ...(servesSamples ? [analyticsRoutes] : []),
  meRoutes,
  usageRoutes,
  activityRoutes,
  keysRoutes,
  keysLeakedKeyRoutes,
  admissionRoutes,
  webhooksRoutes,
  webhooksDeliveryRoutes,
  webhooksRedeliveryRoutes,
  eventsRoutes,
  auditRoutes,
  openapiRoutes,
];
