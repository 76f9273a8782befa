import { z } from "zod";
import { type JsonObject, payloadName, resolve } from "../../src/api/openapi/document.ts";
import { eventCatalogue } from "../../src/outbox/catalogue.ts";
import { type CataloguedEvent, exampleBodyOf, previousShape, shapeOf } from "../../src/outbox/event.ts";

// Builds the schemas of events. Each event type has two named schemas: one for the body of a webhook request, and one for the event in `GET
// /events`. Most code generators create no types for schemas without a name.

/** Returns the name of the schema that an event type has in `GET /events`. */
const storedName = (type: string) => `Stored${payloadName(type)}`;

const reference = (name: string): JsonObject => ({ $ref: `#/components/schemas/${name}` });
/** The schema has `enum` in addition to `const`, because some code generators ignore `const`. */
const constant = (type: string): JsonObject => ({
  type: "string",
  const: type,
  enum: [type],
  description: `The type of the event: \`${type}\`.`,
});

/** Returns the schema of `previous`, which contains the values before a change. */
function previousOf(schema: z.ZodObject): JsonObject {
  const { $schema, ...shape } = z.toJSONSchema(schema) as JsonObject;
  return { ...shape, description: "The previous values of the changed members of `data`, including `updated_at`." };
}

function payloadOf(kind: CataloguedEvent): JsonObject {
  const { type, description, schema, previous } = kind;
  return {
    type: "object",
    description,
    required: ["type", "timestamp", "data", ...(previous ? ["previous"] : [])],
    properties: {
      type: constant(type),
      timestamp: { type: "string", format: "date-time", description: "The time of the event." },
      data: reference(schema),
      ...(previous && { previous: previousOf(previousShape(shapeOf(type))) }),
    },
    additionalProperties: false,
    example: exampleBodyOf(kind) as JsonObject,
  };
}

/** Returns the schema that one event type has in `GET /events`. `event` is the common schema of all events. */
const storedOf = (event: JsonObject, { type, description, schema }: CataloguedEvent): JsonObject => ({
  ...event,
  description,
  properties: { ...(event.properties as JsonObject), type: constant(type), data: reference(schema) },
});

const oneOf = (types: readonly string[], nameOf: (type: string) => string, description: string): JsonObject => ({
  description: `${description} The member \`type\` determines the schema of an event. Ignore unknown types, because new types may be added.`,
  oneOf: types.map((type) => reference(nameOf(type))),
  discriminator: { propertyName: "type", mapping: Object.fromEntries(types.map((type) => [type, `#/components/schemas/${nameOf(type)}`])) },
});

/** Adds the schemas of all event types, and the unions `Event` and `WebhookEvent`. */
export function addEventSchemas(document: JsonObject): void {
  const { kinds, types } = eventCatalogue;
  const { schemas } = document.components as { schemas: Record<string, JsonObject> };
  const event = schemas.Event as JsonObject;
  for (const kind of kinds) {
    const { $schema, ...data } = z.toJSONSchema(shapeOf(kind.type)) as JsonObject;
    schemas[kind.schema] ??= { ...data, description: "The `data` of an event.", examples: [kind.example as JsonObject] };
    schemas[payloadName(kind.type)] = payloadOf(kind);
    schemas[storedName(kind.type)] = storedOf(event, kind);
  }
  schemas.Event = oneOf(types, storedName, String(event.description));
  schemas.WebhookEvent = oneOf(types, payloadName, "The body of a request to a webhook.");
  const eventType = resolve(document, "#/components/schemas/EventTypes/properties/data/items/properties") as JsonObject;
  eventType.example = reference("WebhookEvent");
}
