import type { z } from "zod";
import { differing } from "../db/differing.ts";
import type { EventGroup } from "../db/manifest.ts";
import { hashOf } from "../lib/crypto/hash.ts";
import { idBound, newId } from "../lib/ids.ts";
import { iso } from "../lib/time/clock.ts";

/** Something that happened in an account. `GET /events` returns events, and webhooks receive them. */
export interface Event {
  accountId: string;
  id: string;
  type: string;
  createdAt: number;
  data: Readonly<Record<string, unknown>>;
  /** The previous values of changed members of `data`. Absent or null if the event does not describe a change. */
  previous?: Readonly<Record<string, unknown>> | null;
  /** The request that caused the event. */
  requestId?: string | null;
}

/** One event type, as declared in the manifest of its area. */
export interface CataloguedEvent {
  type: string;
  description: string;
  /** The scope that a key needs to read the event. */
  scope: string;
  /** The name of the OpenAPI schema for the event data. */
  schema: string;
  example: Readonly<Record<string, unknown>>;
  /** Example previous values of changed members. Present only if the event type describes a change. */
  previous?: Readonly<Record<string, unknown>>;
}

export interface EventKind<Data extends z.ZodObject = z.ZodObject> {
  type: string;
  schema: string;
  data: Data;
}

const shapes = new Map<string, z.ZodObject>();

/** Returns the schema of an event type's data. Throws if no area has declared the event type with `kindsOf`. */
export function shapeOf(type: string): z.ZodObject {
  const shape = shapes.get(type);
  if (!shape) throw new Error(`no area has a shape for ${type}`);
  return shape;
}

/**
 * Declares the event types of a group, by name, each with the schema of its event data. The data of an event show the resource after the
 * event. The data of a deletion event show the deleted resource.
 */
export const kindsOf = <Group extends EventGroup, Data extends z.ZodObject>(
  { schema, types }: Group,
  data: Data,
): Record<Extract<keyof Group["types"], string>, EventKind<Data>> => {
  for (const type of Object.keys(types)) shapes.set(type, data);
  return Object.fromEntries(Object.keys(types).map((type) => [type, { type, schema, data }])) as Record<
    Extract<keyof Group["types"], string>,
    EventKind<Data>
  >;
};

interface Occurrence {
  accountId: string;
  now: number;
}

/** Creates an event. Throws if `data` has members that are not in the schema. This check prevents the publication of data by mistake. */
export const newEvent = <Data extends z.ZodObject>(kind: EventKind<Data>, { accountId, now }: Occurrence, data: z.infer<Data>): Event => ({
  accountId,
  id: newId("evt", now),
  type: kind.type,
  createdAt: now,
  data: kind.data.parse(data),
});

/** Creates an event that describes a change. The event contains the previous values of the changed members. */
export const newChangeEvent = <Data extends z.ZodObject>(
  kind: EventKind<Data>,
  occurrence: Occurrence,
  { before, after }: { before: z.infer<Data>; after: z.infer<Data> },
): Event => ({ ...newEvent(kind, occurrence, after), previous: previousShape(kind.data).parse(differing(before, after)) });

/** Returns the schema for the previous values in an event that describes a change. */
export const previousShape = <Data extends z.ZodObject>(data: Data) => data.partial();

/** Creates an event with the example data of its type. */
export const newExampleEvent = ({ type, example, previous }: CataloguedEvent, { accountId, now }: Occurrence): Event => ({
  accountId,
  id: newId("evt", now),
  type,
  createdAt: now,
  data: example,
  previous: previous ?? null,
});

/** Returns the request body that webhooks receive for an event. */
export const bodyOf = ({
  type,
  createdAt,
  data,
  previous,
}: Pick<Event, "type" | "createdAt" | "data" | "previous">): Record<string, unknown> => ({
  type,
  timestamp: iso(createdAt),
  data,
  ...(previous && { previous }),
});

/** Returns an example of the request body that webhooks receive for an event type. */
export const exampleBodyOf = ({ type, example, previous }: CataloguedEvent): Record<string, unknown> =>
  bodyOf({ type, createdAt: exampleTime, data: example, previous: previous ?? null });

const exampleTime = Date.parse("2026-01-31T09:30:00.000Z");

/**
 * Returns the id of an event that occurs only once per resource and time `at`. The same arguments give the same id. Storing the event twice
 * therefore has no effect.
 */
export function deterministicEventId(type: string, thingId: string, at: number, now: number): string {
  const rest = hashOf(`${type} ${thingId} ${at}`).slice(0, 20);
  return idBound("evt", now) + rest;
}
