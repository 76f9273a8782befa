import type { z } from "zod";
import { hashOf } from "../crypto/hash.ts";
import { differing } from "../db/differing.ts";
import type { EventGroup } from "../db/manifest.ts";
import { idBound, newId } from "../ids/ids.ts";
import { iso } from "../time/clock.ts";

/** Something that happened. It is stored for `GET /events` and for webhooks. */
export interface Event {
  accountId: string;
  id: string;
  type: string;
  createdAt: number;
  data: Readonly<Record<string, unknown>>;
  /** The former values of the members of `data` that changed; absent or null in an event that tells of no change. */
  previous?: Readonly<Record<string, unknown>> | null;
  /** The request that caused it. */
  requestId?: string | null;
}

/** One type of event, as the manifest of its area states it. */
export interface CataloguedEvent {
  type: string;
  description: string;
  /** The scope that a key needs to read it. */
  scope: string;
  /** What the shape of the data is called. */
  schema: string;
  /** Data as such an event has. */
  example: Readonly<Record<string, unknown>>;
  /** Of an event of a change: an example of the former values of what changed. */
  previous?: Readonly<Record<string, unknown>>;
}

/** One type of event with the shape of its data. */
export interface EventKind<Data extends z.ZodObject = z.ZodObject> {
  type: string;
  schema: string;
  data: Data;
}

/** The types of events of a group, with the shape of their data: all carry a thing as it is after what happened; a deleted thing as it was. */
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

/** An event of a kind. What its schema does not know is refused, so that nothing is published by mistake. */
export const newEvent = <Data extends z.ZodObject>(kind: EventKind<Data>, { accountId, now }: Occurrence, data: z.infer<Data>): Event => ({
  accountId,
  id: newId("evt", now),
  type: kind.type,
  createdAt: now,
  data: kind.data.parse(data),
});

/** An event of a change, with the former values of the members that differ. */
export const newChangeEvent = <Data extends z.ZodObject>(
  kind: EventKind<Data>,
  occurrence: Occurrence,
  { before, after }: { before: z.infer<Data>; after: z.infer<Data> },
): Event => ({ ...newEvent(kind, occurrence, after), previous: previousShape(kind.data).parse(differing(before, after)) });

/** The shape of the former values in an event of a change. */
export const previousShape = <Data extends z.ZodObject>(data: Data) => data.partial();

/** An event that carries the example of its type. */
export const newExampleEvent = ({ type, example, previous }: CataloguedEvent, { accountId, now }: Occurrence): Event => ({
  accountId,
  id: newId("evt", now),
  type,
  createdAt: now,
  data: example,
  previous: previous ?? null,
});

/** The body that webhooks are sent of an event. */
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

/** An example of the body that webhooks are sent of a kind. */
export const exampleBodyOf = ({ type, example, previous }: CataloguedEvent): Record<string, unknown> =>
  bodyOf({ type, createdAt: exampleTime, data: example, previous: previous ?? null });

const exampleTime = Date.parse("2026-01-31T09:30:00.000Z");

/** Returns the id of an event that a resource has once for each time `at`. The same arguments give the same id, so storing the event twice does nothing. */
export function onceEventId(type: string, thingId: string, at: number, now: number): string {
  const rest = hashOf(`${type} ${thingId} ${at}`).slice(0, 20);
  return idBound("evt", now) + rest;
}
