import { Hono } from "hono";
import { eventCatalogue } from "../../../outbox/catalogue.ts";
import { eventRetentionMs } from "../../../outbox/retention.ts";
import { type Delivery, deliveryStatuses } from "../../../webhooks/deliveries/read-deliveries.ts";
import { countRedeliveries, redeliverAll } from "../../../webhooks/redeliveries/redeliver-many.ts";
import { readWebhook } from "../../../webhooks/subscriptions/read-webhooks.ts";
import { needs } from "../../access/needs.ts";
import { Action, ButtonLink, Options } from "../../components/fields.tsx";
import { showPage } from "../../components/layout.tsx";
import { Alert } from "../../components/notice.tsx";
import { idOf, type PageEnv } from "../../context.ts";
import { newNonce, runFormIdempotently } from "../../form-idempotency.ts";
import { counted, integer } from "../../format.ts";
import { attempt, readForm } from "../../forms.ts";
import { contextOf } from "../../operation-contexts.ts";
import { trailOf } from "../webhooks/page.tsx";

/** The pages that redeliver all deliveries of one webhook that match a filter. */
export const redeliveryPages = new Hono<PageEnv>();

/** Shows the number of matching deliveries before anything is sent. */
redeliveryPages.get("/webhooks/:id/redeliver", needs("webhooks"), async (c) => {
  const context = contextOf(c);
  const webhook = await readWebhook(context, idOf(c));
  const status = statusOf(c.req.query("status"));
  const type = eventCatalogue.find(c.req.query("event_type") ?? "")?.type;
  const counting = await attempt(() => countRedeliveries(context, webhook.id, filterOf(context.now, status, type)));
  const { count, pending } = "formError" in counting ? { count: 0, pending: 0 } : counting.result;
  return showPage(
    c,
    {
      title: "Redeliver",
      section: "Webhooks",
      trail: trailOf(webhook),
    },
    <>
      <Alert formError={"formError" in counting ? counting.formError : undefined} />
      <section class="panel" aria-labelledby="count">
        <h2 id="count">
          {counted(count, "event")} {count === 1 ? "matches" : "match"}
        </h2>
        <form class="filters" method="get" action={`/webhooks/${webhook.id}/redeliver`}>
          <label for="status">Status</label>
          <select id="status" name="status">
            <Options of={[["", "failed, held and pending"], ...deliveryStatuses]} chosen={status} />
          </select>
          <label for="event_type">Type</label>
          <select id="event_type" name="event_type">
            <Options of={[["", "every type"], ...eventCatalogue.types]} chosen={type} />
          </select>
          <button type="submit">Count</button>
        </form>
        <p>
          The filter selects events of the last 30 days. Each event is sent as a new delivery with the same webhook-id. To protect the
          receiver, only five events per second are sent.
        </p>
        {pending > 0 && (
          <p>
            {integer(pending)} of these events {pending === 1 ? "waits" : "wait"} for an attempt. “Redeliver all” sends{" "}
            {pending === 1 ? "it" : "them"} now.
          </p>
        )}
        <div class="buttons">
          {count > 0 && (
            <Action
              action={`/webhooks/${webhook.id}/redeliver`}
              kind="main"
              hidden={{ nonce: newNonce(), ...(status && { status }), ...(type && { event_type: type }) }}
            >
              Redeliver all
            </Action>
          )}
          <ButtonLink href={`/webhooks/${webhook.id}`}>Back to the webhook</ButtonLink>
        </div>
      </section>
    </>,
  );
});

redeliveryPages.post("/webhooks/:id/redeliver", needs("webhooks", "always"), async (c) => {
  const form = await readForm(c);
  const type = eventCatalogue.find(form.text("event_type"))?.type;
  const made = await attempt(() =>
    runFormIdempotently(c, form, (commit) => {
      const context = contextOf(c, commit);
      return redeliverAll(context, idOf(c), filterOf(context.now, statusOf(form.text("status")), type));
    }),
  );
  const path = `/webhooks/${idOf(c)}`;
  if ("formError" in made)
    return showPage(
      c,
      {
        title: "Redeliver",
        section: "Webhooks",
        status: 409,
        trail: trailOf({ id: idOf(c), url: "The webhook" }),
      },
      <Alert formError={made.formError} />,
    );
  return c.redirect("repeated" in made.result ? `${path}?done=sent-before` : `${path}?redelivery=${made.result.result.id}`, 303);
});

const statusOf = (text: string | undefined): Delivery["status"] | undefined => deliveryStatuses.find((status) => status === text);

const filterOf = (now: number, status: Delivery["status"] | undefined, type: string | undefined) => ({
  from: now - eventRetentionMs,
  statuses: status === undefined ? (["failed", "held", "pending"] as const) : [status],
  eventTypes: type === undefined ? undefined : [type],
});
