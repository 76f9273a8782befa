import { Hono } from "hono";
import { always } from "../../../db/optimistic-locking.ts";
import { eventCatalogue } from "../../../outbox/catalogue.ts";
import { deliveryStatuses, listDeliveries, readDelivery, readLatestAttempts } from "../../../webhooks/deliveries/read-deliveries.ts";
import { readRedelivery } from "../../../webhooks/redeliveries/read-redeliveries.ts";
import { sendTest } from "../../../webhooks/redeliveries/redeliver.ts";
import { changeWebhook } from "../../../webhooks/subscriptions/change-webhook.ts";
import { readHealth } from "../../../webhooks/subscriptions/health.ts";
import type { Webhook } from "../../../webhooks/subscriptions/webhook.ts";
import { needs } from "../../access/needs.ts";
import { mayReadEvents } from "../../access/permissions.tsx";
import { AttemptResult } from "../../components/attempts.tsx";
import { Action } from "../../components/fields.tsx";
import { Done } from "../../components/notice.tsx";
import { resultOf } from "../../components/status.tsx";
import { Moment } from "../../components/time.tsx";
import { VerifySnippets } from "../../components/verify-snippets.tsx";
import { DeliveriesPanel, WebhookFacts } from "../../components/webhook-panels.tsx";
import { idOf, type PageContext, type PageEnv } from "../../context.ts";
import { newNonce, runFormIdempotently } from "../../form-idempotency.ts";
import { counted, integer } from "../../format.ts";
import { attempt, readForm, type Sent } from "../../forms.ts";
import { contextOf } from "../../operation-contexts.ts";
import { openWebhook, showTab } from "./frame.tsx";

const deliveriesShown = 25;

/** Redirects to the page of the webhook. The page shows the message for `done`. */
const backToWebhook = (c: PageContext, done: string) => c.redirect(`/webhooks/${idOf(c)}?done=${done}`, 303);

/** The pages of one webhook: its health, its deliveries and its actions. */
export const webhookPages = new Hono<PageEnv>();

/** Responds with the tab of the deliveries of a webhook. */
export const showDeliveries = async (c: PageContext, { formError }: Sent = {}) => {
  const context = contextOf(c);
  const { now } = context;
  const opened = await openWebhook(c);
  const { webhook, isManageable } = opened;
  const filter = {
    status: deliveryStatuses.find((status) => status === c.req.query("status")),
    eventType: eventCatalogue.find(c.req.query("event_type") ?? "")?.type,
  };
  const matching = { statuses: filter.status && [filter.status], eventTypes: filter.eventType ? [filter.eventType] : undefined };
  const redeliveryId = c.req.query("redelivery");
  const testId = c.req.query("tested");
  const [health, deliveries, redelivery, test] = await Promise.all([
    readHealth(context, webhook.id),
    listDeliveries(context, webhook.id, { filter: matching, after: c.req.query("after"), limit: deliveriesShown }),
    redeliveryId ? readRedelivery(context, redeliveryId).catch(() => null) : null,
    testId ? readDelivery(context, testId).catch(() => null) : null,
  ]);
  const latest = await readLatestAttempts(context, deliveries.rows);
  return showTab(
    c,
    opened,
    { tab: "Deliveries", formError },
    <>
      {redelivery && (
        <div id="redelivery" data-refresh={redelivery.status === "running" || undefined}>
          <Done call={`POST /api/v1/webhooks/${webhook.id}/redeliver`}>
            {redelivery.status === "done"
              ? `Attempted again: ${counted(redelivery.count, "event")}. The list shows which were delivered.`
              : `Redelivering: ${integer(redelivery.sent)} of ${counted(redelivery.count, "event")} attempted, at five events per second.`}
          </Done>
        </div>
      )}
      {test?.webhookId === webhook.id && (
        <AttemptResult
          id="test"
          made={test.attempts.at(0)}
          what="The test event"
          waiting="A test event is being sent. The response appears below, among the deliveries."
          call={`POST /api/v1/webhooks/${webhook.id}/test`}
        >
          {isManageable && webhook.state === "active" && (
            <Action action={`/webhooks/${webhook.id}/test`} hidden={{ nonce: newNonce() }}>
              Send again
            </Action>
          )}
        </AttemptResult>
      )}
      {webhook.state === "disabled" && (
        <div class="note alert">
          <p>
            This webhook is disabled. {webhook.disabledReason} Its events are held.{" "}
            {health.held > 0 && `${counted(health.held, "delivery", "deliveries")} held. Enable the webhook, then redeliver the events.`}
          </p>
        </div>
      )}
      <div id="failing" data-refresh>
        {webhook.state === "active" && webhook.failingSince !== null && (
          <div class="note alert">
            <p>
              Failing since <Moment timeMs={webhook.failingSince} />. Each event gets up to ten attempts within about three days. If
              attempts still fail five days after the first failure, the webhook is disabled.
            </p>
            {health.causes.length > 0 && (
              <p>
                Of the latest {counted(health.attempts, "attempt")}, {integer(health.attempts - health.succeeded)} failed:{" "}
                {health.causes.map((cause) => `${resultOf(cause)} (${integer(cause.attempts)})`).join(", ")}.
              </p>
            )}
            {health.advice && <p>The latest one: {health.advice}</p>}
          </div>
        )}
      </div>
      <WebhookFacts webhook={webhook} health={health} now={now} />
      <DeliveriesPanel
        webhook={webhook}
        health={health}
        filter={filter}
        deliveries={deliveries.rows}
        latest={latest}
        next={deliveries.next}
        isFirstPage={c.req.query("after") === undefined}
        isManageable={isManageable}
        isReadable={(type) => mayReadEvents(c, type)}
        now={now}
      />
    </>,
  );
};

webhookPages.get("/webhooks/:id", needs("session"), (c) => showDeliveries(c));

webhookPages.get("/webhooks/:id/verify", needs("session"), async (c) => {
  const opened = await openWebhook(c);
  return showTab(c, opened, { tab: "Verify" }, <VerifySnippets url={opened.webhook.url} />);
});

async function setState(c: PageContext, state: Webhook["state"], done: string) {
  const changed = await attempt(() => changeWebhook(contextOf(c), idOf(c), { state }, always));
  return "formError" in changed ? showDeliveries(c, { formError: changed.formError }) : backToWebhook(c, done);
}

webhookPages.post("/webhooks/:id/disable", needs("webhooks"), (c) => setState(c, "disabled", "disabled"));
webhookPages.post("/webhooks/:id/enable", needs("webhooks", "always"), (c) => setState(c, "active", "enabled"));

webhookPages.post("/webhooks/:id/test", needs("webhooks"), async (c) => {
  const form = await readForm(c);
  const type = eventCatalogue.find(form.text("event_type"))?.type ?? "webhook.test";
  const sent = await attempt(() => runFormIdempotently(c, form, (commit) => sendTest(contextOf(c, commit), idOf(c), type)));
  if ("formError" in sent) return showDeliveries(c, { formError: sent.formError });
  return "repeated" in sent.result
    ? backToWebhook(c, "sent-before")
    : c.redirect(`/webhooks/${idOf(c)}?tested=${encodeURIComponent(sent.result.result)}`, 303);
});
