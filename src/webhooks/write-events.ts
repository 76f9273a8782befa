import type { Db } from "../db/client.ts";
import { events } from "../db/schema.ts";
import type { Event } from "./event.ts";

/** Stores events that no change in D1 goes with. One that is there already is left alone. */
export async function writeEvents(db: Db, [first, ...others]: Event[]): Promise<void> {
  if (!first) return;
  const insert = (event: Event) => db.insert(events).values(event).onConflictDoNothing();
  await db.batch([insert(first), ...others.map(insert)]);
}
