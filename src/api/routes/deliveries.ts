import { createRoute, z } from "@hono/zod-openapi";
import { iso, isoOrNull } from "../../lib/time/clock.ts";
import { eventCatalogue } from "../../outbox/catalogue.ts";
import {
  type Attempt,
  attemptErrors,
  type Delivery as DeliveryRow,
  deliveryStatuses,
  listDeliveries,
  readDelivery,
} from "../../webhooks/deliveries/read-deliveries.ts";
import { attemptNow, authorizeRedelivery, authorizeTest, redeliver, sendTest } from "../../webhooks/redeliveries/redeliver.ts";
import { apiBase } from "../base-path.ts";
import { etagOfContent, respondOne } from "../conditional.ts";
import { runIdempotentPost } from "../idempotency.ts";
import { contextOf, scopesOf } from "../operation-contexts.ts";
import { failsWith, requireScope, sharesCpu } from "../route-parts/access.ts";
import { pageOf, positionAt, respondPage } from "../route-parts/pages.ts";
import { get, optionalBody, post, withConditions, withIdempotencyKey } from "../route-parts/requests.ts";
import { json, notModified, postJson } from "../route-parts/responses.ts";
import { idParam, intOrNull, pageQuery, severalWords, stringOrNull, time } from "../route-parts/schemas.ts";
import { createRouter } from "../router.ts";

const Status = z.enum(deliveryStatuses);

const shape = {
  id: z.string().meta({ description: "The id of the delivery.", example: "dlv_019a1b2c3d4e7f8091a2b3c4d5e6f708" }),
  event_id: z.string().meta({
    description: "The id of the event. Webhook requests send this id in the header `webhook-id`.",
    example: "evt_019a1b2c3d4e7f8091a2b3c4d5e6f708",
  }),
  event_type: z.string().meta({ description: "The type of the event.", example: eventCatalogue.types[0] }),
  webhook_id: z
    .string()
    .meta({ description: "The id of the webhook that receives the event.", example: "whk_019a1b2c3d4e7f8091a2b3c4d5e6f708" }),
  redelivery_of: stringOrNull.meta({
    description: "The id of the delivery that this delivery repeats. The value is null if this delivery is not a redelivery.",
    example: null,
  }),
  status: Status.meta({
    description:
      "The status of the delivery: `pending`, `delivered`, `failed` or `held`. A `pending` delivery waits for its next attempt. A `failed` delivery gets no further attempts. A `held` delivery waits because its webhook is disabled.",
    example: "delivered",
  }),
  attempts_made: z.int().meta({ description: "The number of attempts made so far, which is at most ten.", example: 1 }),
  next_attempt_at: time
    .nullable()
    .meta({ description: "The time when the next attempt is due, or null if no attempt is due.", examples: [null] }),
  created_at: time.meta({ description: "The time when the delivery was created." }),
};

