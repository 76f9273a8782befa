import type { ApiRouter } from "./router.ts";
import { routes as activity } from "./routes/activity.ts";
import { routes as audit } from "./routes/audit.ts";
import { routes as deliveries } from "./routes/deliveries.ts";
import { routes as events } from "./routes/events.ts";
import { routes as keys } from "./routes/keys.ts";
import { routes as leakedKeys } from "./routes/leaked-keys.ts";
import { routes as limits } from "./routes/limits.ts";
import { routes as me } from "./routes/me.ts";
import { routes as openapi } from "./routes/openapi.ts";
import { routes as redeliveries } from "./routes/redeliveries.ts";
import { routes as usage } from "./routes/usage.ts";
import { routes as webhooks } from "./routes/webhooks.ts";

/** The routers of all areas, in the order of the documentation. */
export const areaRouters: readonly ApiRouter[] = [
  me,
  usage,
  activity,
  keys,
  leakedKeys,
  limits,
  webhooks,
  deliveries,
  redeliveries,
  events,
  audit,
  openapi,
];
