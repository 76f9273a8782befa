import { and, eq, isNull, sql } from "drizzle-orm";
import { isNotSuspended } from "../../accounts/suspension.ts";
import { deliveries, webhooks } from "../../db/areas/webhooks/tables.ts";
import { type Db, raw } from "../../db/client.ts";
import { rowAsJson, rowOfJson } from "../../db/row-as-json.ts";
import type { NamedSecret } from "../../lib/crypto/secrets.ts";
import { newId } from "../../lib/ids.ts";
import { dayMs, minuteMs } from "../../lib/time/clock.ts";
import type { EnqueueDeliveries } from "../../outbox/enqueue.ts";
import { bodyOf } from "../../outbox/event.ts";
import { hasSlot, hasSlotAtHost, leaseMs, postponeWithoutSlot, reserveNext, skewMs } from "../../outbox/in-flight.ts";
import { disableWebhook } from "../subscriptions/disable-webhook.ts";
import { decrypt } from "../subscriptions/encryption.ts";
import { testType } from "../subscriptions/health.ts";
import { type UrlContext, urlErrorOf } from "../subscriptions/url-rules.ts";
import type { Webhook } from "../subscriptions/webhook.ts";
import { type AttemptContext, attempt, notAttempted, type Outcome } from "./attempt.ts";
import { maxAttempts, nextAttemptAt, soonMs } from "./schedule.ts";
import { cutEarlier, storeAttempt } from "./store-attempt.ts";

export const maxFailingMs = 5 * dayMs;
/** If the service itself fails during an attempt, the delivery is retried after this delay, in milliseconds. */
const postponedMs = 5 * minuteMs;

export interface DeliveryContext extends AttemptContext {
  db: Db;
  /** A random number from 0 to 1, for jitter. */
  random: () => number;
  encryption: readonly NamedSecret[];
  urls: UrlContext;
  enqueue: EnqueueDeliveries;
}

interface Claimed {
  account_id: string;
  webhook_id: string;
  event_id: string;
  event_type: string;
  /** The number of attempts, including the current attempt. */
  attempts_made: number;
  /** The data of the event, as JSON. Null if the event has been deleted. */
  data: string | null;
  previous: string | null;
  happened_at: number;
  /** The row of the webhook, as JSON from `rowAsJson`. Null if the webhook has been deleted. */
  webhook: string | null;
}

/**
 * If the next attempt of a delivery is due and no other call makes the attempt, makes the attempt. If two calls run for the same attempt,
 * only one of the calls sends the event. If the Worker crashes before the result is recorded, the event is sent again with the same
 * `webhook-id`.
 */
export async function deliver(context: DeliveryContext, deliveryId: string): Promise<void> {
  const claim = crypto.randomUUID();
  const claimed =
    (await claimDelivery(context, deliveryId, claim)) ??
    // If no slot is free, clear the reservation. After that, the end of another attempt can start this delivery. Then try to claim the
    // delivery once more, because attempts may have ended before the reservation was cleared.
    (!(await postpone(context, deliveryId)) && (await clearReservation(context, deliveryId))
      ? await claimDelivery(context, deliveryId, claim)
      : null);
  if (!claimed) return;
  const [delivery, webhook] = claimed;
  // The webhook has been deleted, or the event is past its retention.
  if (webhook === null || delivery.data === null) return release(context, deliveryId, claim, delivery.account_id, { status: "failed" });
  if (webhook.state === "disabled") return release(context, deliveryId, claim, delivery.account_id, { status: "held" });
  // All attempts are used up, but some results are missing because of crashes or D1 failures.
  if (delivery.attempts_made > maxAttempts) return release(context, deliveryId, claim, delivery.account_id, { status: "failed" });
  let outcome: Outcome;
  try {
    const { event_type: type, happened_at: createdAt, data, previous } = delivery;
    const body = bodyOf({ type, createdAt, data: JSON.parse(data), previous: previous === null ? null : JSON.parse(previous) });
    outcome = await post(context, webhook, delivery.event_id, JSON.stringify(body));
  } catch (error) {
    // The receiver did not cause this error, so the attempt does not count. During the delay, other deliveries are attempted first.
    await release(context, deliveryId, claim, delivery.account_id, { nextAttemptAt: context.now() + postponedMs }).catch(() => {});
    throw error;
  }
  await record(context, deliveryId, claim, delivery, webhook, outcome);
}

