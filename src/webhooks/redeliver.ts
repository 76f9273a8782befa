import { and, count, eq, gte, inArray, isNull, lt, ne, type SQL, sql } from "drizzle-orm";
import type { Reading } from "../accounts/actor.ts";
import { secondMs } from "../clock.ts";
import { jsonRows, raw } from "../db/client.ts";
import { deliveries, redeliveries } from "../db/schema.ts";
import { Failure } from "../errors.ts";
import { idBound, newId } from "../ids.ts";
import { type DueDelivery, keepEvent } from "./commit.ts";
import type { Event } from "./event.ts";
import { type Delivery, readDelivery } from "./read-deliveries.ts";
import { readWebhook } from "./read-webhooks.ts";
import { requireReadable } from "./readable.ts";
import type { Webhook } from "./webhook.ts";
import type { WebhookWriting } from "./write-webhooks.ts";

/** A receiver gets what is redelivered to it at this pace, so that it is not flooded. */
const paceMs = secondMs / 5;
/** Wake-ups further ahead are the sweep's. */
const wokenAtOnce = 4500;

/** Sends the event of a delivery once more, as a new delivery. Throws `not_found`, `forbidden`, and `conflict` where the webhook is disabled. */
export async function redeliver(writing: WebhookWriting, deliveryId: string): Promise<string> {
  const { db, now, commit } = writing;
  const before = await readDelivery(writing, deliveryId);
  requireReadable([before.eventType], writing.scopes);
  requireActive(await readWebhook(writing, before.webhookId));
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

/** Which deliveries of a webhook are to be made again: by the time of their events, and by what became of them. */
export interface RedeliveryFilter {
  from: number;
  to?: number | undefined;
  /** By default those that have failed or were held. */
  status?: Delivery["status"] | undefined;
  eventTypes?: readonly string[] | undefined;
}

/** How many deliveries match. Each event counts once, however often it was redelivered. Throws `not_found` and `forbidden`. */
export async function countRedeliveries(writing: WebhookWriting, webhookId: string, filter: RedeliveryFilter): Promise<number> {
  const webhook = await readWebhook(writing, webhookId);
  requireReadable(filter.eventTypes ?? webhook.eventTypes, writing.scopes);
  const [counted] = await writing.db.select({ matching: count() }).from(deliveries).where(matching(webhook, filter));
  return counted?.matching ?? 0;
}

/** Sends all that match once more, five a second. Throws as `redeliver` does. */
export async function redeliverAll(
  writing: WebhookWriting,
  webhookId: string,
  filter: RedeliveryFilter,
): Promise<{ id: string; count: number }> {
  const { db, actor, now, commit } = writing;
  const webhook = await readWebhook(writing, webhookId);
  requireReadable(filter.eventTypes ?? webhook.eventTypes, writing.scopes);
  requireActive(webhook);
  const matched = await db
    .select({ id: deliveries.id, eventId: deliveries.eventId, eventType: deliveries.eventType })
    .from(deliveries)
    .where(matching(webhook, filter))
    .orderBy(deliveries.id);
  const id = newId("rdl", now);
  const made = matched.map((delivery, index) => ({ ...delivery, newId: newId("dlv", now), delayMs: index * paceMs }));
  const rows = made.map((delivery) => [delivery.newId, delivery.eventId, delivery.eventType, delivery.id, now + delivery.delayMs]);
  const due: DueDelivery[] = made.slice(0, wokenAtOnce).map((delivery) => ({ id: delivery.newId, delayMs: delivery.delayMs }));
  const result = { id, count: made.length };
  await commit({
    result,
    events: [],
    statements: [
      db.insert(redeliveries).values({ accountId: actor.accountId, id, webhookId, count: made.length, createdAt: now }),
      ...jsonRows(rows).map((made) =>
        raw(
          db,
          sql`INSERT INTO deliveries (id, account_id, webhook_id, event_id, event_type, redelivery_of, redelivery_id, status, attempts_made, next_attempt_at, claimed_until, created_at)
        SELECT value ->> 0, ${actor.accountId}, ${webhookId}, value ->> 1, value ->> 2, value ->> 3, ${id}, 'pending', 0, value ->> 4, 0, ${now}
        FROM json_each(${made})`,
        ),
      ),
    ],
    due,
  });
  return result;
}

export interface Redelivery {
  id: string;
  count: number;
  /** How many have been attempted. */
  sent: number;
  status: "running" | "done";
}

/** How far a redelivery is. Throws `not_found`. */
export async function readRedelivery({ db, actor }: Reading, id: string): Promise<Redelivery> {
  const [[row], [waiting]] = await db.batch([
    db
      .select()
      .from(redeliveries)
      .where(and(eq(redeliveries.accountId, actor.accountId), eq(redeliveries.id, id))),
    db
      .select({ left: count() })
      .from(deliveries)
      .where(and(eq(deliveries.redeliveryId, id), eq(deliveries.status, "pending"), eq(deliveries.attemptsMade, 0))),
  ]);
  if (!row) throw new Failure("not_found", "There is no such redelivery.");
  const sent = row.count - (waiting?.left ?? 0);
  return { id, count: row.count, sent, status: sent === row.count ? "done" : "running" };
}

function matching({ accountId, id }: Webhook, { from, to, status, eventTypes }: RedeliveryFilter): SQL | undefined {
  return and(
    eq(deliveries.accountId, accountId),
    eq(deliveries.webhookId, id),
    isNull(deliveries.redeliveryOf),
    gte(deliveries.id, idBound("dlv", from)),
    to === undefined ? undefined : lt(deliveries.id, idBound("dlv", to)),
    status === undefined ? inArray(deliveries.status, ["failed", "held"]) : eq(deliveries.status, status),
    eventTypes && inArray(deliveries.eventType, [...eventTypes]),
    ne(deliveries.status, "pending"),
  );
}

function requireActive({ state }: Webhook): void {
  if (state === "disabled") throw new Failure("conflict", "The webhook is disabled. Enable it first.");
}
