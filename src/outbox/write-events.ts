import type { Event } from "./event.ts";
import { commitChange, type Outbox } from "./outbox.ts";

/** Stores events and their deliveries in D1, without any other change. If an event already exists, the event stays unchanged. */
export async function commitEvents(outbox: Outbox, events: readonly Event[]): Promise<void> {
  await commitChange(outbox, { events, statements: {}, whenFull: "write" });
}
