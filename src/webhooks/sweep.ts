import { sql } from "drizzle-orm";
import { minuteMs, secondMs } from "../clock.ts";
import type { Db } from "../db/client.ts";
import { type DeliveryMessage, enqueueDeliveries } from "./enqueue.ts";
import { paceMs } from "./schedule.ts";

/** What has been due for less is on its way through the queue. */
const overdueMs = 5 * secondMs;
/** As many calls as one invocation makes by itself, where the queue cannot be reached. */
const mostByHand = 25;

interface Sweeping {
  db: Db;
  queue: Queue<DeliveryMessage>;
  deliver: (deliveryId: string) => Promise<void>;
}

/**
 * The guarantee: finds the deliveries that have been due for a while and that nobody attends to, whatever was lost on the way to
 * them, and enqueues them: at most `limit` a minute, the webhooks in turn, so that none can hold up the others, and each at a pace.
 */
export async function sweepDeliveries({ db, queue, deliver }: Sweeping, now: number, limit: number): Promise<void> {
  const found = await db.all<{ id: string; turn: number }>(
    sql`SELECT id, turn FROM
      (SELECT id, next_attempt_at, row_number() OVER (PARTITION BY webhook_id ORDER BY next_attempt_at) - 1 AS turn FROM deliveries
        WHERE status = 'pending' AND next_attempt_at <= ${now - overdueMs} AND claimed_until <= ${now})
      WHERE turn < ${minuteMs / paceMs} ORDER BY turn, next_attempt_at LIMIT ${limit}`,
  );
  const due = found.map(({ id, turn }) => ({ id, delayMs: turn * paceMs }));
  if (due.length === 0 || (await enqueueDeliveries(queue, due))) return;
  await Promise.all(due.slice(0, mostByHand).map(({ id }) => deliver(id)));
}
