import { sql } from "drizzle-orm";
import { isNotSuspended } from "../../accounts/suspension.ts";
import type { Db } from "../../db/client.ts";
import { minuteMs, secondMs } from "../../lib/time/clock.ts";
import { type DeliveryMessage, enqueueDeliveries } from "../../outbox/enqueue.ts";
import { maxInFlight } from "../../outbox/in-flight.ts";

/**
 * The sweep enqueues only deliveries that have been overdue for at least this time, in milliseconds. If a delivery became due more
 * recently, its message is probably still in the queue.
 */
const overdueMs = 5 * secondMs;
/**
 * When the sweep enqueues a delivery, it reserves the delivery for this time, in milliseconds. The next sweep skips a reserved delivery, so
 * a slow queue does not get a second message. If the delivery is still overdue, the following sweep enqueues the delivery again.
 */
const sweepReservationMs = minuteMs + 10 * secondMs;
/** If the queue is unavailable, one sweep starts at most this many deliveries directly. */
const maxDirect = 25;
/** The maximum number of webhooks per sweep. A sweep reads only webhooks that have pending deliveries. */
const webhooksAtOnce = 5000;

interface Sweeping {
  db: Db;
  queue: Queue<DeliveryMessage>;
  deliver: (deliveryId: string) => Promise<void>;
}

/**
 * Ensures that every delivery is attempted, even if its queue message is lost. Finds overdue deliveries that no caller has claimed, and
 * enqueues at most `limit` deliveries. Reads the webhooks in the order of their ids, starting after `cursor`. From each webhook, takes only
 * the ten deliveries that have been due longest, so no webhook can block the others. Returns the number of enqueued or started deliveries,
 * and the id of a webhook. The next sweep continues after this webhook. If no webhooks are left, the id is null.
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
  const lastRead = webhooks.length === webhooksAtOnce ? (webhooks.at(-1)?.id ?? null) : null;
  if (found.length === 0) return { done: 0, last: lastRead };
  const due = found.map(({ id }) => ({ id, delayMs: 0 }));
  if (await enqueueDeliveries(queue, due)) {
    await reserve(db, found, now);
    return { done: found.length, last: found.length === limit ? (found.at(-1)?.webhook ?? null) : lastRead };
  }
  const byHand = inTurn(found).slice(0, maxDirect);
  await Promise.all(byHand.map(({ id }) => deliver(id)));
  // A sweep may find more webhooks than deliveries that it may start directly. The next sweep then continues after the last webhook that
  // had a turn.
  const isPartial = new Set(found.map(({ webhook }) => webhook)).size > maxDirect;
  return { done: byHand.length, last: isPartial ? (byHand.at(-1)?.webhook ?? null) : null };
}

/**
 * Sorts deliveries by turns. In the first turn, each webhook has one delivery. In the second turn, each webhook has a second delivery, and
 * so on.
 */
function inTurn<Found extends { webhook: string }>(found: readonly Found[]): Found[] {
  const byWebhook = [...Map.groupBy(found, ({ webhook }) => webhook).values()];
  return Array.from({ length: maxInFlight.ofWebhook }, (_, turn) => byWebhook.flatMap((own) => own[turn] ?? [])).flat();
}

/**
 * Returns a SELECT of the ids of webhooks with pending deliveries. Finds each webhook with one index seek, even if the webhook has many
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
