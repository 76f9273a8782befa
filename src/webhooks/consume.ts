import { z } from "zod";
import { messagesOf } from "../db/failures.ts";
import type { DeliveryMessage } from "./enqueue.ts";

const DeliveryBody = z.object({ deliveryId: z.string() });

/**
 * Starts the delivery that each queue message names, and acknowledges the message. Retries the message if the delivery cannot be started. Reports and
 * acknowledges messages that name no delivery. Messages in `deadQueue` have used up their retries. Reports the number of such messages and leaves
 * their deliveries to the sweep.
 */
export async function consume(
  batch: MessageBatch<DeliveryMessage>,
  deadQueue: string,
  startDelivery: (deliveryId: string) => Promise<void>,
): Promise<void> {
  if (batch.queue === deadQueue) {
    console.error(`${batch.messages.length} messages for deliveries were given up; the sweep goes on with them`);
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