/**
 * Claims a delivery for one minute and reads its event and its webhook. Counts the attempt before the POST. Otherwise, attempts would
 * repeat without end if their results could not be recorded. Returns null if the delivery cannot be claimed.
 */
async function claimDelivery({ db, now }: DeliveryContext, deliveryId: string, claim: string): Promise<[Claimed, Webhook | null] | null> {
  const at = now();
  const ofEvent = sql`FROM events WHERE events.account_id = deliveries.account_id AND events.id = deliveries.event_id`;
  const [claimed] = await db.all<Claimed>(
    sql`UPDATE deliveries SET claim = ${claim}, claimed_until = ${at + leaseMs}, attempts_made = attempts_made + 1
    WHERE id = ${deliveryId} AND status = 'pending' AND next_attempt_at <= ${at + skewMs} AND claimed_until <= ${at} AND ${hasSlot(at)}
      AND ${hasSlotAtHost(at)} AND ${isNotSuspended(sql`deliveries.account_id`)}
    RETURNING account_id, webhook_id, event_id, event_type, attempts_made,
      (SELECT data ${ofEvent}) AS data, (SELECT previous ${ofEvent}) AS previous, (SELECT created_at ${ofEvent}) AS happened_at,
      (SELECT ${rowAsJson(webhooks)} FROM webhooks WHERE webhooks.account_id = deliveries.account_id AND webhooks.id = deliveries.webhook_id) AS webhook`,
  );
  return claimed ? [claimed, claimed.webhook === null ? null : rowOfJson(webhooks, claimed.webhook)] : null;
}

/**
 * If the host of a delivery's webhook has no free slot, postpones the due deliveries of the webhook and starts another delivery of the account. Attempts
 * of other accounts may occupy the slots, so no attempt of this account starts the delivery. Returns whether deliveries were postponed.
 */
async function postpone({ db, now, enqueue }: DeliveryContext, deliveryId: string): Promise<boolean> {
  const at = now();
  const postponed = await db.all<{ id: string; at: number; accountId: string }>(postponeWithoutSlot(deliveryId, at));
  const [first] = postponed;
  if (!first) return false;
  const next = await db.all<{ id: string }>(reserveNext(first.accountId, at));
  const soon = postponed.filter((each) => each.at - at <= soonMs).map((each) => ({ id: each.id, delayMs: each.at - at }));
  enqueue([...next.map(({ id }) => ({ id, delayMs: 0 })), ...soon]);
  return true;
}

/** If a delivery is due and unclaimed, clears the reservation of the delivery. Returns whether the reservation was cleared. */
async function clearReservation({ db, now }: DeliveryContext, deliveryId: string): Promise<boolean> {
  const at = now();
  const left = await db.all(
    sql`UPDATE deliveries SET reserved_until = 0
    WHERE id = ${deliveryId} AND status = 'pending' AND next_attempt_at <= ${at + skewMs} AND claimed_until <= ${at} RETURNING id`,
  );
  return left.length > 0;
}

async function post(context: DeliveryContext, webhook: Webhook, eventId: string, body: string): Promise<Outcome> {
  const urlError = urlErrorOf(webhook.url, context.urls);
  if (urlError !== null) return notAttempted(urlError, context.now());
  const secrets = await liveSecrets(context, webhook);
  return attempt(context, { url: webhook.url, eventId, body, secrets });
}

async function liveSecrets({ now, encryption }: DeliveryContext, webhook: Webhook): Promise<string[]> {
  const isOverlapping = webhook.overlapEndsAt !== null && now() < webhook.overlapEndsAt;
  const encrypted = [
    webhook.encryptedSecret,
    ...(isOverlapping && webhook.previousEncryptedSecret ? [webhook.previousEncryptedSecret] : []),
  ];
  return Promise.all(encrypted.map((each) => decrypt(each, webhook.id, encryption)));
}

