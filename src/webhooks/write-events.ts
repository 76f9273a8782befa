import type { Event } from "../events/event.ts";
import { commitChange, type Outbox } from "./outbox.ts";

/** Stores events that no change in D1 goes with, and their deliveries. What is there already is left alone. */
export async function writeEvents(outbox: Outbox, events: readonly Event[]): Promise<void> {
  await commitChange(outbox, { events, statements: [], evenWhereFull: true });
}
