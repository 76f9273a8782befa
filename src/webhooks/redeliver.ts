import type { Statement } from "../db/client.ts";
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
  const before = await readDelivery(writing, deliveryId);
  requireReadable([before.eventType], writing.scopes);
  requireActive(await readWebhook(writing, before.webhookId));
  // An event goes after 30 days; a delivery that repeats it may be younger.
  await readEvent(writing, before.eventId);
  return sendNow(writing, { ...before, redeliveryOf: before.id }, []);
}

/** Sends an event to one webhook alone: a `webhook.test`, or one like `event`. Throws `not_found`, `forbidden` and `conflict` as above. */
export async function sendTest(writing: WebhookWriting, webhookId: string, eventFor: (webhook: Webhook) => Event): Promise<string> {
  const webhook = await readWebhook(writing, webhookId);
  const event = eventFor(webhook);
  requireReadable([event.type], writing.scopes);
  requireActive(webhook);
  const delivery = { accountId: webhook.accountId, webhookId, eventId: event.id, eventType: event.type, redeliveryOf: null };
  return sendNow(writing, delivery, keepEvent(writing.db, event));
}

/** Makes a delivery by itself, to be attempted at once, after the statements `first`. Answers its id. */
async function sendNow(
  { db, now, commit }: WebhookWriting,
  {
    accountId,
    webhookId,
    eventId,
    eventType,
    redeliveryOf,
  }: Pick<Delivery, "accountId" | "webhookId" | "eventId" | "eventType" | "redeliveryOf">,
  first: Statement[],
): Promise<string> {
  const id = newId("dlv", now);
  const delivery = {
    id,
    accountId,
    webhookId,
    eventId,
    eventType,
    redeliveryOf,
    status: "pending" as const,
    attemptsMade: 0,
    nextAttemptAt: now,
    claimedUntil: 0,
    createdAt: now,
  };
  await commit({ result: id, events: [], statements: [...first, db.insert(deliveries).values(delivery)], due: [{ id, delayMs: 0 }] });
  return id;
}

/** Throws `conflict` for a webhook that nothing is sent to. */
export function requireActive({ state }: Webhook): void {
  if (state === "disabled") throw new Failure("conflict", "The webhook is disabled. Enable it first.");
}
