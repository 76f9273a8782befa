import { routes as accountOperationsRoutes } from "./resources/account-operations.ts";
import { routes as accountsRoutes } from "./resources/accounts.ts";
import { routes as documentRoutes } from "./resources/document.ts";
import { routes as importRoutes } from "./resources/imports.ts";
import { routes as keysRoutes } from "./resources/keys.ts";
import { routes as maintenanceRoutes } from "./resources/maintenance.ts";
import { routes as plansRoutes } from "./resources/plans.ts";
import { routes as serviceTokensRoutes } from "./resources/service-tokens.ts";
import { routes as statusRoutes } from "./resources/status.ts";
import { routes as verifyRoutes } from "./resources/verify.ts";
import type { TeamRouter } from "./team-router.ts";

/** The routers of the documented operations of the team API, in the order of the documentation. */
export const teamRouters: readonly TeamRouter[] = [
  verifyRoutes,
  accountsRoutes,
  accountOperationsRoutes,
  keysRoutes,
  importRoutes,
  plansRoutes,
  serviceTokensRoutes,
  statusRoutes,
  maintenanceRoutes,
  documentRoutes,
];
