import { createHash } from "node:crypto";
import type { z } from "zod";
import { idBound, newId } from "../ids.ts";

/** Something that happened, kept for whoever asks or has registered for it. */
export interface Event {
  accountId: string;
  id: string;
  type: string;
  createdAt: number;
  data: Record<string, unknown>;
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
}

/** The kinds of events about one thing, which all carry that thing as it is after what happened; deleted things as they were. */
export const kindsAbout =
  <Data extends z.ZodObject>(data: Data, about: { scope: string; schema: string; example: z.infer<Data> }) =>
  (type: string, description: string): EventKind<Data> => ({ type, description, data, ...about });

/** An event of a kind. What its schema does not know is refused, so that nothing is published by mistake. */
export const newEvent = <Data extends z.ZodObject>(
  kind: EventKind<Data>,
  { accountId, now }: { accountId: string; now: number },
  data: z.infer<Data>,
): Event => ({ accountId, id: newId("evt", now), type: kind.type, createdAt: now, data: kind.data.parse(data) });

/** The id of an event of which a thing has one for each time `at`, and that happened at `now`: with these it is the same again, so that storing it twice does nothing. */
export function onceEventId(type: string, thingId: string, at: number, now: number): string {
  const rest = createHash("sha256").update(`${type} ${thingId} ${at}`).digest("hex").slice(0, 20);
  return idBound("evt", now) + rest;
}
