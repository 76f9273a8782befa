import { z } from "zod";
import { type Event, kindsAbout, newEvent } from "../events/event.ts";
import { type Webhook, WebhookData, webhookData } from "./webhook.ts";

const example = {
  id: "whk_019a1b2c3d4e7f8091a2b3c4d5e6f708",
  url: "https://hooks.acme.dev/overview",
  description: "Chat room of the team",
  event_types: ["task.completed"],
  status: "disabled" as const,
  disabled_reason: "The receiver answered 410 Gone.",
  created_at: "2026-01-30T08:00:00.000Z",
  updated_at: "2026-01-31T09:30:00.000Z",
};

const disabled = kindsAbout(WebhookData, { scope: "webhooks:read", schema: "Webhook", example })(
  "webhook.disabled",
  "A webhook was disabled: by a call, since its receiver is gone, or since that has failed for five days.",
);

const TestData = z.strictObject({
  webhook_id: z.string().meta({ description: "The webhook that was tested." }),
  message: z.string().meta({ description: "A sentence that says so." }),
});

const test = kindsAbout(TestData, {
  scope: "webhooks:read",
  schema: "TestMessage",
  example: { webhook_id: example.id, message: "This is a test." },
})("webhook.test", "Sent on demand, to one webhook alone.");

export const webhookEventKinds = [disabled, test];

export const webhookDisabled = (webhook: Webhook, now: number): Event =>
  newEvent(disabled, { accountId: webhook.accountId, now }, webhookData(webhook));

export const testEvent = ({ accountId, id }: Pick<Webhook, "accountId" | "id">, now: number): Event =>
  newEvent(test, { accountId, now }, { webhook_id: id, message: "This is a test." });
