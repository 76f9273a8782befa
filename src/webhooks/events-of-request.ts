import { and, asc, eq, gt, inArray, lt, sql } from "drizzle-orm";
import type { ReadContext } from "../accounts/actor.ts";
import type { Db } from "../db/client.ts";
import type { Event } from "../events/event.ts";
import { events } from "../events/tables.ts";
import { idBound, timeOfId } from "../ids/ids.ts";
import { minuteMs } from "../time/clock.ts";
import { firstDeliveryPrefix } from "./delivery-id.ts";

/**
 * The time after the start of a request in which the request can create events, in milliseconds. This time is long, because a deletion can
 * run for a while.
 */
const madeWithinMs = 5 * minuteMs;
const maxOfRequest = 20;
/**
 * The maximum number of events to scan. The scan begins with the first event after the start of a request. The scan includes events of
 * other requests from the same period.
 */
const lookedThrough = 1000;

/** Returns the first 20 events that a request caused, with the first delivery of each event to each webhook. Omits redeliveries. */
export async function readEventsOfRequest(
  { db, actor }: ReadContext,
  requestId: string,
): Promise<{ event: Event; deliveryIds: string[] }[]> {
  const at = timeOfId(requestId);
  const madeMeanwhile = db
    .select({ id: events.id })
    .from(events)
    .where(and(eq(events.accountId, actor.accountId), gt(events.id, idBound("evt", at)), lt(events.id, idBound("evt", at + madeWithinMs))))
    .orderBy(asc(events.id))
    .limit(lookedThrough);
  const found = await db
    .select()
    .from(events)
    .where(and(eq(events.accountId, actor.accountId), inArray(events.id, madeMeanwhile), eq(sql`+${events.requestId}`, requestId)))
    .orderBy(asc(events.id))
    .limit(maxOfRequest);
  if (found.length === 0) return [];
  const sent = await readFirstDeliveries(
    db,
    found.map(({ id }) => id),
  );
  return found.map((event) => ({ event, deliveryIds: sent.filter(({ eventId }) => eventId === event.id).map(({ id }) => id) }));
}

/**
 * Returns the first delivery of each event to each webhook. Finds these deliveries by the prefix of their ids and reads no other
 * deliveries.
 */
const readFirstDeliveries = (db: Db, eventIds: readonly string[]): Promise<{ id: string; eventId: string }[]> =>
  db.all(
    sql`SELECT deliveries.id, event_id AS eventId FROM json_each(${JSON.stringify(eventIds.map(firstDeliveryPrefix))}) AS prefix
      CROSS JOIN deliveries ON deliveries.id >= prefix.value AND deliveries.id < prefix.value || 'g' ORDER BY deliveries.id`,
  );
