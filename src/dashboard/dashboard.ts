import { Hono } from "hono";
import type { EventCatalogue } from "../events/catalogue.ts";
import type { PageEnv } from "./context.ts";
import { confirmPages } from "./freshness.tsx";
import { accessPages } from "./pages/access.tsx";
import { activityPages } from "./pages/activity.tsx";
import { auditPages } from "./pages/audit.tsx";
import { deliveriesPages } from "./pages/deliveries.tsx";
import { keyPages } from "./pages/key.tsx";
import { keyRevocationPages } from "./pages/key-revocation.tsx";
import { keyRotationPages } from "./pages/key-rotation.tsx";
import { keysPages } from "./pages/keys.tsx";
import { memberRemovalPages } from "./pages/member-removal.tsx";
import { overview } from "./pages/overview.tsx";
import { ownSignInPages } from "./pages/own-sign-in.tsx";
import { peoplePages } from "./pages/people.tsx";
import { redeliveryPages } from "./pages/redelivery.tsx";
import { requestPages } from "./pages/request.tsx";
import { sampleDataPages } from "./pages/sample-data.tsx";
import { search } from "./pages/search.tsx";
import { settingsPages } from "./pages/settings.tsx";
import { signInPages } from "./pages/sign-in.tsx";
import { usagePages } from "./pages/usage.tsx";
import { webhookPages } from "./pages/webhook.tsx";
import { webhookSecretPages } from "./pages/webhook-secret.tsx";
import { webhooksPages } from "./pages/webhooks.tsx";

/** The overview's pages, behind `admitVisitor`, and those for who has not signed in. */
export function createDashboard(catalogue: EventCatalogue) {
  const dashboard = new Hono<PageEnv>();
  const all = [
    signInPages,
    accessPages,
    confirmPages,
    overview,
    usagePages,
    keysPages,
    keyPages,
    keyRotationPages,
    keyRevocationPages,
    deliveriesPages(catalogue),
    redeliveryPages(catalogue),
    webhooksPages(catalogue),
    webhookPages(catalogue),
    webhookSecretPages(catalogue),
    activityPages,
    requestPages,
    auditPages,
    settingsPages,
    peoplePages,
    memberRemovalPages,
    ownSignInPages,
    sampleDataPages,
    search,
  ];
  for (const pages of all) dashboard.route("/", pages);
  return dashboard;
}
