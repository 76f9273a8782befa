import { createRoute, z } from "@hono/zod-openapi";
import { z as plain } from "zod";
import { iso, isoText } from "../clock.ts";
import { hashOf } from "../hash.ts";
import { type Event as EventRow, scopeOf } from "../webhooks/event.ts";
import { listEvents, readEvent } from "../webhooks/read-events.ts";
import { requireReadable } from "../webhooks/readable.ts";
import { answerOne, etagOf } from "./conditional.ts";
import { type ApiContext, reading, scopesOf } from "./context.ts";
import { EventType, eventKinds } from "./event-catalogue.ts";
import { keyWith } from "./operation.ts";
import { answerPage, cut, pageOf, positionAt } from "./pages.ts";
import { withConditions } from "./requests.ts";
import { resource } from "./resource.ts";
import { json, notModified, problems } from "./responses.ts";
import { idParam, pageQuery, time } from "./schemas.ts";
import { sendJson } from "./send.ts";

const anyObject = z.record(z.string(), z.unknown());

export const Event = z
  .strictObject({
    id: z.string().openapi({ example: "evt_019a1b2c3d4e7f8091a2b3c4d5e6f708", description: "The `webhook-id` of its requests." }),
    type: z.string().openapi({ example: "task.created" }),
    created_at: time,
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

export const events = resource();

const types = createRoute({
  method: "get",
  path: "/event-types",
  operationId: "listEventTypes",
  summary: "List the types of events",
  tags,
  ...keyWith("webhooks:read"),
  responses: { 200: json(EventTypes, "All of them."), ...problems(400) },
});

const catalogue = eventKinds.map(({ type, description, data, example }) => ({
  type,
  description,
  scope: scopeOf(type),
  schema: plain.toJSONSchema(plain.strictObject({ type: plain.literal(type), timestamp: isoText, data })) as Record<string, unknown>,
  example: { type, timestamp: "2026-01-31T09:30:00.000Z", data: example },
}));

events.openapi(types, (c) => sendJson(c, { data: catalogue }, 200));

const shown = (event: EventRow): z.infer<typeof Event> => ({
  id: event.id,
  type: event.type,
  created_at: iso(event.createdAt),
  data: event.data,
});

/** The types whose events the key in use may read. */
const readableTypes = (c: ApiContext) => eventKinds.map(({ type }) => type).filter((type) => scopesOf(c).includes(scopeOf(type)));

const list = createRoute({
  method: "get",
  path: "/events",
  operationId: "listEvents",
  summary: "List events",
  description: "Newest first, unless `order` is `asc`. Shows the types that the key may read; asking for another by `type` is `forbidden`.",
  tags,
  ...keyWith("webhooks:read"),
  request: { query: z.strictObject({ ...pageQuery, type: EventType.optional(), order: z.enum(["asc", "desc"]).default("desc") }) },
  responses: { 200: json(pageOf(Event, "EventPage"), "A page of events.", "Link"), ...problems(400) },
});

events.openapi(list, async (c) => {
  const { limit, cursor, type, order } = c.req.valid("query");
  if (type !== undefined) requireReadable([type], scopesOf(c));
  const types = type === undefined ? readableTypes(c) : [type];
  const after = positionAt(c, cursor, z.int());
  const { shown: rows, last } = cut(await listEvents(reading(c), { types, order, after, limit: limit + 1 }), limit);
  return answerPage(c, rows.map(shown), last?.place ?? null);
});

const read = createRoute({
  method: "get",
  path: "/events/{id}",
  operationId: "getEvent",
  summary: "Get an event",
  tags,
  ...keyWith("webhooks:read"),
  ...withConditions,
  request: { params: idParam("evt_019a1b2c3d4e7f8091a2b3c4d5e6f708") },
  responses: { 200: json(Event, "The event.", "ETag"), ...notModified, ...problems(400, 404, 412) },
});

events.openapi(read, async (c) => {
  const event = await readEvent(reading(c), c.req.valid("param").id);
  requireReadable([event.type], scopesOf(c));
  return answerOne(c, shown(event), etagOf(hashOf(event.id).slice(0, 16)));
});
