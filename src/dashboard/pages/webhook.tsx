import { Hono } from "hono";
import { always } from "../../db/optimistic-locking.ts";
import { eventCatalogue } from "../../events/catalogue.ts";
import { readHealth } from "../../webhooks/health.ts";
import { deliveryStatuses, listDeliveries } from "../../webhooks/read-deliveries.ts";
import { readRedelivery } from "../../webhooks/read-redeliveries.ts";
import { readWebhook } from "../../webhooks/read-webhooks.ts";
import { sendTest } from "../../webhooks/redeliver.ts";
import { WebhookPatch } from "../../webhooks/schemas.ts";
import type { Webhook } from "../../webhooks/webhook.ts";
import { changeWebhook } from "../../webhooks/write-webhooks.ts";
import { Action } from "../components/fields.tsx";
import { showPage } from "../components/layout.tsx";
import { Alert, Done } from "../components/notice.tsx";
import { Moment } from "../components/time.tsx";
import { VerifySnippets } from "../components/verify-snippets.tsx";
import { DeliveriesPanel, WebhookFacts } from "../components/webhook-panels.tsx";
import { idOf, type PageContext, type PageEnv } from "../context.ts";
import { newNonce, runFormIdempotently } from "../form-idempotency.ts";
import { counted, integer } from "../format.ts";
import { asShown, attempt, Form, ownValue, parseInput, readForm, type Sent } from "../forms.ts";
import { needs } from "../needs.ts";
import { readContext, webhookContext } from "../operation-contexts.ts";
import { visitorMay } from "../permissions.tsx";
import { askForStepUp } from "../step-up.tsx";
import { WebhookFields, webhookInputOf, webhooksTrail } from "./webhooks.tsx";

const deliveriesShown = 25;

/** Maps each value of the `done` query parameter to a message and the matching API call. */
const outcomes: Record<string, (webhook: Webhook) => [sentence: string, call: string]> = {
  changed: ({ id }) => ["Changed. The next attempt uses the new settings.", `PATCH /api/v1/webhooks/${id}`],
  disabled: ({ id }) => [
    "Disabled. The events of this webhook are held until they are redelivered.",
    `PATCH /api/v1/webhooks/${id} {"status": "disabled"}`,
  ],
  enabled: ({ id }) => [
    "Enabled. Held events are not sent automatically, so redeliver them.",
    `PATCH /api/v1/webhooks/${id} {"status": "active"}`,
  ],
  tested: ({ id }) => ["A test event is on its way. The response appears below, among the deliveries.", `POST /api/v1/webhooks/${id}/test`],
  "sent-before": ({ id }) => ["This form was already sent, so nothing was done again.", `GET /api/v1/webhooks/${id}/deliveries`],
};

/** Redirects to the page of the webhook. The page shows the message for `done`. */
const backToWebhook = (c: PageContext, done: string) => c.redirect(`/webhooks/${idOf(c)}?done=${done}`, 303);

/** Returns whether a patch changes the URL or the event types of a webhook. */
function redirects({ url, eventTypes }: Webhook, patch: { url?: string; eventTypes?: string[] }): boolean {
  const isSame = (types: readonly string[]) => types.toSorted().join() === eventTypes.toSorted().join();
  return (patch.url !== undefined && patch.url !== url) || (patch.eventTypes !== undefined && !isSame(patch.eventTypes));
}

/** The pages of one webhook: its health, its deliveries and its actions. */
export const webhookPages = new Hono<PageEnv>();

