import { z } from "zod";
import { iso } from "../clock.ts";
import type { webhooks } from "../db/schema.ts";
import { isoText } from "../iso-text.ts";

export type Webhook = typeof webhooks.$inferSelect;

const webhookStatuses = ["active", "disabled", "failing"] as const;

/** A webhook as everybody outside sees it: in answers and in events. Its secret is in neither. */
export const WebhookData = z.strictObject({
  id: z.string().meta({ examples: ["whk_019a1b2c3d4e7f8091a2b3c4d5e6f708"] }),
  url: z.string().meta({ examples: ["https://hooks.acme.dev/overview"] }),
  description: z.string(),
  event_types: z.array(z.string()).meta({ description: "`*` stands for all." }),
  status: z.enum(webhookStatuses).meta({ description: "Failing: its latest attempt failed, and further ones are made." }),
  disabled_reason: z.string().nullable(),
  created_at: isoText,
  updated_at: isoText,
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
