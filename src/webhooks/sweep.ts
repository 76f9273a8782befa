import { sql } from "drizzle-orm";
import { isNotSuspended } from "../accounts/suspension.ts";
import type { Db } from "../db/client.ts";
import { minuteMs, secondMs } from "../time/clock.ts";
import { type DeliveryMessage, enqueueDeliveries } from "./enqueue.ts";
import { maxInFlight } from "./outbox.ts";

/** What has been due for less is on its way through the queue. */
const overdueMs = 5 * secondMs;
/** What was enqueued is left alone by the next run, however slow the queue is; the one after that enqueues it again. */
const reservedMs = minuteMs + 10 * secondMs;
/** As many calls as one invocation makes by itself, where the queue cannot be reached. */
const maxByHand = 25;
/** Webhooks with something to be sent that one run looks at. */
const webhooksAtOnce = 5000;

interface Sweeping {
  db: Db;
  queue: Queue<DeliveryMessage>;
  deliver: (deliveryId: string) => Promise<void>;
}

/**
 * The guarantee: finds the deliveries that have been due for a while and that no attempt holds, and enqueues them. This covers lost messages.
 * The webhooks take turns, in the order of their ids from after `cursor`, each with the ten that have been due longest: so none can hold up
 * the others. At most `limit`. Answers how many, and the webhook to go on after; null at the end of the round.
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
  const byHand = inTurn(found).slice(0, maxByHand);
  await Promise.all(byHand.map(({ id }) => deliver(id)));
  // Where there are more webhooks than calls, the next run goes on with the next of them.
  const isCut = new Set(found.map(({ webhook }) => webhook)).size > maxByHand;
  return { done: byHand.length, last: isCut ? (byHand.at(-1)?.webhook ?? null) : null };
}

/** The first of each webhook, then the second of each. */
function inTurn<Found extends { webhook: string }>(found: readonly Found[]): Found[] {
  const byWebhook = [...Map.groupBy(found, ({ webhook }) => webhook).values()];
  return Array.from({ length: maxInFlight.ofWebhook }, (_, turn) => byWebhook.flatMap((own) => own[turn] ?? [])).flat();
}

/** The ids of webhooks that something is to be sent to, each found by a seek in the index, however much that is. */
const waitingWebhooks = (cursor: string) => sql`WITH RECURSIVE waiting (id, count) AS (
    SELECT min(webhook_id), 1 FROM deliveries WHERE status = 'pending' AND webhook_id > ${cursor}
    UNION ALL
    SELECT (SELECT min(webhook_id) FROM deliveries WHERE status = 'pending' AND webhook_id > waiting.id), count + 1 FROM waiting
    WHERE id IS NOT NULL AND count < ${webhooksAtOnce}
  ) SELECT id FROM waiting WHERE id IS NOT NULL`;

async function reserve(db: Db, found: readonly { id: string }[], now: number): Promise<void> {
  const ids = JSON.stringify(found.map(({ id }) => id));
  await db.run(sql`UPDATE deliveries SET reserved_until = ${now + reservedMs} WHERE id IN (SELECT value FROM json_each(${ids}))`);
}
