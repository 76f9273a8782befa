import { createRoute, z } from "@hono/zod-openapi";
import type { EventCatalogue } from "../../events/catalogue.ts";
import { timeInput } from "../../http/inputs/values.ts";
import { authorizeRedeliveries, countRedeliveries, readRedelivery, redeliverAll } from "../../webhooks/redeliver-many.ts";
import { reading, scopesOf, webhookWriting } from "../acting.ts";
import { apiBase } from "../base-path.ts";
import { etagOfContent, respondOne } from "../middleware/conditional.ts";
import { runOnce } from "../middleware/idempotency.ts";
import { requireScope } from "../route-parts/access.ts";
import { body, withConditions, withIdempotencyKey } from "../route-parts/requests.ts";
import { json, notModified, postJson, problems } from "../route-parts/responses.ts";
import { idParam } from "../route-parts/schemas.ts";
import { type ApiRouter, createRouter } from "../router.ts";

const tags = ["Deliveries"];

const Redelivery = z
  .strictObject({
    id: z.string().openapi({ example: "rdl_019a1b2c3d4e7f8091a2b3c4d5e6f708" }),
    count: z.int(),
    sent: z.int().openapi({ description: "How many have been attempted." }),
    status: z.enum(["running", "done"]),
  })
  .openapi("Redelivery");

export function redeliveries(catalogue: EventCatalogue): ApiRouter {
  const redeliveries = createRouter();

  const Redeliver = z
    .strictObject({
      from: timeInput.openapi({ type: "string", format: "date-time", description: "Inclusive, by the time of the event." }),
      to: timeInput.optional().openapi({ type: "string", format: "date-time", description: "Exclusive." }),
      status: z.enum(["delivered", "failed", "held"]).optional().openapi({ description: "By default failed and held." }),
      event_types: z.array(z.enum(catalogue.types)).min(1).optional(),
      dry_run: z.boolean().default(false).openapi({ description: "Only count." }),
    })
    .refine(({ from, to }) => to === undefined || from < to, {
      path: ["from"],
      message: "Must be earlier than `to`.",
      params: { code: "invalid_span" },
    })
    .openapi("Redeliver");

  const redeliverMany = createRoute({
    method: "post",
    path: "/webhooks/{id}/redeliver",
    operationId: "redeliverMany",
    summary: "Send many events again",
    description: "Five a second, each as a new delivery with the same `webhook-id`.",
    tags,
    ...requireScope("webhooks:write"),
    ...withIdempotencyKey,
    request: { params: idParam("whk_019a1b2c3d4e7f8091a2b3c4d5e6f708"), body: body(Redeliver) },
    responses: {
      200: postJson(z.strictObject({ count: z.int() }).openapi("RedeliveryCount"), "How many there are; nothing is sent."),
      202: postJson(
        z.strictObject({ id: z.string(), count: z.int() }).openapi("NewRedelivery"),
        "The redelivery, and how many it sends.",
        "Location",
      ),
      ...problems(400, 404, 408, 409, 413, 415, 422),
    },
  });

  redeliveries.openapi(redeliverMany, async (c) => {
    const { from, to, status, event_types: eventTypes, dry_run: isDryRun } = c.req.valid("json");
    const { id } = c.req.valid("param");
    const filter = { from, to, status, eventTypes };
    const requireAsked = () => catalogue.requireReadable(eventTypes ?? [], scopesOf(c));
    if (isDryRun)
      return runOnce(c, {
        authorize: requireAsked,
        run: (writing) => countRedeliveries(webhookWriting(c, catalogue, writing), id, filter),
        respond: (count) => ({ status: 200, body: { count } }),
      });
    return runOnce(c, {
      authorize: async (reading, { id: made }: { id: string; count: number }) => {
        requireAsked();
        await authorizeRedeliveries({ ...reading, scopes: scopesOf(c), catalogue }, made);
      },
      run: (writing) => redeliverAll(webhookWriting(c, catalogue, writing), id, filter),
      respond: (made) => ({ status: 202, body: made, headers: { Location: `${apiBase}/redeliveries/${made.id}` } }),
    });
  });

  const progress = createRoute({
    method: "get",
    path: "/redeliveries/{id}",
    operationId: "getRedelivery",
    summary: "Get how far a redelivery is",
    tags,
    ...requireScope("webhooks:read"),
    ...withConditions,
    request: { params: idParam("rdl_019a1b2c3d4e7f8091a2b3c4d5e6f708") },
    responses: { 200: json(Redelivery, "How far it is.", "ETag"), ...notModified, ...problems(400, 404, 412) },
  });

  redeliveries.openapi(progress, async (c) => {
    const redelivery = await readRedelivery(reading(c), c.req.valid("param").id);
    return respondOne(c, redelivery, etagOfContent(redelivery));
  });

  return redeliveries;
}
