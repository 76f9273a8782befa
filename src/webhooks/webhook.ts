import { z } from "zod";
import { iso } from "../time/clock.ts";
import { timeOf } from "../time/iso-text.ts";
import type { webhooks } from "./tables.ts";

export type Webhook = typeof webhooks.$inferSelect;

const webhookStatuses = ["active", "disabled", "failing"] as const;

/** A webhook as everybody outside sees it: in answers and in events. Its secret is in neither. */
export const WebhookData = z.strictObject({
  id: z.string().meta({ description: "The id of the webhook.", examples: ["whk_019a1b2c3d4e7f8091a2b3c4d5e6f708"] }),
  url: z.string().meta({ description: "Where its events are posted to.", examples: ["https://hooks.acme.dev/overview"] }),
  description: z.string().meta({ description: "What it is for; empty where nobody said.", examples: ["Chat room of the team"] }),
  event_types: z
    .array(z.string())
    .meta({ description: "The types of events that it is sent; `*` stands for all.", examples: [["task.created", "task.completed"]] }),
  status: z.enum(webhookStatuses).meta({
    description:
      "How it does: `active`, `failing` while its latest attempt failed and further ones are made, `disabled` while its events are held.",
    examples: ["active"],
  }),
  disabled_reason: z
    .string()
    .nullable()
    .meta({ description: "Why it was disabled, in a sentence; null while it is not.", examples: [null] }),
  created_at: timeOf("When the webhook was made."),
  updated_at: timeOf("When the webhook was last changed."),
});

export const webhookData = (webhook: Webhook): z.infer<typeof WebhookData> => ({
  id: webhook.id,
  url: webhook.url,
  description: webhook.description,
  event_types: webhook.eventTypes,
  status: webhook.state === "active" && webhook.failingSince !== null ? "failing" : webhook.state,
  disabled_reason: webhook.disabledReason,
  created_at: iso(webhook.createdAt),
  updated_at: iso(webhook.updatedAt),
});
