import { routes as accountDataRoutes } from "./routes/account-data.ts";
import { routes as accountOperationsRoutes } from "./routes/account-operations.ts";
import { routes as accountsRoutes } from "./routes/accounts.ts";
import { routes as adoptRoutes } from "./routes/adopt.ts";
import { routes as auditRoutes } from "./routes/audit.ts";
import { routes as documentRoutes } from "./routes/document.ts";
import { routes as importRoutes } from "./routes/imports.ts";
import { routes as keyFormsRoutes } from "./routes/key-forms.ts";
import { routes as keyOperationsRoutes } from "./routes/key-operations.ts";
import { routes as keysRoutes } from "./routes/keys.ts";
import { routes as maintenanceRoutes } from "./routes/maintenance.ts";
import { routes as plansRoutes } from "./routes/plans.ts";
import { routes as portalRoutes } from "./routes/portal.ts";
import { routes as serviceTokensRoutes } from "./routes/service-tokens.ts";
import { routes as shadowRoutes } from "./routes/shadow.ts";
import { routes as statusRoutes } from "./routes/status.ts";
import { routes as verifyRoutes } from "./routes/verify.ts";
import type { TeamRouter } from "./team-router.ts";

/** The routers of the documented operations of the team API, in the order of the documentation. */
export const teamRouters: readonly TeamRouter[] = [
  verifyRoutes,
  accountsRoutes,
  accountOperationsRoutes,
  accountDataRoutes,
  portalRoutes,
  // `/keys/adopt` comes before `/keys/{id}`.
  adoptRoutes,
  keysRoutes,
  keyOperationsRoutes,
  importRoutes,
  keyFormsRoutes,
  shadowRoutes,
  plansRoutes,
  serviceTokensRoutes,
  statusRoutes,
  maintenanceRoutes,
  auditRoutes,
  documentRoutes,
];
