import type { WakeUp } from "./wake.ts";

const deadQueue = /-dead-/;

/**
 * Hands each message of the queue to a delivery and acknowledges it; what cannot be handed on is tried again. Messages that
 * were given up are reported: their deliveries are in D1, where the sweep finds them.
 */
export async function consume(batch: MessageBatch<WakeUp>, deliver: (deliveryId: string) => Promise<void>): Promise<void> {
  if (deadQueue.test(batch.queue)) {
    console.error(`${batch.messages.length} wake-ups of deliveries were given up; the sweep goes on with them`);
    batch.ackAll();
    return;
  }
  await Promise.all(
    batch.messages.map(async (message) => {
      try {
        await deliver(message.body.deliveryId);
        message.ack();
      } catch (error) {
        console.error(`the delivery ${message.body.deliveryId} could not be set off:`, String(error));
        message.retry();
      }
    }),
  );
}
