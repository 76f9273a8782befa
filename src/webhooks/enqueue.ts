import { messagesOf } from "../db/failures.ts";
import { secondMs } from "../time/clock.ts";
import type { DueDelivery, EnqueueDeliveries } from "./outbox.ts";

/** What a message of the queue says: which delivery may be due. D1 is the truth; a message says only when to look. */
export interface DeliveryMessage {
  deliveryId: string;
}

const messagesAtOnce = 100;

/** Puts deliveries into the queue. Returns whether the queue took them; if not, the sweep finds them. */
export async function enqueueDeliveries(queue: Queue<DeliveryMessage>, due: readonly DueDelivery[]): Promise<boolean> {
  const messages = due.map(({ id, delayMs }) => ({ body: { deliveryId: id }, delaySeconds: Math.ceil(delayMs / secondMs) }));
  try {
    for (let from = 0; from < messages.length; from += messagesAtOnce) await queue.sendBatch(messages.slice(from, from + messagesAtOnce));
    return true;
  } catch (error) {
    console.error(`${due.length} deliveries wait for the sweep, since the queue did not take them:`, messagesOf(error));
    return false;
  }
}

/** Enqueues deliveries beside what else is going on. `beside`: keeps the Worker alive until that is done. */
export const enqueueVia =
  (queue: Queue<DeliveryMessage>, beside: (work: Promise<unknown>) => void): EnqueueDeliveries =>
  (due) => {
    if (due.length > 0) beside(enqueueDeliveries(queue, due));
  };
