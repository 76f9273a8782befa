import { z } from "@hono/zod-openapi";
import type { EventCatalogue } from "../events/catalogue.ts";
import { visibleText } from "../inputs/values.ts";
import { longestUrl, urlRefusal } from "./url-rules.ts";

// What may be said of a webhook, to the API and in a form.

/** What holds for every build and host is named beside the other members; the verb judges the rest. */
const url = z
  .string()
  .superRefine((value, ctx) => {
    const refusal = urlRefusal(value, { ownHosts: [], isLocal: true });
    if (refusal !== null) ctx.addIssue({ code: "custom", message: refusal, params: { code: "refused_url" } });
  })
  .openapi({
    pattern: "^[hH][tT][tT][pP][sS]?://[^/\\s\\\\]",
    maxLength: longestUrl,
    example: "https://hooks.acme.dev/overview",
    description: "Where events are posted to: https, a public host name, no user name, no password.",
  });
const description = visibleText(0, 500).openapi({ description: "What it is for.", example: "Chat room of the team" });

const eventTypesOf = ({ types }: EventCatalogue) =>
  z
    .array(z.enum(["*", ...types], "Must be * or one of GET /event-types."))
    .min(1)
    .transform((types): string[] => (types.includes("*") ? ["*"] : [...new Set(types)]))
    .openapi({
      type: "array",
      minItems: 1,
      description: `The types of events to send: ${types.map((type) => `\`${type}\``).join(", ")}; or \`*\` for all, also for those that are added later.`,
      items: {
        type: "string",
        enum: ["*", ...types],
        description: `One of ${["*", ...types].map((type) => `\`${type}\``).join(", ")}.`,
      },
      example: ["task.created", "task.completed"],
    });

/** The schemas of what makes and changes a webhook. */
export function webhookInputs(catalogue: EventCatalogue) {
  const eventTypes = eventTypesOf(catalogue);

  const NewWebhook = z.strictObject({ url, description: description.default(""), event_types: eventTypes }).openapi("NewWebhook", {
    description: "A webhook to make.",
    example: {
      url: "https://hooks.acme.dev/overview",
      description: "Chat room of the team",
      event_types: ["task.created", "task.completed"],
    },
  });

  const WebhookPatch = z
    .strictObject({
      url: url.optional(),
      description: description.nullable().optional(),
      event_types: eventTypes.optional(),
      status: z
        .enum(["active", "disabled"])
        .optional()
        .openapi({ description: "`disabled` holds its events; `active` sends those that come from then on.", example: "disabled" }),
    })
    .openapi("WebhookPatch", {
      description: "The members of a webhook to change. `null` clears. Enabling a webhook sends nothing that was held.",
      example: { event_types: ["task.created"] },
    });
  return { NewWebhook, WebhookPatch };
}

export const Rotation = z
  .strictObject({
    overlap_seconds: z
      .int()
      .min(0)
      .max(604_800)
      .default(0)
      .openapi({ description: "For how many seconds the old secret signs too, 0 to 604,800 (seven days).", example: 86_400 }),
  })
  .openapi("WebhookRotation", { description: "How a webhook gets its new secret." });
