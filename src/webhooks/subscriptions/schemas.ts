import { z } from "zod";
import { rotation } from "../../lib/inputs/rotation.ts";
import { visibleText } from "../../lib/inputs/values.ts";
import { iso } from "../../lib/time/clock.ts";
import { timeOf } from "../../lib/time/iso-text.ts";
import { eventCatalogue } from "../../outbox/catalogue.ts";
import { maxUrl, urlErrorOf } from "./url-rules.ts";
import type { Webhook } from "./webhook.ts";

export const exampleTypes = eventCatalogue.types.slice(0, 2);

const webhookStatuses = ["active", "disabled", "failing"] as const;

/** The data of a webhook in responses and events. This schema does not include the secret. */
export const WebhookData = z.strictObject({
  id: z.string().meta({ description: "The id of the webhook.", examples: ["whk_019a1b2c3d4e7f8091a2b3c4d5e6f708"] }),
  url: z.string().meta({ description: "The URL that receives the events.", examples: ["https://hooks.acme.dev/overview"] }),
  description: z.string().meta({ description: "The description of the webhook, which can be empty.", examples: ["Chat room of the team"] }),
  event_types: z
    .array(z.string())
    .meta({ description: "The event types that the webhook receives. `*` means all event types.", examples: [[...exampleTypes]] }),
  status: z.enum(webhookStatuses).meta({
    description:
      "The status of the webhook: `active`, `failing` (its latest attempt failed, and attempts continue) or `disabled` (its events are held).",
    examples: ["active"],
  }),
  disabled_reason: z
    .string()
    .nullable()
    .meta({
      description: "A sentence that explains why the webhook was disabled. The value is null if the webhook is not disabled.",
      examples: [null],
    }),
  created_at: timeOf("The time when the webhook was created."),
  updated_at: timeOf("The time when the webhook was last changed."),
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

// The input schemas of a webhook, for the API and for forms.

/**
 * Checks the URL rules that apply to every deployment, so that URL errors appear together with the errors of other fields. `createWebhook`
 * and `changeWebhook` check the rules of the individual deployment.
 */
const url = z
  .string()
  .superRefine((value, ctx) => {
    const urlError = urlErrorOf(value, { ownHosts: [], isLocal: true });
    if (urlError !== null) ctx.addIssue({ code: "custom", message: urlError, params: { code: "refused_url" } });
  })
  .meta({
    pattern: "^[hH][tT][tT][pP][sS]?://[^/\\s\\\\]",
    maxLength: maxUrl,
    example: "https://hooks.acme.dev/overview",
    description: "The URL that receives the events. The URL must use https and a public host name, without a user name or password.",
  });
const description = visibleText(0, 500).meta({ description: "The description of the webhook.", example: "Chat room of the team" });

const { types } = eventCatalogue;

const eventTypes = z
  .array(z.enum(["*", ...types], "Must be * or an event type from GET /event-types."))
  .min(1)
  .transform((types): string[] => (types.includes("*") ? ["*"] : [...new Set(types)]))
  .meta({
    type: "array",
    minItems: 1,
    description: `The event types to send: ${types.map((type) => `\`${type}\``).join(", ")}. \`*\` means all types, including types that are added later.`,
    items: {
      type: "string",
      enum: ["*", ...types],
      description: `One of ${["*", ...types].map((type) => `\`${type}\``).join(", ")}.`,
    },
    example: [...exampleTypes],
  });

export const NewWebhook = z.strictObject({ url, description: description.default(""), event_types: eventTypes });

export const WebhookPatch = z.strictObject({
  url: url.optional(),
  description: description.nullable().optional(),
  event_types: eventTypes.optional(),
  status: z.enum(["active", "disabled"]).optional().meta({
    description:
      "If the new status is `disabled`, the events of the webhook are held. If the new status is `active`, the webhook receives events that happen after the change.",
    example: "disabled",
  }),
});

export const WebhookRotation = rotation("The number of seconds for which the old secret also signs requests");
