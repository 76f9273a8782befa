import type { Event } from "../events/event.ts";
import { commitChange, type Outbox } from "./outbox.ts";

/** Stores events that belong to no other change in D1, together with their deliveries. Leaves existing events unchanged. */
export async function commitEvents(outbox: Outbox, events: readonly Event[]): Promise<void> {
  await commitChange(outbox, { events, statements: [], evenWhereFull: true });
}
