import { deliveries } from "../db/schema.ts";
import { Failure } from "../errors.ts";
import { newId } from "../ids.ts";
import { keepEvent } from "./commit.ts";
import type { Event } from "./event.ts";
import { type Delivery, readDelivery } from "./read-deliveries.ts";
import { readEvent } from "./read-events.ts";
import { readWebhook } from "./read-webhooks.ts";
import { requireReadable } from "./readable.ts";
import type { Webhook } from "./webhook.ts";
import type { WebhookWriting } from "./write-webhooks.ts";

/** Sends the event of a delivery once more, as a new delivery. Throws `not_found`, `forbidden`, and `conflict` where the webhook is disabled. */
export async function redeliver(writing: WebhookWriting, deliveryId: string): Promise<string> {
  const { db, now, commit } = writing;
  const before = await readDelivery(writing, deliveryId);
  requireReadable([before.eventType], writing.scopes);
  requireActive(await readWebhook(writing, before.webhookId));
  // An event goes after 30 days; a delivery that repeats it may be younger.
  await readEvent(writing, before.eventId);
  const id = newId("dlv", now);
  const { attempts, ...row } = before;
  const repeated: Delivery = {
    ...row,
    id,
    redeliveryOf: before.id,
    redeliveryId: null,
    status: "pending",
    attemptsMade: 0,
    nextAttemptAt: now,
    claim: null,
    claimedUntil: 0,
    createdAt: now,
  };
  await commit({ result: id, events: [], statements: [db.insert(deliveries).values(repeated)], due: [{ id, delayMs: 0 }] });
  return id;
}

/** Sends an event to one webhook alone: a `webhook.test`, or one like `event`. Throws `not_found`, `forbidden` and `conflict` as above. */
export async function sendTest(writing: WebhookWriting, webhookId: string, eventFor: (webhook: Webhook) => Event): Promise<string> {
  const { db, now, commit } = writing;
  const webhook = await readWebhook(writing, webhookId);
  const event = eventFor(webhook);
  requireReadable([event.type], writing.scopes);
  requireActive(webhook);
  const id = newId("dlv", now);
  const delivery: Delivery = {
    id,
    accountId: webhook.accountId,
    webhookId,
    eventId: event.id,
    eventType: event.type,
    redeliveryOf: null,
    redeliveryId: null,
    status: "pending",
    attemptsMade: 0,
    nextAttemptAt: now,
    claim: null,
    claimedUntil: 0,
    createdAt: now,
  };
  await commit({
    result: id,
    events: [],
    statements: [...keepEvent(db, event), db.insert(deliveries).values(delivery)],
    due: [{ id, delayMs: 0 }],
  });
  return id;
}

/** Throws `conflict` for a webhook that nothing is sent to. */
export function requireActive({ state }: Webhook): void {
  if (state === "disabled") throw new Failure("conflict", "The webhook is disabled. Enable it first.");
}
