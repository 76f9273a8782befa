import { z } from "zod";
import { manifest } from "../../db/areas/webhooks/manifest.ts";
import { type Event, kindsOf, newEvent } from "../../outbox/event.ts";
import { WebhookData, webhookData } from "./schemas.ts";
import type { Webhook } from "./webhook.ts";

const TestData = z.strictObject({
  webhook_id: z.string().meta({ description: "The id of the webhook that was tested." }),
  message: z.string().meta({ description: "A sentence that identifies this event as a test." }),
});

const [ofWebhook, ofTest] = manifest.events;

export const eventKinds = { ...kindsOf(ofWebhook, WebhookData), ...kindsOf(ofTest, TestData) };

export const webhookDisabled = (webhook: Webhook, now: number): Event =>
  newEvent(eventKinds["webhook.disabled"], { accountId: webhook.accountId, now }, webhookData(webhook));

export const testEvent = ({ accountId, id }: Pick<Webhook, "accountId" | "id">, now: number): Event =>
  newEvent(eventKinds["webhook.test"], { accountId, now }, { webhook_id: id, message: "This is a test." });
