import { createHash } from "node:crypto";
import type { z } from "zod";
import { differing } from "../db/differing.ts";
import { idBound, newId } from "../ids/ids.ts";
import { iso } from "../time/clock.ts";

/** Something that happened, kept for whoever asks or has registered for it. */
export interface Event {
  accountId: string;
  id: string;
  type: string;
  createdAt: number;
  data: Record<string, unknown>;
  /** The former values of the members of `data` that changed; absent or null in an event that tells of no change. */
  previous?: Record<string, unknown> | null;
  /** The request that caused it. */
  requestId?: string | null;
}

/** One type of event: what it means, the scope that a key needs to read it, and the shape of its data. `example` is data as such an event has. */
export interface EventKind<Data extends z.ZodObject = z.ZodObject> {
  type: string;
  description: string;
  scope: string;
  data: Data;
  /** What the shape of the data is called. */
  schema: string;
  example: z.infer<Data>;
  /** Of a kind that tells of a change: the shape of the former values of what changed, and an example of them. */
  previous?: { schema: z.ZodObject; example: Partial<z.infer<Data>> };
}

/** A kind that tells of a change. */
export type ChangeKind<Data extends z.ZodObject> = EventKind<Data> & Required<Pick<EventKind<Data>, "previous">>;

/** The kinds of events about one thing, which all carry that thing as it is after what happened; deleted things as they were. */
export const kindsAbout =
  <Data extends z.ZodObject>(data: Data, about: { scope: string; schema: string; example: z.infer<Data> }) =>
  (type: string, description: string): EventKind<Data> => ({ type, description, data, ...about });

/** A kind that tells of a change. `example`: of the former values of what changed. */
export const ofChange = <Data extends z.ZodObject>(kind: EventKind<Data>, example: Partial<z.infer<Data>>): ChangeKind<Data> => ({
  ...kind,
  previous: { schema: kind.data.partial(), example },
});

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
  kind: ChangeKind<Data>,
  occurrence: Occurrence,
  { before, after }: { before: z.infer<Data>; after: z.infer<Data> },
): Event => ({ ...newEvent(kind, occurrence, after), previous: kind.previous.schema.parse(differing(before, after)) });

/** An event that carries the example of its kind. */
export const newExampleEvent = (kind: EventKind, occurrence: Occurrence): Event => ({
  ...newEvent(kind, occurrence, kind.example),
  previous: kind.previous?.example ?? null,
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
export const exampleBodyOf = ({ type, example, previous }: EventKind): Record<string, unknown> =>
  bodyOf({ type, createdAt: exampleTime, data: example, previous: previous?.example ?? null });

const exampleTime = Date.parse("2026-01-31T09:30:00.000Z");

/** The id of an event of which a thing has one for each time `at`, and that happened at `now`: with these it is the same again, so that storing it twice does nothing. */
export function onceEventId(type: string, thingId: string, at: number, now: number): string {
  const rest = createHash("sha256").update(`${type} ${thingId} ${at}`).digest("hex").slice(0, 20);
  return idBound("evt", now) + rest;
}
