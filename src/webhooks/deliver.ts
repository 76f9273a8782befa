import { and, eq, isNull, sql } from "drizzle-orm";
import { isNotSuspended } from "../accounts/suspension.ts";
import type { NamedSecret } from "../crypto/secrets.ts";
import { type Db, raw } from "../db/client.ts";
import { rowAsJson, rowOfJson } from "../db/row-as-json.ts";
import { newId } from "../ids/ids.ts";
import { dayMs, iso, minuteMs, secondMs } from "../time/clock.ts";
import { attempt, type Outcome, type Posting, refused } from "./attempt.ts";
import { disableWebhook } from "./disable-webhook.ts";
import { decrypt } from "./encryption.ts";
import { hasSlot, leaseMs, reserveNext } from "./in-flight.ts";
import type { EnqueueDeliveries } from "./outbox.ts";
import { maxAttempts, nextAttemptAt, soonMs } from "./schedule.ts";
import { cutEarlier, storeAttempt } from "./store-attempt.ts";
import { deliveries, webhooks } from "./tables.ts";
import { type UrlContext, urlRefusal } from "./url-rules.ts";
import type { Webhook } from "./webhook.ts";

export const patienceMs = 5 * dayMs;
/** When a delivery that the service itself could not make is looked at again. */
const postponedMs = 5 * minuteMs;
/** How far the clocks of two machines may differ: what is due by less is due. */
const skewMs = secondMs;

export interface Delivering extends Posting {
  db: Db;
  /** 0 to 1. */
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
  /** This one included. */
  attempts_made: number;
  /** Null where the event has been deleted. */
  data: string | null;
  previous: string | null;
  happened_at: number;
  /** The webhook's row (`rowAsJson`); null where it has been deleted. */
  webhook: string | null;
}

/**
 * Makes the attempt of a delivery that is due, unless somebody else makes it or it is not: called twice, it sends once. A crash
 * after the POST and before its record sends again, with the same `webhook-id`.
 */
export async function deliver(delivering: Delivering, deliveryId: string): Promise<void> {
  const claim = crypto.randomUUID();
  const claimed =
    (await claimDelivery(delivering, deliveryId, claim)) ??
    // Where as many are in flight as may be, it is left to one that ends: those that have not ended by now find it.
    ((await leaveToOthers(delivering, deliveryId)) ? await claimDelivery(delivering, deliveryId, claim) : null);
  if (!claimed) return;
  const [delivery, webhook] = claimed;
  // The webhook has been deleted, or the event is past its keeping.
  if (webhook === null || delivery.data === null) return release(delivering, deliveryId, claim, delivery.account_id, { status: "failed" });
  if (webhook.state === "disabled") return release(delivering, deliveryId, claim, delivery.account_id, { status: "held" });
  // A crash, or a D1 that took the claim and no result, has used up the attempts one by one.
  if (delivery.attempts_made > maxAttempts) return release(delivering, deliveryId, claim, delivery.account_id, { status: "failed" });
  let outcome: Outcome;
  try {
    outcome = await post(delivering, delivery, webhook);
  } catch (error) {
    // Not the receiver's doing, so no attempt; it comes back behind those that can be made.
    await release(delivering, deliveryId, claim, delivery.account_id, { nextAttemptAt: delivering.now() + postponedMs }).catch(() => {});
    throw error;
  }
  await record(delivering, deliveryId, claim, delivery, webhook, outcome);
}

/**
 * Takes a delivery for a minute, and reads with it what is to be sent and where. The attempt is counted here, before the POST: so a
 * result that cannot be written does not make it endless. Null where there is nothing to do.
 */
async function claimDelivery({ db, now }: Delivering, deliveryId: string, claim: string): Promise<[Claimed, Webhook | null] | null> {
  const at = now();
  const ofEvent = sql`FROM events WHERE events.account_id = deliveries.account_id AND events.id = deliveries.event_id`;
  const [claimed] = await db.all<Claimed>(
    sql`UPDATE deliveries SET claim = ${claim}, claimed_until = ${at + leaseMs}, attempts_made = attempts_made + 1
    WHERE id = ${deliveryId} AND status = 'pending' AND next_attempt_at <= ${at + skewMs} AND claimed_until <= ${at} AND ${hasSlot(at)}
      AND ${isNotSuspended(sql`deliveries.account_id`)}
    RETURNING account_id, webhook_id, event_id, event_type, attempts_made,
      (SELECT data ${ofEvent}) AS data, (SELECT previous ${ofEvent}) AS previous, (SELECT created_at ${ofEvent}) AS happened_at,
      (SELECT ${rowAsJson(webhooks)} FROM webhooks WHERE webhooks.account_id = deliveries.account_id AND webhooks.id = deliveries.webhook_id) AS webhook`,
  );
  return claimed ? [claimed, claimed.webhook === null ? null : rowOfJson(webhooks, claimed.webhook)] : null;
}

