import type { Event } from "../events/event.ts";
import { commitChange, type Outbox } from "./outbox.ts";

/** Stores events and their deliveries in D1. These events do not accompany any other change in D1. Leaves existing events unchanged. */
export async function commitEvents(outbox: Outbox, events: readonly Event[]): Promise<void> {
  await commitChange(outbox, { events, statements: [], evenWhereFull: true });
}
