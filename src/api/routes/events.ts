import { createRoute, z } from "@hono/zod-openapi";
// `shapeOf` knows the events of a module that is loaded. No route loads these two.
import "../../guard/events.ts";
import "../../identity/events.ts";
import { z as plain } from "zod";
import { hashOf } from "../../lib/crypto/hash.ts";
import { iso } from "../../lib/time/clock.ts";
import { isoText } from "../../lib/time/iso-text.ts";
import { eventCatalogue } from "../../outbox/catalogue.ts";
import { type CataloguedEvent, type Event as EventRow, exampleBodyOf, previousShape, shapeOf } from "../../outbox/event.ts";
import { listEvents, readEvent } from "../../outbox/read-events.ts";
import { etagOf, respondOne } from "../conditional.ts";
import { contextOf, scopesOf } from "../operation-contexts.ts";
import { respondJson } from "../respond.ts";
import { failsWith, requireScope, sharesCpu } from "../route-parts/access.ts";
import { pageOf, positionAt, respondPage } from "../route-parts/pages.ts";
import { get, withConditions } from "../route-parts/requests.ts";
import { json, notModified } from "../route-parts/responses.ts";
import { idParam, listOf, pageQuery, severalWords, stringOrNull, time } from "../route-parts/schemas.ts";
import { createRouter } from "../router.ts";

const anyObject = z.record(z.string(), z.unknown());

export const Event = z
  .strictObject({
    id: z.string().meta({
      description: "The id of the event. Webhook requests send this id in the header `webhook-id`.",
      example: "evt_019a1b2c3d4e7f8091a2b3c4d5e6f708",
    }),
    type: z.string().meta({ description: "The type of the event.", example: eventCatalogue.types[0] }),
    created_at: time.meta({ description: "The time of the event." }),
    request_id: stringOrNull.meta({
      description: "The id of the request that caused the event, or null if no request caused the event.",
      example: "req_019a1b2c3d4e7f8091a2b3c4d5e6f708",
    }),
    data: anyObject.meta({
      description: "The data of the event. `GET /event-types` returns the schema for each type.",
      example: { id: "key_4fPq2rT8vX0zB6dH", name: "Continuous integration" },
    }),
    previous: anyObject.nullable().meta({
      type: ["object", "null"],
      description:
        "In `*.updated` events, the previous values of the changed members of `data`, including `updated_at`. The value is null in all other events.",
      example: null,
    }),
  })
  .openapi("Event", { description: "An event that happened in the account." });

const EventTypes = z
  .strictObject({
    data: listOf("The event types, in the order of the documentation.", {
      type: z.string().meta({ description: "The event type.", example: eventCatalogue.types[0] }),
      description: z.string().meta({ description: "A description of what happened.", example: "A key was created." }),
      scope: z.string().meta({
        description: "The scope that a key needs to subscribe to events of this type and to read them.",
        example: eventCatalogue.kinds[0]?.scope,
      }),
      schema: anyObject.meta({
        description: "The JSON Schema (2020-12) of the body of a webhook request.",
        example: { type: "object" },
      }),
      example: anyObject.meta({
        description: "An example of the body of a webhook request.",
        example: { type: "webhook.test", timestamp: "2026-01-31T09:30:00.000Z", data: {} },
      }),
    }),
  })
  .openapi("EventTypes", { description: "All event types." });

const tags = ["Events"];

const eventJson = (event: EventRow): z.infer<typeof Event> => ({
  id: event.id,
  type: event.type,
  created_at: iso(event.createdAt),
  request_id: event.requestId ?? null,
  data: event.data,
  previous: event.previous ?? null,
});

const typeJson = (event: CataloguedEvent) => {
  const { type, description, scope, previous } = event;
  const data = shapeOf(type);
  const body = plain.strictObject({
    type: plain.literal(type),
    timestamp: isoText,
    data,
    ...(previous && { previous: previousShape(data) }),
  });
  return { type, description, scope, schema: plain.toJSONSchema(body) as Record<string, unknown>, example: exampleBodyOf(event) };
};

export const routes = createRouter();
/** The event types in JSON. The resources declare the shapes of their events after this module has loaded. */
let typesJson: ReturnType<typeof typeJson>[] = [];

const types = createRoute({
  ...get("/event-types", "listEventTypes", "List event types"),
  description:
    "Returns every event type with its schema and an example. You can use the list to generate code or to fill a menu. The list is not paginated, because there are only a few dozen types.",
  tags,
  ...requireScope("webhooks:read"),
  responses: { 200: json(EventTypes, "All event types.") },
});

routes.openapi(types, (c) => {
  if (typesJson.length === 0) typesJson = eventCatalogue.kinds.map(typeJson);
  return respondJson(c, { data: typesJson }, 200);
});

const list = createRoute({
  ...get("/events", "listEvents", "List events"),
  description:
    "Lists the events of the last 30 days, newest first unless `order` is `asc`. The list contains only events of the types that the key may read. If `type` names an event type that the key may not read, the response is 403 `forbidden`.",
  tags,
  ...requireScope("webhooks:read"),
  ...sharesCpu,
  ...failsWith("forbidden"),
  request: {
    query: z.strictObject({
      ...pageQuery,
      type: severalWords(eventCatalogue.types, "Returns only events with one of these types"),
      order: z.enum(["asc", "desc"]).default("desc").meta({
        description: "The order of the events: `desc` for newest first, or `asc` for oldest first. Use `asc` to follow new events.",
      }),
    }),
  },
  responses: { 200: json(pageOf(Event, "EventPage"), "A page of events.", "Link") },
});

routes.openapi(list, async (c) => {
  const { limit, cursor, type, order } = c.req.valid("query");
  if (type !== undefined) eventCatalogue.requireReadable(type, scopesOf(c));
  const types = type ?? eventCatalogue.readableWith(scopesOf(c));
  const after = positionAt(c, cursor, z.int());
  const { rows, next } = await listEvents(contextOf(c), { types, order, after, limit });
  return respondPage(c, rows.map(eventJson), next);
});

const read = createRoute({
  ...get("/events/{id}", "getEvent", "Get an event"),
  description: "Returns one event. If the key does not have the read scope of the event's resource, the response is 403 `forbidden`.",
  tags,
  ...requireScope("webhooks:read"),
  ...failsWith("forbidden"),
  ...withConditions,
  request: { params: idParam("evt_019a1b2c3d4e7f8091a2b3c4d5e6f708") },
  responses: { 200: json(Event, "The event.", "ETag"), ...notModified },
});

routes.openapi(read, async (c) => {
  const event = await readEvent(contextOf(c), c.req.valid("param").id);
  eventCatalogue.requireReadable([event.type], scopesOf(c));
  return respondOne(c, eventJson(event), etagOf(hashOf(event.id).slice(0, 16)));
});