const AttemptData = z.strictObject({
  id: z.string().meta({ description: "The id of the attempt.", example: "att_019a1b2c3d4e7f8091a2b3c4d5e6f708" }),
  at: time.meta({ description: "The time of the attempt." }),
  status: intOrNull.meta({ description: "The HTTP status of the response, or null if there was no response.", example: 200 }),
  duration_ms: z.int().meta({ description: "The duration of the attempt, in milliseconds.", example: 84 }),
  error: z.union([z.enum(attemptErrors), z.null()]).meta({
    description: `The reason why the attempt failed: ${attemptErrors.map((error) => `\`${error}\``).join(", ")}. The value is null if the attempt succeeded.`,
    example: null,
  }),
  advice: stringOrNull.meta({
    description: "A sentence that explains how to fix the error, or null if there was no error.",
    example: null,
  }),
  response_body: z.string().meta({
    description:
      "The beginning of the response body. If the latest attempt failed, up to 16 KiB of its response body are kept. For an earlier failed attempt, up to 1,024 characters of the body are kept. For a successful attempt, up to 128 bytes of the body are kept.",
    example: "ok",
  }),
  response_headers: z
    .record(z.string(), z.string())
    .meta({ description: "The headers of the response.", example: { "content-type": "text/plain" } }),
});

const deliveryId = shape.id;
const Delivery = z.strictObject(shape).openapi("Delivery", { description: "The delivery of an event to a webhook." });
const DeliveryWithAttempts = z
  .strictObject({ ...shape, attempts: z.array(AttemptData).meta({ description: "The attempts, oldest first." }) })
  .openapi("DeliveryWithAttempts", { description: "A delivery with all of its attempts." });

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

const NoMembers = z.strictObject({}).meta({ description: "An object without members. The body can be omitted.", example: {} });

const ofWebhook = idParam("whk_019a1b2c3d4e7f8091a2b3c4d5e6f708");
const ofDelivery = idParam("dlv_019a1b2c3d4e7f8091a2b3c4d5e6f708");
const tags = ["Deliveries"];

const pathOf = (deliveryId: string) => `${apiBase}/deliveries/${deliveryId}`;

export const routes = createRouter();

const list = createRoute({
  ...get("/webhooks/{id}/deliveries", "listDeliveries", "List the deliveries of a webhook"),
  description: "Lists the deliveries of a webhook from the last 30 days, newest first. Pending deliveries are included.",
  tags,
  ...requireScope("webhooks:read"),
  ...sharesCpu,
  request: {
    params: ofWebhook,
    query: z.strictObject({
      ...pageQuery,
      status: severalWords(deliveryStatuses, "Returns only deliveries with one of these statuses"),
      event_type: severalWords(eventCatalogue.types, "Returns only deliveries of events with one of these types"),
    }),
  },
  responses: { 200: json(pageOf(Delivery, "DeliveryPage"), "A page of deliveries.", "Link") },
});

routes.openapi(list, async (c) => {
  const { limit, cursor, status: statuses, event_type: eventTypes } = c.req.valid("query");
  const after = positionAt(c, cursor, z.string());
  const { rows, next } = await listDeliveries(contextOf(c), c.req.valid("param").id, { filter: { statuses, eventTypes }, after, limit });
  return respondPage(c, rows.map(deliveryJson), next);
});

const read = createRoute({
  ...get("/deliveries/{id}", "getDelivery", "Get a delivery with its attempts"),
  description:
    "Returns one delivery with the result and the response of each attempt. The key also needs the read scope of the event's resource, because the receiver's response can contain data of the event.",
  tags,
  ...requireScope("webhooks:read"),
  ...failsWith("forbidden"),
  ...withConditions,
  request: { params: ofDelivery },
  responses: { 200: json(DeliveryWithAttempts, "The delivery.", "ETag"), ...notModified },
});

routes.openapi(read, async (c) => {
  const delivery = await readDelivery(contextOf(c), c.req.valid("param").id);
  // A receiver's response can contain data of the event, so the key needs the scope for reading the event.
  eventCatalogue.requireReadable([delivery.eventType], scopesOf(c));
  const body = { ...deliveryJson(delivery), attempts: delivery.attempts.map(attemptJson) };
  return respondOne(c, body, etagOfContent(body));
});

const again = createRoute({
  ...post("/deliveries/{id}/redeliver", "redeliver", "Redeliver the event of a delivery"),
  description:
    "Sends the event again, as a new delivery with the same `webhook-id`. The receiver can use the `webhook-id` to recognize an event that it has already processed. If the webhook is disabled, the response is 409 `conflict`.",
  tags,
  ...requireScope("webhooks:write"),
  ...failsWith("forbidden", "conflict"),
  ...withIdempotencyKey,
  request: { params: ofDelivery, body: optionalBody(NoMembers) },
  responses: {
    202: postJson(
      z.strictObject({ id: deliveryId }).openapi("NewDelivery", { description: "The new delivery." }),
      "The id of the new delivery.",
      "Location",
    ),
  },
});

routes.openapi(again, (c) => {
  const { id } = c.req.valid("param");
  return runIdempotentPost(c, {
    authorize: (context) => authorizeRedelivery({ ...context, scopes: scopesOf(c) }, id),
    run: ({ commit }) => redeliver(contextOf(c, commit), id),
    respond: (made) => ({ status: 202, body: { id: made }, headers: { Location: pathOf(made) } }),
  });
});

const attempt = createRoute({
  ...post("/deliveries/{id}/attempt", "attemptDelivery", "Make the next attempt of a pending delivery now"),
  description:
    "Makes the next attempt immediately, before its scheduled time. Later attempts follow the schedule. If the delivery is not waiting for an attempt, the response is 409 `conflict`.",
  tags,
  ...requireScope("webhooks:write"),
  ...failsWith("forbidden", "conflict"),
  ...withIdempotencyKey,
  request: { params: ofDelivery, body: optionalBody(NoMembers) },
  responses: {
    202: postJson(
      z.strictObject({ id: deliveryId }).openapi("AttemptedDelivery", { description: "The delivery whose next attempt is made now." }),
      "The id of the delivery.",
      "Location",
    ),
  },
});

routes.openapi(attempt, (c) => {
  const { id } = c.req.valid("param");
  return runIdempotentPost(c, {
    authorize: (context) => authorizeRedelivery({ ...context, scopes: scopesOf(c) }, id),
    run: ({ commit }) => attemptNow(contextOf(c, commit), id),
    respond: () => ({ status: 202, body: { id }, headers: { Location: pathOf(id) } }),
  });
});

const Test = z
  .strictObject({
    event_type: z
      .enum(eventCatalogue.types)
      .default("webhook.test")
      .meta({
        description: `The type of the event: ${eventCatalogue.types.map((type) => `\`${type}\``).join(", ")}. For all types except \`webhook.test\`, the event has the example data from \`GET /event-types\`.`,
        example: "webhook.test",
      }),
  })
  .openapi("TestRequest", { description: "The options of a test event." });

const test = createRoute({
  ...post("/webhooks/{id}/test", "testWebhook", "Send a test event to a webhook"),
  description:
    "Creates a test event and sends it only to this webhook, regardless of the event types of the webhook. If the webhook is disabled, the response is 409 `conflict`.",
  tags,
  ...requireScope("webhooks:write"),
  ...failsWith("forbidden", "conflict"),
  ...withIdempotencyKey,
  request: { params: ofWebhook, body: optionalBody(Test) },
  responses: {
    202: postJson(
      z.strictObject({ delivery_id: deliveryId }).openapi("TestDelivery", { description: "The delivery of the test event." }),
      "The id of the delivery.",
      "Location",
    ),
  },
});

routes.openapi(test, (c) => {
  const { id } = c.req.valid("param");
  const { event_type: type } = c.req.valid("json");
  return runIdempotentPost(c, {
    authorize: () => authorizeTest(contextOf(c), type),
    run: ({ commit }) => sendTest(contextOf(c, commit), id, type),
    respond: (made) => ({ status: 202, body: { delivery_id: made }, headers: { Location: pathOf(made) } }),
  });
});