async function record(
  context: DeliveryContext,
  deliveryId: string,
  claim: string,
  delivery: Claimed,
  webhook: Webhook,
  outcome: Outcome,
): Promise<void> {
  const { db, now, random } = context;
  const at = now();
  // A test stands apart: it has one attempt, and its failure says nothing about the health of the webhook. A 410 is a request to send no more.
  const isTest = delivery.event_type === testType;
  // If the webhook's URL changed during the attempt, the webhook stays enabled and the next attempt uses the new URL.
  const isGone = outcome.status === 410 && (await disableWebhook(context, webhook, "The receiver responded with 410 Gone."));
  const again =
    outcome.error === null || isGone || isTest ? null : nextAttemptAt(delivery.attempts_made, at, random(), outcome.retryAfterMs);
  const status = outcome.error === null ? "delivered" : again === null ? "failed" : "pending";
  const isMine = and(eq(deliveries.id, deliveryId), eq(deliveries.claim, claim));
  const { retryAfterMs, ...result } = outcome;
  const values = { deliveryId, id: newId("att", outcome.at), ...result };
  // If the delivery was held or ended during the attempt, the delivery is not retried.
  const isOver = sql`status <> 'pending' AND ${Number(again !== null)}`;
  const [, recorded, next] = await db.batch([
    storeAttempt(db, webhook.accountId, values, sql`EXISTS (SELECT 1 FROM deliveries WHERE ${isMine})`),
    raw<{ failing_since: number | null }>(
      db,
      sql`UPDATE deliveries SET claim = NULL, claimed_until = 0,
        status = iif(${isOver}, status, ${status}), next_attempt_at = iif(${isOver}, NULL, ${again})
      WHERE ${isMine}
      RETURNING (SELECT failing_since FROM webhooks WHERE account_id = ${webhook.accountId} AND id = ${webhook.id} AND url = ${webhook.url}) AS failing_since`,
    ),
    raw<{ id: string }>(db, reserveNext(webhook.accountId, at)),
    ...cutEarlier(db, values, delivery.attempts_made),
  ]);
  context.enqueue(next.map(({ id }) => ({ id, delayMs: 0 })));
  const [own] = recorded;
  if (!own || isTest) return;
  await recordHealth(db, webhook, outcome, at, own.failing_since);
  if (outcome.error !== null && own.failing_since !== null && at - own.failing_since >= maxFailingMs)
    await disableWebhook(context, webhook, "All attempts within five days have failed.", { failingSince: own.failing_since });
  else if (again !== null && again - at <= soonMs) context.enqueue([{ id: deliveryId, delayMs: again - at }]);
}

/**
 * After a failed attempt, records the time at which the webhook started to fail. After a successful attempt, clears that time. While every
 * attempt succeeds, writes nothing.
 */
async function recordHealth(db: Db, webhook: Webhook, { error }: Outcome, at: number, failingSince: number | null): Promise<void> {
  const own = and(eq(webhooks.accountId, webhook.accountId), eq(webhooks.id, webhook.id), eq(webhooks.url, webhook.url));
  if (error !== null && failingSince === null)
    await db
      .update(webhooks)
      .set({ failingSince: at })
      .where(and(own, isNull(webhooks.failingSince)));
  if (error === null && failingSince !== null) await db.update(webhooks).set({ failingSince: null }).where(own);
}

/**
 * Releases the claim of a delivery for which no attempt was made. Reduces the number of attempts by one, because the claim increased this
 * number. Then enqueues the next due delivery of the account.
 */
async function release(
  { db, now, enqueue }: DeliveryContext,
  deliveryId: string,
  claim: string,
  accountId: string,
  left: { status: "held" | "failed" } | { nextAttemptAt: number },
): Promise<void> {
  await db
    .update(deliveries)
    .set({
      nextAttemptAt: null,
      ...left,
      ...("status" in left && left.status === "held" && { heldAt: now() }),
      claim: null,
      claimedUntil: 0,
      attemptsMade: sql`${deliveries.attemptsMade} - 1`,
    })
    .where(and(eq(deliveries.id, deliveryId), eq(deliveries.claim, claim), eq(deliveries.status, "pending")));
  const next = await db.all<{ id: string }>(reserveNext(accountId, now()));
  enqueue(next.map(({ id }) => ({ id, delayMs: 0 })));
}
