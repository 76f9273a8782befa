import { createRoute, z } from "@hono/zod-openapi";
import { iso, isoOrNull } from "../clock.ts";
import { newEvent } from "../webhooks/event.ts";
import {
  type Attempt,
  attemptErrors,
  type Delivery as DeliveryRow,
  deliveryStatuses,
  listDeliveries,
  readDelivery,
} from "../webhooks/read-deliveries.ts";
import { redeliver, sendTest } from "../webhooks/redeliver.ts";
import { testEvent } from "../webhooks/webhook-events.ts";
import { answerOne, etagOfContent } from "./conditional.ts";
import { callOf, reading } from "./context.ts";
import { EventType, eventKinds } from "./event-catalogue.ts";
import { keyWith } from "./operation.ts";
import { answerPage, cut, pageOf, positionAt } from "./pages.ts";
import { answerPost } from "./post.ts";
import { optionalBody, withConditions, withIdempotencyKey } from "./requests.ts";
import { resource } from "./resource.ts";
import { json, notModified, problems } from "./responses.ts";
import { idParam, pageQuery, time } from "./schemas.ts";
import { webhookWriting } from "./webhooks.ts";

const Status = z.enum(deliveryStatuses);

const shape = {
  id: z.string().openapi({ example: "dlv_019a1b2c3d4e7f8091a2b3c4d5e6f708" }),
  event_id: z.string(),
  event_type: z.string(),
  webhook_id: z.string(),
  redelivery_of: z.string().nullable().openapi({ description: "The delivery that this one repeats." }),
  status: Status.openapi({ description: "Held: the webhook was disabled. Failed: no further attempt is made." }),
  attempts_made: z.int(),
  next_attempt_at: time.nullable(),
  created_at: time,
};

const AttemptData = z.strictObject({
  id: z.string(),
  at: time,
  status: z.int().nullable().openapi({ description: "Of the answer; null where there was none." }),
  duration_ms: z.int(),
  error: z.enum(attemptErrors).nullable().openapi({ description: "Null where the attempt delivered." }),
  advice: z.string().nullable().openapi({ description: "What to do about the error." }),
  response_body: z.string().openapi({ description: "The first 16 KiB." }),
  response_headers: z.record(z.string(), z.string()),
});

const Delivery = z.strictObject(shape).openapi("Delivery");
const DeliveryWithAttempts = z.strictObject({ ...shape, attempts: z.array(AttemptData) }).openapi("DeliveryWithAttempts");

const shown = (delivery: DeliveryRow): z.infer<typeof Delivery> => ({
  id: delivery.id,
  event_id: delivery.eventId,
  event_type: delivery.eventType,
  webhook_id: delivery.webhookId,
  redelivery_of: delivery.redeliveryOf,
  status: delivery.status,
  attempts_made: delivery.attemptsMade,
  next_attempt_at: isoOrNull(delivery.nextAttemptAt),
  created_at: iso(delivery.createdAt),
});

const shownAttempt = (attempt: Attempt): z.infer<typeof AttemptData> => ({
  id: attempt.id,
  at: iso(attempt.at),
  status: attempt.status,
  duration_ms: attempt.durationMs,
  error: attempt.error,
  advice: attempt.advice,
  response_body: attempt.responseBody,
  response_headers: attempt.responseHeaders,
});

const ofWebhook = idParam("whk_019a1b2c3d4e7f8091a2b3c4d5e6f708");
const ofDelivery = idParam("dlv_019a1b2c3d4e7f8091a2b3c4d5e6f708");
const tags = ["Deliveries"];

export const deliveries = resource();

const list = createRoute({
  method: "get",
  path: "/webhooks/{id}/deliveries",
  operationId: "listDeliveries",
  summary: "List the deliveries of a webhook",
  description: "Newest first.",
  tags,
  ...keyWith("webhooks:read"),
  request: { params: ofWebhook, query: z.strictObject({ ...pageQuery, status: Status.optional(), event_type: EventType.optional() }) },
  responses: { 200: json(pageOf(Delivery, "DeliveryPage"), "A page of deliveries.", "Link"), ...problems(400, 404) },
});

deliveries.openapi(list, async (c) => {
  const { limit, cursor, status, event_type: eventType } = c.req.valid("query");
  const after = positionAt(c, cursor, z.string());
  const found = await listDeliveries(reading(c), c.req.valid("param").id, { filter: { status, eventType }, after, limit: limit + 1 });
  const { shown: rows, last } = cut(found, limit);
  return answerPage(c, rows.map(shown), last?.id ?? null);
});

const read = createRoute({
  method: "get",
  path: "/deliveries/{id}",
  operationId: "getDelivery",
  summary: "Get a delivery with its attempts",
  tags,
  ...keyWith("webhooks:read"),
  ...withConditions,
  request: { params: ofDelivery },
  responses: { 200: json(DeliveryWithAttempts, "The delivery.", "ETag"), ...notModified, ...problems(400, 404, 412) },
});

deliveries.openapi(read, async (c) => {
  const delivery = await readDelivery(reading(c), c.req.valid("param").id);
  const answer = { ...shown(delivery), attempts: delivery.attempts.map(shownAttempt) };
  return answerOne(c, answer, etagOfContent(answer));
});

const again = createRoute({
  method: "post",
  path: "/deliveries/{id}/redeliver",
  operationId: "redeliver",
  summary: "Send the event of a delivery again",
  description: "As a new delivery, with the same `webhook-id`.",
  tags,
  ...keyWith("webhooks:write"),
  ...withIdempotencyKey,
  request: { params: ofDelivery, body: optionalBody(z.strictObject({})) },
  responses: { 202: json(z.strictObject({ id: z.string() }), "The id of the new delivery."), ...problems(400, 404, 409, 413, 415, 422) },
});

deliveries.openapi(again, (c) =>
  answerPost(
    c,
    (writing) => redeliver({ ...webhookWriting(c), ...writing }, c.req.valid("param").id),
    (id) => ({ status: 202, body: { id } }),
  ),
);

const Test = z
  .strictObject({
    event_type: EventType.default("webhook.test").openapi({ description: "Of another type, its data is the example of GET /event-types." }),
  })
  .openapi("WebhookTest");

const test = createRoute({
  method: "post",
  path: "/webhooks/{id}/test",
  operationId: "testWebhook",
  summary: "Send a test event to a webhook",
  description: "To this webhook alone, whatever it has registered for.",
  tags,
  ...keyWith("webhooks:write"),
  ...withIdempotencyKey,
  request: { params: ofWebhook, body: optionalBody(Test) },
  responses: {
    202: json(z.strictObject({ delivery_id: z.string() }), "The id of the delivery."),
    ...problems(400, 404, 409, 413, 415, 422),
  },
});

deliveries.openapi(test, (c) => {
  const { event_type: type } = c.req.valid("json");
  const { startedAt: now } = callOf(c);
  return answerPost(
    c,
    (writing) =>
      sendTest({ ...webhookWriting(c), ...writing }, c.req.valid("param").id, (webhook) => {
        const kind = eventKinds.find((each) => each.type === type);
        return type === "webhook.test" || !kind
          ? testEvent(webhook, now)
          : newEvent(kind, { accountId: webhook.accountId, now }, kind.example);
      }),
    (id) => ({ status: 202, body: { delivery_id: id } }),
  );
});
