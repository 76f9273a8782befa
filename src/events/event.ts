import type { z } from "zod";
import { hashOf } from "../crypto/hash.ts";
import { differing } from "../db/differing.ts";
import type { EventGroup } from "../db/manifest.ts";
import { idBound, newId } from "../ids/ids.ts";
import { iso } from "../time/clock.ts";

/** Something that happened in an account. `GET /events` returns events, and webhooks receive them. */
export interface Event {
  accountId: string;
  id: string;
  type: string;
  createdAt: number;
  data: Readonly<Record<string, unknown>>;
  /** The former values of the members of `data` that changed. Absent or null if the event does not describe a change. */
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
  /** The name of the schema of the data. */
  schema: string;
  /** Example data of an event of this type. */
  example: Readonly<Record<string, unknown>>;
  /** Example former values of the members that changed. Present only if the event type describes a change. */
  previous?: Readonly<Record<string, unknown>>;
}

/** One event type with the schema of its data. */
export interface EventKind<Data extends z.ZodObject = z.ZodObject> {
  type: string;
  schema: string;
  data: Data;
}

/**
 * Returns the event types of a group with the schema of their data. The data show the resource after the event. The data of a deletion event show the
 * deleted resource.
 */
export const kindsOf = <Group extends EventGroup, Data extends z.ZodObject>(
  { schema, types }: Group,
  data: Data,
): Record<Extract<keyof Group["types"], string>, EventKind<Data>> =>
  Object.fromEntries(Object.keys(types).map((type) => [type, { type, schema, data }])) as Record<
    Extract<keyof Group["types"], string>,
    EventKind<Data>
  >;

interface Occurrence {
  accountId: string;
  now: number;
}

/** Creates an event. Throws if `data` has members that the schema does not know, so that nothing is published by mistake. */
export const newEvent = <Data extends z.ZodObject>(kind: EventKind<Data>, { accountId, now }: Occurrence, data: z.infer<Data>): Event => ({
  accountId,
  id: newId("evt", now),
  type: kind.type,
  createdAt: now,
  data: kind.data.parse(data),
});

/** Creates an event for a change, with the former values of the members that differ. */
export const newChangeEvent = <Data extends z.ZodObject>(
  kind: EventKind<Data>,
  occurrence: Occurrence,
  { before, after }: { before: z.infer<Data>; after: z.infer<Data> },
): Event => ({ ...newEvent(kind, occurrence, after), previous: previousShape(kind.data).parse(differing(before, after)) });

/** Returns the schema of the former values in an event that describes a change. */
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

/** Returns the body of the webhook requests for an event. */
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

/** Returns an example body of the webhook requests for an event type. */
export const exampleBodyOf = ({ type, example, previous }: CataloguedEvent): Record<string, unknown> =>
  bodyOf({ type, createdAt: exampleTime, data: example, previous: previous ?? null });

const exampleTime = Date.parse("2026-01-31T09:30:00.000Z");

/**
 * Returns the id of an event that occurs only once per resource and time `at`. The same arguments give the same id, so storing the event twice has no
 * effect.
 */
export function deterministicEventId(type: string, thingId: string, at: number, now: number): string {
  const rest = hashOf(`${type} ${thingId} ${at}`).slice(0, 20);
  return idBound("evt", now) + rest;
}