/** Responds with the page of a webhook. */
export const showWebhook = async (c: PageContext, { form = new Form(), formError }: Sent = {}) => {
  const context = readContext(c);
  const { now } = context;
  const webhook = await readWebhook(context, idOf(c));
  const filter = {
    status: deliveryStatuses.find((status) => status === c.req.query("status")),
    eventType: eventCatalogue.find(c.req.query("event_type") ?? "")?.type,
  };
  const matching = { statuses: filter.status && [filter.status], eventTypes: filter.eventType ? [filter.eventType] : undefined };
  const redeliveryId = c.req.query("redelivery");
  const [health, deliveries, redelivery] = await Promise.all([
    readHealth(context, webhook.id),
    listDeliveries(context, webhook.id, { filter: matching, after: c.req.query("after"), limit: deliveriesShown }),
    redeliveryId ? readRedelivery(context, redeliveryId).catch(() => null) : null,
  ]);
  const { scopes } = webhookContext(c);
  const isReadable = scopes === null || eventCatalogue.scopesFor(webhook.eventTypes).every((scope) => scopes.includes(scope));
  const isManageable = visitorMay(c, "webhooks") && isReadable;
  const done = c.req.query("done") ?? "";
  // A bookmarked URL may contain an outcome that is no longer true.
  const isSo = ownValue({ disabled: webhook.state === "disabled", enabled: webhook.state === "active" }, done) ?? true;
  const outcome = isSo ? ownValue(outcomes, done)?.(webhook) : undefined;
  return showPage(
    c,
    {
      title: webhook.url,
      section: "Webhooks",
      trail: webhooksTrail,
      status: formError ? 422 : 200,
      action: isManageable && (
        <>
          {webhook.state === "active" && (
            <Action action={`/webhooks/${webhook.id}/test`} kind="main" hidden={{ nonce: newNonce() }}>
              Send test event
            </Action>
          )}
          {webhook.state === "disabled" ? (
            <Action action={`/webhooks/${webhook.id}/enable`}>Enable</Action>
          ) : (
            <Action action={`/webhooks/${webhook.id}/disable`}>Disable</Action>
          )}
          <a class="button" href={`/webhooks/${webhook.id}/rotate-secret`}>
            Rotate secret
          </a>
          <a class="button danger" href={`/webhooks/${webhook.id}/delete`}>
            Delete
          </a>
        </>
      ),
    },
    <>
      {outcome && <Done call={outcome[1]}>{outcome[0]}</Done>}
      {redelivery && (
        <div id="redelivery" data-refresh={redelivery.status === "running" || undefined}>
          <Done call={`POST /api/v1/webhooks/${webhook.id}/redeliver`}>
            {redelivery.status === "done"
              ? `Redelivered: ${counted(redelivery.count, "event")} of ${integer(redelivery.count)} attempted.`
              : `Redelivering: ${integer(redelivery.sent)} of ${counted(redelivery.count, "event")} attempted, at five events per second.`}
          </Done>
        </div>
      )}
      <Alert formError={formError} />
      {visitorMay(c, "webhooks") && !isReadable && (
        <div class="note">
          <p>
            This webhook receives events about members. Your role cannot read these events. An admin or an owner of the account can change
            the webhook.
          </p>
        </div>
      )}
      {webhook.state === "disabled" && (
        <div class="note alert">
          <p>
            This webhook is disabled. {webhook.disabledReason} Its events are held.{" "}
            {health.held > 0 && `${counted(health.held, "delivery", "deliveries")} held. Enable the webhook, then redeliver the events.`}
          </p>
        </div>
      )}
      {webhook.state === "active" && webhook.failingSince !== null && (
        <div class="note alert">
          <p>
            Failing since <Moment timeMs={webhook.failingSince} />. Each event gets up to ten attempts within about three days. If attempts
            still fail five days after the first failure, the webhook is disabled.
          </p>
          {health.advice && <p>{health.advice}</p>}
        </div>
      )}
      <WebhookFacts webhook={webhook} health={health} now={now} />
      <DeliveriesPanel
        webhook={webhook}
        health={health}
        filter={filter}
        deliveries={deliveries.rows}
        next={deliveries.next}
        isFirstPage={c.req.query("after") === undefined}
        isManageable={isManageable}
        now={now}
      />
      <VerifySnippets />
      {isManageable && (
        <section class="panel" aria-labelledby="change">
          <h2 id="change">Change</h2>
          <form class="form" method="post" action={`/webhooks/${webhook.id}`}>
            <input type="hidden" name="revision" value={webhook.revision} />
            <WebhookFields form={form} formError={formError} ticked={form.ticked("event_types") ?? webhook.eventTypes} webhook={webhook} />
            <button class="main" type="submit">
              Save
            </button>
          </form>
        </section>
      )}
    </>,
  );
};

webhookPages.get("/webhooks/:id", needs("session"), (c) => showWebhook(c));

webhookPages.post("/webhooks/:id", needs("webhooks", "sometimes"), async (c) => {
  const form = await readForm(c);
  const given = webhookInputOf(form);
  const parsed = parseInput(WebhookPatch, {
    ...(form.has("url") && { url: given.url }),
    ...(form.has("description") && { description: given.description }),
    // Browsers send only ticked checkboxes. The field `revision` shows that the form has the checkboxes, even if none is ticked.
    ...((form.has("event_types") || form.has("revision")) && { event_types: given.event_types }),
  });
  if ("formError" in parsed) return showWebhook(c, { form, formError: parsed.formError });
  const { url, description, event_types: eventTypes } = parsed.input;
  const patch = {
    ...(url !== undefined && { url }),
    ...(description !== undefined && { description: description ?? "" }),
    ...(eventTypes && { eventTypes }),
  };
  const before = await readWebhook(readContext(c), idOf(c));
  const stepUp = redirects(before, patch) ? await askForStepUp(c) : null;
  if (stepUp) return stepUp;
  const changed = await attempt(() =>
    // Change only the revision in `before`, because the step-up check used this revision.
    changeWebhook(webhookContext(c), idOf(c), patch, (revision) => revision === before.revision && asShown(form)(revision)),
  );
  return "formError" in changed ? showWebhook(c, { form, formError: changed.formError }) : backToWebhook(c, "changed");
});

async function setState(c: PageContext, state: Webhook["state"], done: string) {
  const changed = await attempt(() => changeWebhook(webhookContext(c), idOf(c), { state }, always));
  return "formError" in changed ? showWebhook(c, { formError: changed.formError }) : backToWebhook(c, done);
}

webhookPages.post("/webhooks/:id/disable", needs("webhooks"), (c) => setState(c, "disabled", "disabled"));
webhookPages.post("/webhooks/:id/enable", needs("webhooks", "always"), (c) => setState(c, "active", "enabled"));

webhookPages.post("/webhooks/:id/test", needs("webhooks"), async (c) => {
  const form = await readForm(c);
  const type = eventCatalogue.find(form.text("event_type"))?.type ?? "webhook.test";
  const sent = await attempt(() => runFormIdempotently(c, form, (commit) => sendTest(webhookContext(c, commit), idOf(c), type)));
  if ("formError" in sent) return showWebhook(c, { formError: sent.formError });
  return "repeated" in sent.result ? backToWebhook(c, "sent-before") : backToWebhook(c, "tested");
});
