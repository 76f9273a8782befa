import { Hono } from "hono";
import { confirmPages } from "./access/step-up.tsx";
import type { PageEnv } from "./context.ts";
import { activityCsv } from "./pages/activity/csv.ts";
import { activityPages } from "./pages/activity/page.tsx";
import { auditPages } from "./pages/audit/page.tsx";
import { keyPages } from "./pages/key/page.tsx";
import { keyRevocationPages } from "./pages/key/revocation.tsx";
import { keyRotationPages } from "./pages/key/rotation.tsx";
import { keySettingsPages } from "./pages/key/settings.tsx";
import { keysPages } from "./pages/keys/page.tsx";
import { limitsPages } from "./pages/limits/page.tsx";
import { overview } from "./pages/overview/page.tsx";
import { requestPages } from "./pages/request/page.tsx";
import { memberRemovalPages } from "./pages/settings/member-removal.tsx";
import { memberPages } from "./pages/settings/members.tsx";
import { ownSignInPages } from "./pages/settings/own-sign-in.tsx";
import { settingsPages } from "./pages/settings/page.tsx";
import { usageCsv } from "./pages/usage/csv.ts";
import { usagePages } from "./pages/usage/page.tsx";
import { webhookDeletionPages } from "./pages/webhook/deletion.tsx";
import { deliveriesPages } from "./pages/webhook/deliveries.tsx";
import { webhookPages } from "./pages/webhook/page.tsx";
import { redeliveryPages } from "./pages/webhook/redelivery.tsx";
import { webhookSecretPages } from "./pages/webhook/secret.tsx";
import { webhookSettingsPages } from "./pages/webhook/settings.tsx";
import { webhooksPages } from "./pages/webhooks/page.tsx";

/** Returns an app with all pages of the overview. */
export function createPages() {
  const pages = new Hono<PageEnv>();
  const all = [
    confirmPages,
    overview,
    usagePages,
    usageCsv,
    limitsPages,
    keysPages,
    keyPages,
    keySettingsPages,
    keyRotationPages,
    keyRevocationPages,
    deliveriesPages,
    redeliveryPages,
    webhooksPages,
    webhookPages,
    webhookSettingsPages,
    webhookDeletionPages,
    webhookSecretPages,
    activityPages,
    activityCsv,
    requestPages,
    auditPages,
    settingsPages,
    memberPages,
    memberRemovalPages,
    ownSignInPages,
  ];
  for (const some of all) pages.route("/", some);
  return pages;
}
