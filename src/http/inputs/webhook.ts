import { z } from "@hono/zod-openapi";
import type { EventCatalogue } from "../../events/catalogue.ts";
import { longestUrl, urlRefusal } from "../../webhooks/url-rules.ts";
import { text } from "./values.ts";

// What may be said of a webhook, to the API and in a form.

/** What holds for every build and host is named beside the other members; the verb judges the rest. */
const url = z
  .string()
  .superRefine((value, ctx) => {
    const refusal = urlRefusal(value, { ownHosts: [], isLocal: true });
    if (refusal !== null) ctx.addIssue({ code: "custom", message: refusal, params: { code: "refused_url" } });
  })
  .openapi({
    format: "uri",
    pattern: "^[hH][tT][tT][pP][sS]?://[^/\\s\\\\]",
    maxLength: longestUrl,
    example: "https://hooks.acme.dev/overview",
    description: "https, a public host name, no user name, no password.",
  });
const description = text(0, 500);

const eventTypesOf = ({ types }: EventCatalogue) =>
  z
    .array(z.enum(["*", ...types], "Must be * or one of GET /event-types."))
    .min(1)
    .transform((types): string[] => (types.includes("*") ? ["*"] : [...new Set(types)]))
    .openapi({
      type: "array",
      minItems: 1,
      items: { type: "string", enum: ["*", ...types] },
      example: ["task.created", "task.completed"],
    });

/** The schemas of what makes and changes a webhook. */
export function webhookInputs(catalogue: EventCatalogue) {
  const eventTypes = eventTypesOf(catalogue);

  const NewWebhook = z.strictObject({ url, description: description.default(""), event_types: eventTypes }).openapi("NewWebhook");

  const WebhookPatch = z
    .strictObject({
      url: url.optional(),
      description: description.nullable().optional(),
      event_types: eventTypes.optional(),
      status: z.enum(["active", "disabled"]).optional(),
    })
    .openapi("WebhookPatch", { description: "The members to change. `null` clears. Enabling a webhook sends nothing that was held." });
  return { NewWebhook, WebhookPatch };
}

export const Rotation = z
  .strictObject({
    overlap_seconds: z.int().min(0).max(604_800).default(0).openapi({ description: "For how long the old secret signs too." }),
  })
  .openapi("WebhookRotation");
