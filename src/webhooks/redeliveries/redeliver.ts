import { and, eq, lte, type SQL, sql } from "drizzle-orm";
import { deliveries } from "../../db/areas/webhooks/tables.ts";
import { raw, type Statement } from "../../db/client.ts";
import { wrote } from "../../db/optimistic-locking.ts";
import { Failure } from "../../lib/errors/failure.ts";
import { newId } from "../../lib/ids.ts";
import { eventCatalogue } from "../../outbox/catalogue.ts";
import { firstDeliveryIdOf } from "../../outbox/delivery-id.ts";
import { newExampleEvent } from "../../outbox/event.ts";
import { readEvent } from "../../outbox/read-events.ts";
import { storeEventOnly } from "../../outbox/store-events.ts";
import { type Delivery, readDelivery, type WithAttempts } from "../deliveries/read-deliveries.ts";
import { testEvent } from "../subscriptions/events.ts";
import { readWebhook } from "../subscriptions/read-webhooks.ts";
import type { Webhook } from "../subscriptions/webhook.ts";
import type { WebhookContext, WebhookReadContext } from "../subscriptions/write-webhooks.ts";

/**
 * Sends the event of a delivery again. Returns the id of the new delivery. Throws `not_found` if the delivery, its webhook or its event
 * does not exist. Throws `forbidden` if the acting key may not read the event. Throws `conflict` if the webhook is disabled.
 */
export async function redeliver(context: WebhookContext, deliveryId: string): Promise<string> {
  const before = await readReadable(context, deliveryId);
  requireActive(await readWebhook(context, before.webhookId));
  // An event is deleted after 30 days. A younger delivery that repeats the event can still exist. In this case, `readEvent` throws
  // `not_found`.
  await readEvent(context, before.eventId);
  const again = { ...before, id: newId("dlv", context.now), redeliveryOf: before.id };
  return sendNow(context, again, [raw(context.db, supersedeAll(before.id, again.id))]);
}

/** Throws `not_found` if the delivery does not exist. Throws `forbidden` if the acting key may not read the delivery's event. */
export async function authorizeRedelivery(context: WebhookReadContext, deliveryId: string): Promise<void> {
  await readReadable(context, deliveryId);
}

async function readReadable(context: WebhookReadContext, deliveryId: string): Promise<WithAttempts> {
  const delivery = await readDelivery(context, deliveryId);
  eventCatalogue.requireReadable([delivery.eventType], context.scopes);
  return delivery;
}

/**
 * Sends a test event to one webhook. Returns the id of the delivery. The test event is a `webhook.test`, or an event of another type with
 * example data. Throws `not_found` if the webhook does not exist. Throws `forbidden` if the acting key may not read events of this type.
 * Throws `conflict` if the webhook is disabled.
 */
export async function sendTest(context: WebhookContext, webhookId: string, type: string): Promise<string> {
  const { db, now, requestId } = context;
  const webhook = await readWebhook(context, webhookId);
  authorizeTest(context, type);
  requireActive(webhook);
  const kind = eventCatalogue.find(type);
  const event = type === "webhook.test" || !kind ? testEvent(webhook, now) : newExampleEvent(kind, { accountId: webhook.accountId, now });
  const { accountId, number } = webhook;
  const id = firstDeliveryIdOf(event.id, number);
  const delivery = { id, accountId, webhookId, eventId: event.id, eventType: event.type, redeliveryOf: null };
  return sendNow(context, delivery, storeEventOnly(db, event, requestId));
}

/** Throws `forbidden` if the acting key may not read events of this type. */
export const authorizeTest = ({ scopes }: WebhookReadContext, type: string): void => eventCatalogue.requireReadable([type], scopes);

/**
 * Makes the next attempt of a pending delivery now. Returns how many attempts were stored before. Throws `not_found` if the delivery does not exist.
 * Throws `forbidden` if the acting key may not read the delivery's event. Throws `conflict` if the delivery is not pending, or if an attempt is in flight.
 */
export async function attemptNow(context: WebhookContext, deliveryId: string): Promise<number> {
  const { db, actor, now, commit } = context;
  const before = await readReadable(context, deliveryId);
  const { set } = await commit({
    accountId: actor.accountId,
    events: [],
    statements: {
      set: db
        .update(deliveries)
        .set({ nextAttemptAt: now })
        .where(
          and(
            eq(deliveries.id, deliveryId),
            eq(deliveries.accountId, actor.accountId),
            eq(deliveries.status, "pending"),
            lte(deliveries.claimedUntil, now),
          ),
        )
        .returning({ id: deliveries.id }),
    },
    scopes: eventCatalogue.scopesFor([before.eventType]),
    due: ({ set: written }) => (wrote(written) ? [{ id: deliveryId, delayMs: 0 }] : []),
  });
  if (!wrote(set))
    throw new Failure(
      "conflict",
      "The delivery is not waiting for an attempt. Either an attempt is in progress, or no further attempt is scheduled.",
    );
  return before.attempts.length;
}

/** The maximum number of deliveries that one statement follows in a chain of repetitions. */
const maxChain = 2000;

/**
 * Returns a statement that marks a delivery and all its later repetitions as superseded by the delivery `by`. The marked deliveries then
 * point directly to `by`, so a chain stays short even after many repetitions.
 */
const supersedeAll = (deliveryId: string, by: string): SQL =>
  sql`UPDATE deliveries SET superseded_by = ${by} WHERE id IN (
    WITH RECURSIVE chain (id, next) AS (
      SELECT id, superseded_by FROM deliveries WHERE id = ${deliveryId}
      UNION ALL SELECT later.id, later.superseded_by FROM chain JOIN deliveries AS later ON later.id = chain.next
      LIMIT ${sql.raw(String(maxChain))}
    ) SELECT id FROM chain)`;

/** Creates one delivery that is due immediately. The statements `first` run before the delivery is inserted. Returns the id of the delivery. */
async function sendNow(
  { db, now, commit }: WebhookContext,
  {
    id,
    accountId,
    webhookId,
    eventId,
    eventType,
    redeliveryOf,
  }: Pick<Delivery, "id" | "accountId" | "webhookId" | "eventId" | "eventType" | "redeliveryOf">,
  first: readonly Statement[],
): Promise<string> {
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
  await commit({
    accountId,
    result: id,
    events: [],
    statements: { first, made: db.insert(deliveries).values(delivery) },
    scopes: eventCatalogue.scopesFor([eventType]),
    due: () => [{ id, delayMs: 0 }],
  });
  return id;
}

/** Throws `conflict` if the webhook is disabled. */
export function requireActive({ state }: Webhook): void {
  if (state === "disabled") throw new Failure("conflict", "The webhook is disabled. Enable it first.");
}
