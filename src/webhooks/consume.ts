import { z } from "zod";
import { messagesOf } from "../db/failures.ts";
import type { DeliveryMessage } from "./enqueue.ts";

const DeliveryBody = z.object({ deliveryId: z.string() });

/**
 * Hands each message of the queue to a delivery and acknowledges it. Retries a message that cannot be handed on. Reports and acknowledges a
 * foreign message. Messages of the queue `deadQueue` were given up: they are reported, and the sweep finds their deliveries in D1.
 */
export async function consume(
  batch: MessageBatch<DeliveryMessage>,
  deadQueue: string,
  deliver: (deliveryId: string) => Promise<void>,
): Promise<void> {
  if (batch.queue === deadQueue) {
    console.error(`${batch.messages.length} messages for deliveries were given up; the sweep goes on with them`);
    batch.ackAll();
    return;
  }
  await Promise.all(batch.messages.map((message) => handOn(message, deliver)));
}

async function handOn(message: Message<DeliveryMessage>, deliver: (deliveryId: string) => Promise<void>): Promise<void> {
  const { success, data } = DeliveryBody.safeParse(message.body);
  if (!success) {
    console.error(`the message ${message.id} of the queue names no delivery`);
    return message.ack();
  }
  try {
    await deliver(data.deliveryId);
    message.ack();
  } catch (error) {
    console.error(`the delivery ${data.deliveryId} could not be handed on:`, messagesOf(error));
    message.retry();
  }
}
