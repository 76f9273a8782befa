import { createRoute, z } from "@hono/zod-openapi";
import { timeInput } from "../../lib/inputs/values.ts";
import { eventCatalogue } from "../../outbox/catalogue.ts";
import { authorizeRedeliveries, readRedelivery } from "../../webhooks/redeliveries/read-redeliveries.ts";
import { countRedeliveries, redeliverAll } from "../../webhooks/redeliveries/redeliver-many.ts";
import { apiBase } from "../base-path.ts";
import { etagOfContent, respondOne } from "../conditional.ts";
import { runIdempotentPost } from "../idempotency.ts";
import { contextOf, scopesOf } from "../operation-contexts.ts";
import { failsWith, requireScope } from "../route-parts/access.ts";
import { body, get, post, withConditions, withIdempotencyKey } from "../route-parts/requests.ts";
import { json, notModified, postJson } from "../route-parts/responses.ts";
import { idParam } from "../route-parts/schemas.ts";
import { createRouter } from "../router.ts";

const tags = ["Deliveries"];

const redeliveryId = z.string().meta({ description: "The id of the redelivery.", example: "rdl_019a1b2c3d4e7f8091a2b3c4d5e6f708" });
const eventCount = z.int().meta({ description: "The number of matching events.", example: 250 });

const Redelivery = z
  .strictObject({
    id: redeliveryId,
    count: eventCount,
    sent: z.int().meta({ description: "The number of matching events that have had at least one attempt.", example: 120 }),
    status: z.enum(["running", "done"]).meta({
      description: "The status of the redelivery: `running` until each event has had an attempt, then `done`.",
      example: "running",
    }),
  })
  .openapi("Redelivery", { description: "A redelivery of many events." });

export const routes = createRouter();

const Redeliver = z
  .strictObject({
    from: timeInput.meta({
      type: "string",
      format: "date-time",
      description: "Selects events that happened at or after this time.",
      example: "2026-01-01T00:00:00Z",
    }),
    to: timeInput.optional().meta({
      type: "string",
      format: "date-time",
      description: "Selects events that happened before this time. The default is the current time.",
      example: "2099-01-01T00:00:00Z",
    }),
    status: z.enum(["delivered", "failed", "held", "pending"]).optional().meta({
      description:
        "Selects events whose latest delivery has this status. The default is `failed` and `held`. Use `delivered` to send delivered events again. If you select `pending`, new deliveries replace the pending deliveries. The replaced deliveries become `failed`.",
      example: "failed",
    }),
    event_types: z
      .array(z.enum(eventCatalogue.types).meta({ description: `One of ${eventCatalogue.types.map((type) => `\`${type}\``).join(", ")}.` }))
      .min(1)
      .optional()
      .meta({ description: "Selects events of these types. The default is all types.", example: eventCatalogue.types.slice(0, 1) }),
    dry_run: z
      .boolean()
      .default(false)
      .meta({ description: "If `dry_run` is true, the matching events are counted but not sent.", example: true }),
  })
  .refine(({ from, to }) => to === undefined || from < to, {
    path: ["from"],
    message: "Must be earlier than `to`.",
    params: { code: "invalid_span" },
  })
  .openapi("Redeliver", {
    description: "The filter that selects the events to send again.",
    example: { from: "2026-01-01T00:00:00Z", dry_run: true },
  });

const redeliverMany = createRoute({
  ...post("/webhooks/{id}/redeliver", "redeliverMany", "Send many events again"),
  description:
    "Sends every matching event again, at five events per second. Each event gets a new delivery with the same `webhook-id`. The first 500 deliveries are created immediately. Each later delivery is created shortly before it is due. With `dry_run`, the events are only counted. If the webhook is disabled and the request is not a dry run, the response is 409 `conflict`.",
  tags,
  ...requireScope("webhooks:write"),
  ...failsWith("forbidden", "conflict"),
  ...withIdempotencyKey,
  request: { params: idParam("whk_019a1b2c3d4e7f8091a2b3c4d5e6f708"), body: body(Redeliver) },
  responses: {
    200: postJson(
      z.strictObject({ count: eventCount }).openapi("RedeliveryCount", { description: "The result of a dry run." }),
      "The number of matching events. Nothing is sent.",
    ),
    202: postJson(
      z.strictObject({ id: redeliveryId, count: eventCount }).openapi("NewRedelivery", { description: "The new redelivery." }),
      "The new redelivery and the number of its events.",
      "Location",
    ),
  },
});

routes.openapi(redeliverMany, async (c) => {
  const { from, to, status, event_types: eventTypes, dry_run: isDryRun } = c.req.valid("json");
  const { id } = c.req.valid("param");
  const filter = { from, to, statuses: status && [status], eventTypes };
  const requireFilter = () => eventCatalogue.requireReadable(eventTypes ?? [], scopesOf(c));
  if (isDryRun)
    return runIdempotentPost(c, {
      authorize: requireFilter,
      run: ({ commit }) => countRedeliveries(contextOf(c, commit), id, filter),
      respond: ({ count }) => ({ status: 200, body: { count } }),
    });
  return runIdempotentPost(c, {
    authorize: async (context, { id: made }: { id: string; count: number }) => {
      requireFilter();
      await authorizeRedeliveries({ ...context, scopes: scopesOf(c) }, made);
    },
    run: ({ commit }) => redeliverAll(contextOf(c, commit), id, filter),
    respond: (made) => ({ status: 202, body: made, headers: { Location: `${apiBase}/redeliveries/${made.id}` } }),
  });
});

const progress = createRoute({
  ...get("/redeliveries/{id}", "getRedelivery", "Get the progress of a redelivery"),
  description:
    "Returns how many events of the redelivery have had at least one attempt. Each delivery shows whether its receiver accepted the event.",
  tags,
  ...requireScope("webhooks:read"),
  ...withConditions,
  request: { params: idParam("rdl_019a1b2c3d4e7f8091a2b3c4d5e6f708") },
  responses: { 200: json(Redelivery, "The progress of the redelivery.", "ETag"), ...notModified },
});

routes.openapi(progress, async (c) => {
  const redelivery = await readRedelivery(contextOf(c), c.req.valid("param").id);
  return respondOne(c, redelivery, etagOfContent(redelivery));
});
