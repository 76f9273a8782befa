import { createRoute, z } from "@hono/zod-openapi";
import { z as plain } from "zod";
import { iso } from "../../clock.ts";
import type { EventCatalogue } from "../../events/catalogue.ts";
import type { EventKind, Event as EventRow } from "../../events/event.ts";
import { listEvents, readEvent } from "../../events/read-events.ts";
import { hashOf } from "../../hash.ts";
import { isoText } from "../../iso-text.ts";
import { reading, scopesOf } from "../acting.ts";
import { etagOf, respondOne } from "../middleware/conditional.ts";
import { respondJson } from "../respond.ts";
import { requireScope } from "../route-parts/access.ts";
import { cut, pageOf, positionAt, respondPage } from "../route-parts/pages.ts";
import { withConditions } from "../route-parts/requests.ts";
import { json, notModified, problems } from "../route-parts/responses.ts";
import { idParam, pageQuery, time } from "../route-parts/schemas.ts";
import { type ApiRouter, createRouter } from "../router.ts";

const anyObject = z.record(z.string(), z.unknown());

export const Event = z
  .strictObject({
    id: z.string().openapi({ example: "evt_019a1b2c3d4e7f8091a2b3c4d5e6f708", description: "The `webhook-id` of its requests." }),
    type: z.string().openapi({ example: "task.created" }),
    created_at: time,
    request_id: z.string().nullable().openapi({ description: "The request that caused it; null where none did." }),
    data: anyObject.openapi({ description: "As `GET /event-types` describes it for the type." }),
  })
  .openapi("Event");

const EventTypes = z
  .strictObject({
    data: z.array(
      z.strictObject({
        type: z.string(),
        description: z.string(),
        scope: z.string().openapi({ description: "What a key needs to subscribe to it and to read it." }),
        schema: anyObject.openapi({ description: "JSON Schema (2020-12) of a request's body." }),
        example: anyObject.openapi({ description: "Such a body." }),
      }),
    ),
  })
  .openapi("EventTypes");

const tags = ["Events"];

const eventJson = (event: EventRow): z.infer<typeof Event> => ({
  id: event.id,
  type: event.type,
  created_at: iso(event.createdAt),
  request_id: event.requestId ?? null,
  data: event.data,
});

const typeJson = ({ type, description, scope, data, example }: EventKind) => ({
  type,
  description,
  scope,
  schema: plain.toJSONSchema(plain.strictObject({ type: plain.literal(type), timestamp: isoText, data })) as Record<string, unknown>,
  example: { type, timestamp: "2026-01-31T09:30:00.000Z", data: example },
});

export function events(catalogue: EventCatalogue): ApiRouter {
  const events = createRouter();
  const typesJson = catalogue.kinds.map(typeJson);

  const types = createRoute({
    method: "get",
    path: "/event-types",
    operationId: "listEventTypes",
    summary: "List the types of events",
    tags,
    ...requireScope("webhooks:read"),
    responses: { 200: json(EventTypes, "All of them."), ...problems(400) },
  });

  events.openapi(types, () => respondJson({ data: typesJson }, 200));

  const list = createRoute({
    method: "get",
    path: "/events",
    operationId: "listEvents",
    summary: "List events",
    description:
      "Newest first, unless `order` is `asc`. Shows the types that the key may read; asking for another by `type` is `forbidden`.",
    tags,
    ...requireScope("webhooks:read"),
    request: {
      query: z.strictObject({ ...pageQuery, type: z.enum(catalogue.types).optional(), order: z.enum(["asc", "desc"]).default("desc") }),
    },
    responses: { 200: json(pageOf(Event, "EventPage"), "A page of events.", "Link"), ...problems(400) },
  });

  events.openapi(list, async (c) => {
    const { limit, cursor, type, order } = c.req.valid("query");
    if (type !== undefined) catalogue.requireReadable([type], scopesOf(c));
    const types = type === undefined ? catalogue.readableWith(scopesOf(c)) : [type];
    const after = positionAt(c, cursor, z.int());
    const { rows, last } = cut(await listEvents(reading(c), { types, order, after, limit: limit + 1 }), limit);
    return respondPage(c, rows.map(eventJson), last?.sequence ?? null);
  });

  const read = createRoute({
    method: "get",
    path: "/events/{id}",
    operationId: "getEvent",
    summary: "Get an event",
    tags,
    ...requireScope("webhooks:read"),
    ...withConditions,
    request: { params: idParam("evt_019a1b2c3d4e7f8091a2b3c4d5e6f708") },
    responses: { 200: json(Event, "The event.", "ETag"), ...notModified, ...problems(400, 404, 412) },
  });

  events.openapi(read, async (c) => {
    const event = await readEvent(reading(c), c.req.valid("param").id);
    catalogue.requireReadable([event.type], scopesOf(c));
    return respondOne(c, eventJson(event), etagOf(hashOf(event.id).slice(0, 16)));
  });

  return events;
}
