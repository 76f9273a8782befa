import { sql } from "drizzle-orm";
import { isNotSuspended } from "../accounts/suspension.ts";
import type { Db } from "../db/client.ts";
import { minuteMs, secondMs } from "../time/clock.ts";
import { type DeliveryMessage, enqueueDeliveries } from "./enqueue.ts";
import { maxInFlight } from "./in-flight.ts";

/**
 * The sweep enqueues a delivery only if it has been overdue for at least this time, in milliseconds. A delivery that became due more recently is
 * probably still in the queue.
 */
const overdueMs = 5 * secondMs;
/**
 * The time for which an enqueued delivery is reserved, in milliseconds. The next sweep skips the delivery, even if the queue is slow. The sweep after
 * the next one enqueues the delivery again.
 */
const sweepReservationMs = minuteMs + 10 * secondMs;
/** The maximum number of deliveries that one run starts directly if the queue is unavailable. */
const maxDirect = 25;
/** The maximum number of webhooks with pending deliveries that one run reads. */
const webhooksAtOnce = 5000;

interface Sweeping {
  db: Db;
  queue: Queue<DeliveryMessage>;
  deliver: (deliveryId: string) => Promise<void>;
}

/**
 * Ensures that every delivery is attempted, even if its queue message is lost. Finds deliveries that are overdue and unclaimed, and enqueues at most
 * `limit` of them. Webhooks take turns in the order of their ids, starting after `cursor`. Each webhook contributes the ten deliveries that have been
 * due longest, so no webhook can block the others. Returns the number of deliveries, and the id of the webhook after which the next run continues.
 * The id is null if the round is complete.
 */
export async function sweepDeliveries(
  { db, queue, deliver }: Sweeping,
  now: number,
  cursor: string,
  limit: number,
): Promise<{ done: number; last: string | null }> {
  const webhooks = await db.all<{ id: string }>(waitingWebhooks(cursor));
  const found = await db.all<{ id: string; webhook: string }>(
    sql`SELECT deliveries.id, webhook_id AS webhook FROM json_each(${JSON.stringify(webhooks.map(({ id }) => id))}) AS waiting
      CROSS JOIN deliveries ON deliveries.id IN
        (SELECT id FROM deliveries AS own WHERE status = 'pending' AND own.webhook_id = waiting.value AND next_attempt_at <= ${now - overdueMs}
          ORDER BY next_attempt_at LIMIT ${maxInFlight.ofWebhook})
      WHERE claimed_until <= ${now} AND reserved_until <= ${now} AND ${isNotSuspended(sql`deliveries.account_id`)} LIMIT ${limit}`,
  );
  if (found.length === 0) return { done: 0, last: webhooks.length === webhooksAtOnce ? (webhooks.at(-1)?.id ?? null) : null };
  if (
    await enqueueDeliveries(
      queue,
      found.map(({ id }) => ({ id, delayMs: 0 })),
    )
  ) {
    await reserve(db, found, now);
    const isCut = found.length === limit;
    const last = isCut ? found.at(-1)?.webhook : webhooks.length === webhooksAtOnce ? webhooks.at(-1)?.id : null;
    return { done: found.length, last: last ?? null };
  }
  const byHand = inTurn(found).slice(0, maxDirect);
  await Promise.all(byHand.map(({ id }) => deliver(id)));
  // If there are more webhooks than calls, the next run continues with the next webhook.
  const isCut = new Set(found.map(({ webhook }) => webhook)).size > maxDirect;
  return { done: byHand.length, last: isCut ? (byHand.at(-1)?.webhook ?? null) : null };
}

/** Sorts deliveries into turns: first one delivery of each webhook, then a second delivery of each webhook, and so on. */
function inTurn<Found extends { webhook: string }>(found: readonly Found[]): Found[] {
  const byWebhook = [...Map.groupBy(found, ({ webhook }) => webhook).values()];
  return Array.from({ length: maxInFlight.ofWebhook }, (_, turn) => byWebhook.flatMap((own) => own[turn] ?? [])).flat();
}

/**
 * Returns a SELECT of the ids of webhooks with pending deliveries. Finds each webhook with one index seek, regardless of the number of its
 * deliveries.
 */
const waitingWebhooks = (cursor: string) => sql`WITH RECURSIVE waiting (id, count) AS (
    SELECT min(webhook_id), 1 FROM deliveries WHERE status = 'pending' AND webhook_id > ${cursor}
    UNION ALL
    SELECT (SELECT min(webhook_id) FROM deliveries WHERE status = 'pending' AND webhook_id > waiting.id), count + 1 FROM waiting
    WHERE id IS NOT NULL AND count < ${webhooksAtOnce}
  ) SELECT id FROM waiting WHERE id IS NOT NULL`;

async function reserve(db: Db, found: readonly { id: string }[], now: number): Promise<void> {
  const ids = JSON.stringify(found.map(({ id }) => id));
  await db.run(sql`UPDATE deliveries SET reserved_until = ${now + sweepReservationMs} WHERE id IN (SELECT value FROM json_each(${ids}))`);
}
