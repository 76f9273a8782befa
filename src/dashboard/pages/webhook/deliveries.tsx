import { Hono } from "hono";
import { bodyOf } from "../../../outbox/event.ts";
import { readEvent } from "../../../outbox/read-events.ts";
import { type Delivery, readDelivery } from "../../../webhooks/deliveries/read-deliveries.ts";
import { attemptNow, redeliver } from "../../../webhooks/redeliveries/redeliver.ts";
import { readWebhook } from "../../../webhooks/subscriptions/read-webhooks.ts";
import { needs } from "../../access/needs.ts";
import { mayReadEvents, showForbidden, visitorMay } from "../../access/permissions.tsx";
import { AttemptResult, Timeline } from "../../components/attempts.tsx";
import { Action } from "../../components/fields.tsx";
import { showPage } from "../../components/layout.tsx";
import { Alert, Done } from "../../components/notice.tsx";
import { Code } from "../../components/secret.tsx";
import { DeliveryState } from "../../components/status.tsx";
import { Moment } from "../../components/time.tsx";
import { idOf, type PageContext, type PageEnv } from "../../context.ts";
import { newNonce, runFormIdempotently } from "../../form-idempotency.ts";
import { attempt, type FormError, readForm } from "../../forms.ts";
import { contextOf } from "../../operation-contexts.ts";
import { trailOf, webhooksTrail } from "../webhooks/page.tsx";

const sentences: Record<Delivery["status"], string> = {
  delivered: "The receiver accepted the event.",
  pending: "The event has not been delivered yet.",
  failed: "No further attempt is made automatically. You can redeliver the event.",
  held: "The webhook is disabled. Enable the webhook, then redeliver the event.",
};

export const deliveriesPages = new Hono<PageEnv>();

const showDelivery = async (c: PageContext, formError?: FormError) => {
  const context = contextOf(c);
  const { now } = context;
  const delivery = await readDelivery(context, idOf(c));
  // A delivery contains the receiver's response, which may repeat the event. Reading a delivery therefore needs the scope of its event.
  if (!mayReadEvents(c, delivery.eventType)) return showForbidden(c, "audit");
  const [event, webhook] = await Promise.all([
    readEvent(context, delivery.eventId).catch(() => null),
    readWebhook(context, delivery.webhookId).catch(() => null),
  ]);
  const latest = delivery.attempts.at(-1);
  // A click on "Try now" leads here, with the number of attempts before it.
  const made = delivery.attempts[Number(c.req.query("after"))];
  return showPage(
    c,
    {
      title: `Delivery of ${delivery.eventType}`,
      section: "Webhooks",
      status: formError ? 409 : 200,
      trail: webhook ? trailOf(webhook) : webhooksTrail,
      action: webhook && visitorMay(c, "webhooks") && (
        <Action action={`/deliveries/${delivery.id}/redeliver`} kind="main" hidden={{ nonce: newNonce() }}>
          Redeliver
        </Action>
      ),
    },
    <>
      {c.req.query("done") === "redelivered" && (
        <Done call={`POST /api/v1/deliveries/${delivery.redeliveryOf}/redeliver`}>
          This is the new delivery. The response appears below.
        </Done>
      )}
      {c.req.query("done") === "attempted" && (made !== undefined || delivery.status === "pending") && (
        <AttemptResult
          id="attempted"
          made={made}
          what="The attempt"
          waiting="The next attempt is being made now. The response appears below."
          call={`POST /api/v1/deliveries/${delivery.id}/attempt`}
        />
      )}
      <Alert formError={formError} />
      <section class="panel" aria-labelledby="attempts" id="progress" data-refresh={delivery.status === "pending" || undefined}>
        <header>
          <div>
            <h2 id="attempts">Attempts</h2>
            <DeliveryState delivery={delivery} latest={latest} now={now} />
          </div>
          {delivery.status === "pending" && visitorMay(c, "webhooks") && (
            <Action action={`/deliveries/${delivery.id}/attempt`}>Try now</Action>
          )}
        </header>
        <p>
          {latest?.advice ??
            (webhook === null && delivery.status !== "delivered"
              ? "The webhook was deleted, so nothing more is sent."
              : sentences[delivery.status])}
        </p>
        {delivery.redeliveryOf && (
          <p>
            This delivery repeats <a href={`/deliveries/${delivery.redeliveryOf}`}>an earlier delivery</a>.
          </p>
        )}
        <Timeline delivery={delivery} now={now} />
        {webhook && visitorMay(c, "webhooks") && (
          <p class="help">
            {delivery.status === "pending" && "“Try now” makes the next attempt immediately. "}“Redeliver” sends the event again, as a new
            delivery with attempts of its own.
          </p>
        )}
      </section>
      <section class="panel" aria-labelledby="event">
        <h2 id="event">The event</h2>
        {event ? (
          <>
            <p>
              <code class="break">{event.id}</code> · <Moment timeMs={event.createdAt} />
              {event.requestId && (
                <>
                  {" "}
                  · <a href={`/activity/${event.requestId}`}>The request that caused it</a>
                </>
              )}
            </p>
            <Code label="Request body" id="event-body">
              {JSON.stringify(bodyOf(event), null, 2)}
            </Code>
          </>
        ) : (
          <p class="quiet">This event no longer exists, because events are deleted after 30 days.</p>
        )}
      </section>
    </>,
  );
};

deliveriesPages.get("/deliveries/:id", needs("session"), (c) => showDelivery(c));

deliveriesPages.post("/deliveries/:id/redeliver", needs("webhooks", "always"), async (c) => {
  const form = await readForm(c);
  const made = await attempt(() => runFormIdempotently(c, form, (commit) => redeliver(contextOf(c, commit), idOf(c))));
  if ("formError" in made) return showDelivery(c, made.formError);
  if ("repeated" in made.result) return c.redirect(`/deliveries/${idOf(c)}`, 303);
  return c.redirect(`/deliveries/${made.result.result}?done=redelivered`, 303);
});

deliveriesPages.post("/deliveries/:id/attempt", needs("webhooks"), async (c) => {
  const made = await attempt(() => attemptNow(contextOf(c), idOf(c)));
  if ("formError" in made) return showDelivery(c, made.formError);
  return c.redirect(`/deliveries/${idOf(c)}?done=attempted&after=${made.result}`, 303);
});