/** Takes back the reservation of a delivery that could be claimed but for the others in flight. Returns whether it is such a one. */
async function leaveToOthers({ db, now }: Delivering, deliveryId: string): Promise<boolean> {
  const at = now();
  const left = await db.all(
    sql`UPDATE deliveries SET reserved_until = 0
    WHERE id = ${deliveryId} AND status = 'pending' AND next_attempt_at <= ${at + skewMs} AND claimed_until <= ${at} RETURNING id`,
  );
  return left.length > 0;
}

async function post(delivering: Delivering, delivery: Claimed, webhook: Webhook): Promise<Outcome> {
  const refusal = urlRefusal(webhook.url, delivering.urls);
  if (refusal !== null) return refused(refusal, delivering.now());
  const previous = delivery.previous === null ? "" : `,"previous":${delivery.previous}`;
  const body = `{"type":${JSON.stringify(delivery.event_type)},"timestamp":"${iso(delivery.happened_at)}","data":${delivery.data}${previous}}`;
  const secrets = await liveSecrets(delivering, webhook);
  return attempt(delivering, { url: webhook.url, eventId: delivery.event_id, body, secrets });
}

async function liveSecrets({ now, encryption }: Delivering, webhook: Webhook): Promise<string[]> {
  const isOverlapping = webhook.overlapEndsAt !== null && now() < webhook.overlapEndsAt;
  const sealed = [webhook.sealedSecret, ...(isOverlapping && webhook.previousSealedSecret ? [webhook.previousSealedSecret] : [])];
  return Promise.all(sealed.map((each) => decrypt(each, webhook.id, encryption)));
}

async function record(
  delivering: Delivering,
  deliveryId: string,
  claim: string,
  delivery: Claimed,
  webhook: Webhook,
  outcome: Outcome,
): Promise<void> {
  const { db, now, random } = delivering;
  const at = now();
  // Where the webhook leads elsewhere by now, it is tried there.
  const isGone = outcome.status === 410 && (await disableWebhook(delivering, webhook, "The receiver answered 410 Gone."));
  const again = outcome.error === null || isGone ? null : nextAttemptAt(delivery.attempts_made, at, random(), outcome.retryAfterMs);
  const status = outcome.error === null ? "delivered" : again === null ? "failed" : "pending";
  const isMine = and(eq(deliveries.id, deliveryId), eq(deliveries.claim, claim));
  const { retryAfterMs, ...result } = outcome;
  const values = { deliveryId, id: newId("att", outcome.at), ...result };
  // What was held or ended meanwhile does not come back for another attempt.
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
  delivering.enqueue(next.map(({ id }) => ({ id, delayMs: 0 })));
  const [own] = recorded;
  if (!own) return;
  await noteHealth(db, webhook, outcome, at, own.failing_since);
  if (outcome.error !== null && own.failing_since !== null && at - own.failing_since >= patienceMs)
    await disableWebhook(delivering, webhook, "Every attempt of five days has failed.", { failingSince: own.failing_since });
  else if (again !== null && again - at <= soonMs) delivering.enqueue([{ id: deliveryId, delayMs: again - at }]);
}

/** Keeps since when a webhook has been failing; nothing to write while all is well. */
async function noteHealth(db: Db, webhook: Webhook, { error }: Outcome, at: number, failingSince: number | null): Promise<void> {
  const own = and(eq(webhooks.accountId, webhook.accountId), eq(webhooks.id, webhook.id), eq(webhooks.url, webhook.url));
  if (error !== null && failingSince === null)
    await db
      .update(webhooks)
      .set({ failingSince: at })
      .where(and(own, isNull(webhooks.failingSince)));
  if (error === null && failingSince !== null) await db.update(webhooks).set({ failingSince: null }).where(own);
}

/** Gives up the claim of a delivery that was not made, takes back its attempt and sets off the next one of the account. */
async function release(
  { db, now, enqueue }: Delivering,
  deliveryId: string,
  claim: string,
  accountId: string,
  left: { status: "held" | "failed" } | { nextAttemptAt: number },
): Promise<void> {
  await db
    .update(deliveries)
    .set({ nextAttemptAt: null, ...left, claim: null, claimedUntil: 0, attemptsMade: sql`${deliveries.attemptsMade} - 1` })
    .where(and(eq(deliveries.id, deliveryId), eq(deliveries.claim, claim), eq(deliveries.status, "pending")));
  const next = await db.all<{ id: string }>(reserveNext(accountId, now()));
  enqueue(next.map(({ id }) => ({ id, delayMs: 0 })));
}
