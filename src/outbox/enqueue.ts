import { messagesOf } from "../db/failures.ts";
import { inBatches } from "../lib/in-batches.ts";
import { secondMs } from "../lib/time/clock.ts";

/** A delivery whose next attempt is due `delayMs` milliseconds from now. */
export interface DueDelivery {
  id: string;
  delayMs: number;
}

/** Enqueues deliveries for their next attempt. If a queue message is lost, the sweep finds the delivery. */
export type EnqueueDeliveries = (due: readonly DueDelivery[]) => void;

/** A queue message for a delivery that may be due. The message only triggers the delivery, and D1 holds the state of the delivery. */
export interface DeliveryMessage {
  deliveryId: string;
}

const messagesAtOnce = 100;

/** Adds deliveries to the queue. Returns whether the queue accepted the deliveries. If the queue fails, the sweep finds the deliveries. */
export async function enqueueDeliveries(queue: Queue<DeliveryMessage>, due: readonly DueDelivery[]): Promise<boolean> {
  const messages = due.map(({ id, delayMs }) => ({ body: { deliveryId: id }, delaySeconds: Math.ceil(delayMs / secondMs) }));
  try {
    for (const some of inBatches(messages, messagesAtOnce)) await queue.sendBatch(some);
    return true;
  } catch (error) {
    console.error(`${due.length} deliveries wait for the sweep, since the queue did not take them:`, messagesOf(error));
    return false;
  }
}

/** Returns a function that enqueues deliveries in the background. `waitUntil`: keeps the Worker alive until the given promise settles. */
export const enqueueVia =
  (queue: Queue<DeliveryMessage>, waitUntil: (work: Promise<unknown>) => void): EnqueueDeliveries =>
  (due) => {
    if (due.length > 0) waitUntil(enqueueDeliveries(queue, due));
  };
