import { z } from "zod";
import { shapeOf } from "../../src/api/event-shapes.ts";
import { eventCatalogue } from "../../src/events/catalogue.ts";
import { type CataloguedEvent, exampleBodyOf, previousShape } from "../../src/events/event.ts";
import { type JsonObject, payloadName, resolve } from "../../src/openapi/document.ts";

// The shapes of events, a component for each type: as webhooks receive them and as `GET /events` shows them. Without names of their own, most
// generators would give them no type.

/** The component of the same as `GET /events` shows it. */
const storedName = (type: string) => `Stored${payloadName(type)}`;

const reference = (name: string): JsonObject => ({ $ref: `#/components/schemas/${name}` });
/** With `enum` beside `const`: some generators read only `enum`. */
const constant = (type: string): JsonObject => ({
  type: "string",
  const: type,
  enum: [type],
  description: `The type of the event: \`${type}\`.`,
});

/** The schema of the former values in an event of a change. */
function previousOf(schema: z.ZodObject): JsonObject {
  const { $schema, ...shape } = z.toJSONSchema(schema) as JsonObject;
  return { ...shape, description: "The former values of the members of `data` that changed, `updated_at` among them." };
}

function payloadOf(kind: CataloguedEvent): JsonObject {
  const { type, description, schema, previous } = kind;
  return {
    type: "object",
    description,
    required: ["type", "timestamp", "data", ...(previous ? ["previous"] : [])],
    properties: {
      type: constant(type),
      timestamp: { type: "string", format: "date-time", description: "When it happened." },
      data: reference(schema),
      ...(previous && { previous: previousOf(previousShape(shapeOf(type))) }),
    },
    additionalProperties: false,
    example: exampleBodyOf(kind) as JsonObject,
  };
}

/** `event`: the shape that all events have. */
const storedOf = (event: JsonObject, { type, description, schema }: CataloguedEvent): JsonObject => ({
  ...event,
  description,
  properties: { ...(event.properties as JsonObject), type: constant(type), data: reference(schema) },
});

const oneOf = (types: readonly string[], nameOf: (type: string) => string, description: string): JsonObject => ({
  description: `${description} Decide by \`type\`. New types may come: ignore one that you do not know.`,
  oneOf: types.map((type) => reference(nameOf(type))),
  discriminator: { propertyName: "type", mapping: Object.fromEntries(types.map((type) => [type, `#/components/schemas/${nameOf(type)}`])) },
});

/** Adds the shapes of all events, and makes `Event` the one of all. */
export function addEventSchemas(document: JsonObject): void {
  const { kinds, types } = eventCatalogue;
  const { schemas } = document.components as { schemas: Record<string, JsonObject> };
  const event = schemas.Event as JsonObject;
  for (const kind of kinds) {
    const { $schema, ...data } = z.toJSONSchema(shapeOf(kind.type)) as JsonObject;
    schemas[kind.schema] ??= { ...data, description: "What events of this kind are about.", examples: [kind.example as JsonObject] };
    schemas[payloadName(kind.type)] = payloadOf(kind);
    schemas[storedName(kind.type)] = storedOf(event, kind);
  }
  schemas.Event = oneOf(types, storedName, String(event.description));
  schemas.WebhookEvent = oneOf(types, payloadName, "The body of a request to a webhook.");
  const eventType = resolve(document, "#/components/schemas/EventTypes/properties/data/items/properties") as JsonObject;
  eventType.example = reference("WebhookEvent");
}
