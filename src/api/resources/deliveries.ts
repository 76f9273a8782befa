import { createRoute, z } from "@hono/zod-openapi";
import { iso, isoOrNull } from "../../clock.ts";
import type { EventCatalogue } from "../../events/catalogue.ts";
import {
  type Attempt,
  attemptErrors,
  type Delivery as DeliveryRow,
  deliveryStatuses,
  listDeliveries,
  readDelivery,
} from "../../webhooks/read-deliveries.ts";
import { attemptNow, authorizeRedelivery, authorizeTest, redeliver, sendTest } from "../../webhooks/redeliver.ts";
import { reading, scopesOf, webhookWriting } from "../acting.ts";
import { apiBase } from "../base-path.ts";
import { etagOfContent, respondOne } from "../middleware/conditional.ts";
import { runOnce } from "../middleware/idempotency.ts";
import { requireScope } from "../route-parts/access.ts";
import { cut, pageOf, positionAt, respondPage } from "../route-parts/pages.ts";
import { optionalBody, withConditions, withIdempotencyKey } from "../route-parts/requests.ts";
import { json, notModified, postJson, problems } from "../route-parts/responses.ts";
import { idParam, pageQuery, time } from "../route-parts/schemas.ts";
import { type ApiRouter, createRouter } from "../router.ts";

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

const deliveryJson = (delivery: DeliveryRow): z.infer<typeof Delivery> => ({
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

const attemptJson = (attempt: Attempt): z.infer<typeof AttemptData> => ({
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

const pathOf = (deliveryId: string) => `${apiBase}/deliveries/${deliveryId}`;

export function deliveries(catalogue: EventCatalogue): ApiRouter {
  const deliveries = createRouter();

  const list = createRoute({
    method: "get",
    path: "/webhooks/{id}/deliveries",
    operationId: "listDeliveries",
    summary: "List the deliveries of a webhook",
    description: "Newest first.",
    tags,
    ...requireScope("webhooks:read"),
    request: {
      params: ofWebhook,
      query: z.strictObject({ ...pageQuery, status: Status.optional(), event_type: z.enum(catalogue.types).optional() }),
    },
    responses: { 200: json(pageOf(Delivery, "DeliveryPage"), "A page of deliveries.", "Link"), ...problems(400, 404) },
  });

  deliveries.openapi(list, async (c) => {
    const { limit, cursor, status, event_type: eventType } = c.req.valid("query");
    const after = positionAt(c, cursor, z.string());
    const found = await listDeliveries(reading(c), c.req.valid("param").id, { filter: { status, eventType }, after, limit: limit + 1 });
    const { rows, last } = cut(found, limit);
    return respondPage(c, rows.map(deliveryJson), last?.id ?? null);
  });

  const read = createRoute({
    method: "get",
    path: "/deliveries/{id}",
    operationId: "getDelivery",
    summary: "Get a delivery with its attempts",
    description: "Needs the read scope of what the event is about, too: a receiver may answer with what it was sent.",
    tags,
    ...requireScope("webhooks:read"),
    ...withConditions,
    request: { params: ofDelivery },
    responses: { 200: json(DeliveryWithAttempts, "The delivery.", "ETag"), ...notModified, ...problems(400, 404, 412) },
  });

  deliveries.openapi(read, async (c) => {
    const delivery = await readDelivery(reading(c), c.req.valid("param").id);
    // What the receiver answered may be what it was sent.
    catalogue.requireReadable([delivery.eventType], scopesOf(c));
    const answer = { ...deliveryJson(delivery), attempts: delivery.attempts.map(attemptJson) };
    return respondOne(c, answer, etagOfContent(answer));
  });

  const again = createRoute({
    method: "post",
    path: "/deliveries/{id}/redeliver",
    operationId: "redeliver",
    summary: "Send the event of a delivery again",
    description: "As a new delivery, with the same `webhook-id`.",
    tags,
    ...requireScope("webhooks:write"),
    ...withIdempotencyKey,
    request: { params: ofDelivery, body: optionalBody(z.strictObject({})) },
    responses: {
      202: postJson(z.strictObject({ id: z.string() }).openapi("NewDelivery"), "The id of the new delivery.", "Location"),
      ...problems(400, 404, 408, 409, 413, 415, 422),
    },
  });

  deliveries.openapi(again, (c) => {
    const { id } = c.req.valid("param");
    return runOnce(c, {
      authorize: (reading) => authorizeRedelivery({ ...reading, scopes: scopesOf(c), catalogue }, id),
      run: (writing) => redeliver(webhookWriting(c, catalogue, writing), id),
      respond: (made) => ({ status: 202, body: { id: made }, headers: { Location: pathOf(made) } }),
    });
  });

  const attempt = createRoute({
    method: "post",
    path: "/deliveries/{id}/attempt",
    operationId: "attemptDelivery",
    summary: "Make the next attempt of a pending delivery now",
    description: "Those after it follow by the schedule.",
    tags,
    ...requireScope("webhooks:write"),
    ...withIdempotencyKey,
    request: { params: ofDelivery, body: optionalBody(z.strictObject({})) },
    responses: {
      202: postJson(z.strictObject({ id: z.string() }).openapi("AttemptedDelivery"), "The delivery.", "Location"),
      ...problems(400, 404, 408, 409, 413, 415, 422),
    },
  });

  deliveries.openapi(attempt, (c) => {
    const { id } = c.req.valid("param");
    return runOnce(c, {
      authorize: (reading) => authorizeRedelivery({ ...reading, scopes: scopesOf(c), catalogue }, id),
      run: (writing) => attemptNow(webhookWriting(c, catalogue, writing), id),
      respond: () => ({ status: 202, body: { id }, headers: { Location: pathOf(id) } }),
    });
  });

  const Test = z
    .strictObject({
      event_type: z
        .enum(catalogue.types)
        .default("webhook.test")
        .openapi({ description: "Of another type, its data is the example of GET /event-types." }),
    })
    .openapi("WebhookTest");

  const test = createRoute({
    method: "post",
    path: "/webhooks/{id}/test",
    operationId: "testWebhook",
    summary: "Send a test event to a webhook",
    description: "To this webhook alone, whatever it has registered for.",
    tags,
    ...requireScope("webhooks:write"),
    ...withIdempotencyKey,
    request: { params: ofWebhook, body: optionalBody(Test) },
    responses: {
      202: postJson(z.strictObject({ delivery_id: z.string() }).openapi("TestDelivery"), "The id of the delivery.", "Location"),
      ...problems(400, 404, 408, 409, 413, 415, 422),
    },
  });

  deliveries.openapi(test, (c) => {
    const { id } = c.req.valid("param");
    const { event_type: type } = c.req.valid("json");
    return runOnce(c, {
      authorize: () => authorizeTest({ ...reading(c), scopes: scopesOf(c), catalogue }, type),
      run: (writing) => sendTest(webhookWriting(c, catalogue, writing), id, type),
      respond: (made) => ({ status: 202, body: { delivery_id: made }, headers: { Location: pathOf(made) } }),
    });
  });

  return deliveries;
}
