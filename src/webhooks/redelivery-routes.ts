import { createRoute, z } from "@hono/zod-openapi";
import { readContext, scopesOf, webhookContext } from "../api/acting.ts";
import { apiBase } from "../api/base-path.ts";
import { etagOfContent, respondOne } from "../api/middleware/conditional.ts";
import { runIdempotently } from "../api/middleware/idempotency.ts";
import { failsWith, requireScope } from "../api/route-parts/access.ts";
import { body, withConditions, withIdempotencyKey } from "../api/route-parts/requests.ts";
import { json, notModified, postJson } from "../api/route-parts/responses.ts";
import { idParam } from "../api/route-parts/schemas.ts";
import { createRouter } from "../api/router.ts";
import { eventCatalogue } from "../events/catalogue.ts";
import { timeInput } from "../inputs/values.ts";
import { authorizeRedeliveries, readRedelivery } from "./read-redeliveries.ts";
import { countRedeliveries, redeliverAll } from "./redeliver-many.ts";

const tags = ["Deliveries"];

const redeliveryId = z.string().meta({ description: "The id of the redelivery.", example: "rdl_019a1b2c3d4e7f8091a2b3c4d5e6f708" });
const eventCount = z.int().meta({ description: "How many events match.", example: 250 });

const Redelivery = z
  .strictObject({
    id: redeliveryId,
    count: eventCount,
    sent: z.int().meta({ description: "The number of them that were attempted.", example: 120 }),
    status: z.enum(["running", "done"]).meta({ description: "`running` until all have been attempted, then `done`.", example: "running" }),
  })
  .openapi("Redelivery", { description: "A redelivery of many events." });

export const routes = createRouter();

const Redeliver = z
  .strictObject({
    from: timeInput.meta({
      type: "string",
      format: "date-time",
      description: "Events from this time on.",
      example: "2026-01-01T00:00:00Z",
    }),
    to: timeInput.optional().meta({
      type: "string",
      format: "date-time",
      description: "Events before this time; by default until now.",
      example: "2099-01-01T00:00:00Z",
    }),
    status: z.enum(["delivered", "failed", "held", "pending"]).optional().meta({
      description:
        "Events whose latest delivery has this status; by default `failed` and `held`. `delivered` sends what arrived once more. A `pending` delivery ends as `failed`, and the new one takes its place.",
      example: "failed",
    }),
    event_types: z
      .array(z.enum(eventCatalogue.types).meta({ description: `One of ${eventCatalogue.types.map((type) => `\`${type}\``).join(", ")}.` }))
      .min(1)
      .optional()
      .meta({ description: "Events of these types; by default of all.", example: eventCatalogue.types.slice(0, 1) }),
    dry_run: z.boolean().default(false).meta({ description: "Only count: nothing is sent.", example: true }),
  })
  .refine(({ from, to }) => to === undefined || from < to, {
    path: ["from"],
    message: "Must be earlier than `to`.",
    params: { code: "invalid_span" },
  })
  .openapi("Redeliver", { description: "Which events to send again.", example: { from: "2026-01-01T00:00:00Z", dry_run: true } });

const redeliverMany = createRoute({
  method: "post",
  path: "/webhooks/{id}/redeliver",
  operationId: "redeliverMany",
  summary: "Send many events again",
  description:
    "Sends every event that matches once more: five a second, each as a new delivery with the same `webhook-id`. The first 500 are made at once, the others before they are due. With `dry_run` it only counts. The webhook must be enabled: else 409 `conflict`.",
  tags,
  ...requireScope("webhooks:write"),
  ...failsWith("forbidden", "conflict"),
  ...withIdempotencyKey,
  request: { params: idParam("whk_019a1b2c3d4e7f8091a2b3c4d5e6f708"), body: body(Redeliver) },
  responses: {
    200: postJson(
      z.strictObject({ count: eventCount }).openapi("RedeliveryCount", { description: "The result of a dry run." }),
      "The number of matches; nothing is sent.",
    ),
    202: postJson(
      z.strictObject({ id: redeliveryId, count: eventCount }).openapi("NewRedelivery", { description: "The redelivery that was set off." }),
      "The redelivery, and how many it sends.",
      "Location",
    ),
  },
});

routes.openapi(redeliverMany, async (c) => {
  const { from, to, status, event_types: eventTypes, dry_run: isDryRun } = c.req.valid("json");
  const { id } = c.req.valid("param");
  const filter = { from, to, statuses: status && [status], eventTypes };
  const requireAsked = () => eventCatalogue.requireReadable(eventTypes ?? [], scopesOf(c));
  if (isDryRun)
    return runIdempotently(c, {
      authorize: requireAsked,
      run: ({ commit }) => countRedeliveries(webhookContext(c, commit), id, filter),
      respond: ({ count }) => ({ status: 200, body: { count } }),
    });
  return runIdempotently(c, {
    authorize: async (context, { id: made }: { id: string; count: number }) => {
      requireAsked();
      await authorizeRedeliveries({ ...context, scopes: scopesOf(c) }, made);
    },
    run: ({ commit }) => redeliverAll(webhookContext(c, commit), id, filter),
    respond: (made) => ({ status: 202, body: made, headers: { Location: `${apiBase}/redeliveries/${made.id}` } }),
  });
});

const progress = createRoute({
  method: "get",
  path: "/redeliveries/{id}",
  operationId: "getRedelivery",
  summary: "Get how far a redelivery is",
  description: "Returns how many of its events have been attempted. Each delivery says whether its receiver accepted the event.",
  tags,
  ...requireScope("webhooks:read"),
  ...withConditions,
  request: { params: idParam("rdl_019a1b2c3d4e7f8091a2b3c4d5e6f708") },
  responses: { 200: json(Redelivery, "How far it is.", "ETag"), ...notModified },
});

routes.openapi(progress, async (c) => {
  const redelivery = await readRedelivery(readContext(c), c.req.valid("param").id);
  return respondOne(c, redelivery, etagOfContent(redelivery));
});
