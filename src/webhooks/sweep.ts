import { and, asc, eq, lte } from "drizzle-orm";
import { minuteMs, secondMs } from "../clock.ts";
import type { Db } from "../db/client.ts";
import { deliveries } from "../db/schema.ts";
import { type WakeUp, wakeDeliveries } from "./wake.ts";

/** What has been due for less is on its way through the queue. */
const overdueMs = 5 * secondMs;
/** How much of the minute until the next sweep what was found is spread over. */
const spreadMs = 0.8 * minuteMs;
/** As many calls as one invocation makes by itself, where the queue cannot be reached. */
const mostByHand = 100;

interface Sweeping {
  db: Db;
  queue: Queue<WakeUp>;
  deliver: (deliveryId: string) => Promise<void>;
}

/**
 * The guarantee: finds the deliveries that have been due for a while and that nobody attends to, whatever was lost on the way to
 * them, and sets them off, the longest due first, at most `limit` a minute and spread over it.
 */
export async function sweepDeliveries({ db, queue, deliver }: Sweeping, now: number, limit: number): Promise<void> {
  const found = await db
    .select({ id: deliveries.id })
    .from(deliveries)
    .where(and(eq(deliveries.status, "pending"), lte(deliveries.nextAttemptAt, now - overdueMs), lte(deliveries.claimedUntil, now)))
    .orderBy(asc(deliveries.nextAttemptAt))
    .limit(limit);
  const due = found.map(({ id }, index) => ({ id, delayMs: Math.floor((index / limit) * spreadMs) }));
  if (due.length === 0 || (await wakeDeliveries(queue, due))) return;
  await Promise.all(due.slice(0, mostByHand).map(({ id }) => deliver(id)));
}
