import { Hono } from "hono";
import type { PageEnv } from "./context.ts";
import { activityPages } from "./pages/activity.tsx";
import { auditPages } from "./pages/audit.tsx";
import { deliveriesPages } from "./pages/deliveries.tsx";
import { keyPages } from "./pages/key.tsx";
import { keyRevocationPages } from "./pages/key-revocation.tsx";
import { keyRotationPages } from "./pages/key-rotation.tsx";
import { keySettingsPages } from "./pages/key-settings.tsx";
import { keysPages } from "./pages/keys.tsx";
import { limitsPages } from "./pages/limits.tsx";
import { memberRemovalPages } from "./pages/member-removal.tsx";
import { memberPages } from "./pages/members.tsx";
import { overview } from "./pages/overview.tsx";
import { ownSignInPages } from "./pages/own-sign-in.tsx";
import { redeliveryPages } from "./pages/redelivery.tsx";
import { requestPages } from "./pages/request.tsx";
import { settingsPages } from "./pages/settings.tsx";
import { usagePages } from "./pages/usage.tsx";
import { webhookPages } from "./pages/webhook.tsx";
import { webhookDeletionPages } from "./pages/webhook-deletion.tsx";
import { webhookSecretPages } from "./pages/webhook-secret.tsx";
import { webhookSettingsPages } from "./pages/webhook-settings.tsx";
import { webhooksPages } from "./pages/webhooks.tsx";
import { confirmPages } from "./step-up.tsx";

/** Returns an app with all pages of the overview. */
export function createPages() {
  const pages = new Hono<PageEnv>();
  const all = [
    confirmPages,
    overview,
    usagePages,
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
