import { z } from "zod";
import { messagesOf } from "../../db/failures.ts";
import type { DeliveryMessage } from "../../outbox/enqueue.ts";

const DeliveryBody = z.object({ deliveryId: z.string() });

/**
 * For each queue message, starts the delivery that is named in the message, and acknowledges the message. If the delivery cannot be
 * started, retries the message. If a message names no delivery, logs an error and acknowledges the message. Messages in the queue
 * `deadQueue` have used up their retries. Acknowledges the messages of that queue and logs their number. The sweep starts the deliveries of
 * these messages.
 */
export async function consume(
  batch: MessageBatch<DeliveryMessage>,
  deadQueue: string,
  startDelivery: (deliveryId: string) => Promise<void>,
): Promise<void> {
  if (batch.queue === deadQueue) {
    console.error(`${batch.messages.length} messages for deliveries failed too often. The sweep will start their deliveries.`);
    batch.ackAll();
    return;
  }
  await Promise.all(batch.messages.map((message) => startFromMessage(message, startDelivery)));
}

async function startFromMessage(message: Message<DeliveryMessage>, startDelivery: (deliveryId: string) => Promise<void>): Promise<void> {
  const { success, data } = DeliveryBody.safeParse(message.body);
  if (!success) {
    console.error(`the message ${message.id} of the queue names no delivery`);
    return message.ack();
  }
  try {
    await startDelivery(data.deliveryId);
    message.ack();
  } catch (error) {
    console.error(`the delivery ${data.deliveryId} could not be handed on:`, messagesOf(error));
    message.retry();
  }
}
