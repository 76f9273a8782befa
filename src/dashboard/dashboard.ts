import { Hono } from "hono";
import type { EventCatalogue } from "../events/catalogue.ts";
import type { PageEnv } from "./context.ts";
import { activityPages } from "./pages/activity.tsx";
import { deliveriesPages } from "./pages/deliveries.tsx";
import { keyPages } from "./pages/key.tsx";
import { keysPages } from "./pages/keys.tsx";
import { overview } from "./pages/overview.tsx";
import { search } from "./pages/search.tsx";
import { settingsPages } from "./pages/settings.tsx";
import { usagePages } from "./pages/usage.tsx";
import { webhooksPages } from "./pages/webhooks.tsx";

/** The overview's pages, behind `admitVisitor`. */
export function createDashboard(catalogue: EventCatalogue) {
  const dashboard = new Hono<PageEnv>();
  for (const pages of [
    overview,
    usagePages,
    keysPages,
    keyPages,
    deliveriesPages(catalogue),
    webhooksPages(catalogue),
    activityPages,
    settingsPages,
    search,
  ])
    dashboard.route("/", pages);
  return dashboard;
}
