import type { Db } from "../db/client.ts";
import { commitChange, type Wake } from "./commit.ts";
import type { Event } from "./event.ts";

/** Stores events that no change in D1 goes with, and their deliveries. What is there already is left alone. */
export async function writeEvents(db: Db, wake: Wake, events: readonly Event[]): Promise<void> {
  await commitChange(db, wake, { events, statements: [] });
}
