import { createRoute, z } from "@hono/zod-openapi";
import { countRedeliveries, readRedelivery, redeliverAll } from "../webhooks/redeliver-many.ts";
import { answerOne, etagOfContent } from "./conditional.ts";
import { reading } from "./context.ts";
import { EventType } from "./event-catalogue.ts";
import { keyWith } from "./operation.ts";
import { answerPost } from "./post.ts";
import { body, withConditions, withIdempotencyKey } from "./requests.ts";
import { resource } from "./resource.ts";
import { json, notModified, problems } from "./responses.ts";
import { idParam, timeInput } from "./schemas.ts";
import { webhookWriting } from "./webhooks.ts";

const tags = ["Deliveries"];

export const redeliveries = resource();

const Redeliver = z
  .strictObject({
    from: timeInput.openapi({ type: "string", format: "date-time", description: "Inclusive, by the time of the event." }),
    to: timeInput.optional().openapi({ type: "string", format: "date-time", description: "Exclusive." }),
    status: z.enum(["delivered", "failed", "held"]).optional().openapi({ description: "By default failed and held." }),
    event_types: z.array(EventType).min(1).optional(),
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
  ...keyWith("webhooks:write"),
  ...withIdempotencyKey,
  request: { params: idParam("whk_019a1b2c3d4e7f8091a2b3c4d5e6f708"), body: body(Redeliver) },
  responses: {
    200: json(z.strictObject({ count: z.int() }), "How many there are; nothing is sent."),
    202: json(z.strictObject({ id: z.string(), count: z.int() }), "The redelivery, and how many it sends."),
    ...problems(400, 404, 409, 413, 415, 422),
  },
});

redeliveries.openapi(redeliverMany, async (c) => {
  const { from, to, status, event_types: eventTypes, dry_run: isDryRun } = c.req.valid("json");
  const { id } = c.req.valid("param");
  const filter = { from, to, status, eventTypes };
  if (isDryRun)
    return answerPost(
      c,
      (writing) => countRedeliveries({ ...webhookWriting(c), ...writing }, id, filter),
      (count) => ({ status: 200, body: { count } }),
    );
  return answerPost(
    c,
    (writing) => redeliverAll({ ...webhookWriting(c), ...writing }, id, filter),
    (made) => ({ status: 202, body: made }),
  );
});

const Redelivery = z
  .strictObject({
    id: z.string().openapi({ example: "rdl_019a1b2c3d4e7f8091a2b3c4d5e6f708" }),
    count: z.int(),
    sent: z.int().openapi({ description: "How many have been attempted." }),
    status: z.enum(["running", "done"]),
  })
  .openapi("Redelivery");

const progress = createRoute({
  method: "get",
  path: "/redeliveries/{id}",
  operationId: "getRedelivery",
  summary: "Get how far a redelivery is",
  tags,
  ...keyWith("webhooks:read"),
  ...withConditions,
  request: { params: idParam("rdl_019a1b2c3d4e7f8091a2b3c4d5e6f708") },
  responses: { 200: json(Redelivery, "How far it is.", "ETag"), ...notModified, ...problems(400, 404, 412) },
});

redeliveries.openapi(progress, async (c) => {
  const redelivery = await readRedelivery(reading(c), c.req.valid("param").id);
  return answerOne(c, redelivery, etagOfContent(redelivery));
});
