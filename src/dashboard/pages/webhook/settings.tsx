import { Hono } from "hono";
import { changeWebhook } from "../../../webhooks/subscriptions/change-webhook.ts";
import { readWebhook } from "../../../webhooks/subscriptions/read-webhooks.ts";
import { WebhookPatch } from "../../../webhooks/subscriptions/schemas.ts";
import type { Webhook } from "../../../webhooks/subscriptions/webhook.ts";
import { needs } from "../../access/needs.ts";
import { askForStepUp } from "../../access/step-up.tsx";
import { Submit } from "../../components/fields.tsx";
import { WebhookFields, webhookInputOf } from "../../components/webhook-fields.tsx";
import { WebhookSettings } from "../../components/webhook-panels.tsx";
import { idOf, type PageContext, type PageEnv } from "../../context.ts";
import { asShown, attempt, Form, parseInput, readForm, type Sent } from "../../forms.ts";
import { contextOf } from "../../operation-contexts.ts";
import { openWebhook, showTab } from "./frame.tsx";

/** The tab with the settings of a webhook, and the form that changes them. */
export const webhookSettingsPages = new Hono<PageEnv>();

const showSettings = async (c: PageContext, { form = new Form(), formError }: Sent = {}) => {
  const opened = await openWebhook(c);
  const { webhook, isManageable } = opened;
  return showTab(
    c,
    opened,
    { tab: "Settings", formError },
    <>
      <WebhookSettings webhook={webhook} now={contextOf(c).now} />
      {isManageable && (
        <section class="panel" aria-labelledby="change">
          <h2 id="change">Change</h2>
          <form class="form" method="post" action={`/webhooks/${webhook.id}`}>
            <input type="hidden" name="revision" value={webhook.revision} />
            <WebhookFields form={form} formError={formError} ticked={form.ticked("event_types") ?? webhook.eventTypes} webhook={webhook} />
            <Submit>Save</Submit>
          </form>
        </section>
      )}
    </>,
  );
};

webhookSettingsPages.get("/webhooks/:id/settings", needs("session"), (c) => showSettings(c));

/** Returns whether a patch changes the URL or the event types of a webhook. */
function redirects({ url, eventTypes }: Webhook, patch: { url?: string; eventTypes?: string[] }): boolean {
  const isSame = (types: readonly string[]) => types.toSorted().join() === eventTypes.toSorted().join();
  return (patch.url !== undefined && patch.url !== url) || (patch.eventTypes !== undefined && !isSame(patch.eventTypes));
}

webhookSettingsPages.post("/webhooks/:id", needs("webhooks", "sometimes"), async (c) => {
  const form = await readForm(c);
  const given = webhookInputOf(form);
  const parsed = parseInput(WebhookPatch, {
    ...(form.has("url") && { url: given.url }),
    ...(form.has("description") && { description: given.description }),
    // Browsers send only ticked checkboxes. The field `revision` shows that the form has the checkboxes, even if none is ticked.
    ...((form.has("event_types") || form.has("revision")) && { event_types: given.event_types }),
  });
  if ("formError" in parsed) return showSettings(c, { form, formError: parsed.formError });
  const { url, description, event_types: eventTypes } = parsed.input;
  const patch = {
    ...(url !== undefined && { url }),
    ...(description !== undefined && { description: description ?? "" }),
    ...(eventTypes && { eventTypes }),
  };
  const before = await readWebhook(contextOf(c), idOf(c));
  const stepUp = redirects(before, patch) ? await askForStepUp(c) : null;
  if (stepUp) return stepUp;
  const changed = await attempt(() =>
    // Change only the revision in `before`, because the step-up check used this revision.
    changeWebhook(contextOf(c), idOf(c), patch, (revision) => revision === before.revision && asShown(form)(revision)),
  );
  return "formError" in changed
    ? showSettings(c, { form, formError: changed.formError })
    : c.redirect(`/webhooks/${idOf(c)}/settings?done=changed`, 303);
});
