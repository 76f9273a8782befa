import { Hono } from "hono";
import { always } from "../../../db/optimistic-locking.ts";
import { readHealth } from "../../../webhooks/subscriptions/health.ts";
import { readWebhook } from "../../../webhooks/subscriptions/read-webhooks.ts";
import { deleteWebhook } from "../../../webhooks/subscriptions/write-webhooks.ts";
import { needs } from "../../access/needs.ts";
import { Action, ButtonLink } from "../../components/fields.tsx";
import { showPage } from "../../components/layout.tsx";
import { idOf, type PageEnv } from "../../context.ts";
import { counted } from "../../format.ts";
import { attempt } from "../../forms.ts";
import { contextOf } from "../../operation-contexts.ts";
import { trailOf } from "../webhooks/page.tsx";
import { showDeliveries } from "./page.tsx";

/** The page that asks before a webhook is deleted. */
export const webhookDeletionPages = new Hono<PageEnv>();

webhookDeletionPages.get("/webhooks/:id/delete", needs("webhooks"), async (c) => {
  const context = contextOf(c);
  const webhook = await readWebhook(context, idOf(c));
  const { waiting, held } = await readHealth(context, webhook.id);
  return showPage(
    c,
    { title: "Delete a webhook", section: "Webhooks", trail: trailOf(webhook) },
    <section class="panel">
      <p>
        Nothing more will be sent to <code class="break">{webhook.url}</code>.{" "}
        {waiting + held > 0 && `${counted(waiting + held, "waiting delivery", "waiting deliveries")} will not be sent. `}
        To stop the webhook temporarily, disable it instead. Its events are then held.
      </p>
      <div class="buttons">
        <Action action={`/webhooks/${webhook.id}/delete`} kind="danger">
          Delete
        </Action>
        <ButtonLink href={`/webhooks/${webhook.id}`}>Keep it</ButtonLink>
      </div>
    </section>,
  );
});

webhookDeletionPages.post("/webhooks/:id/delete", needs("webhooks", "always"), async (c) => {
  const deleted = await attempt(() => deleteWebhook(contextOf(c), idOf(c), always));
  return "formError" in deleted ? showDeliveries(c, { formError: deleted.formError }) : c.redirect("/webhooks?done=deleted", 303);
});
