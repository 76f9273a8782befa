import { and, asc, eq, gt, inArray, lt, sql } from "drizzle-orm";
import type { ReadContext } from "../accounts/actor.ts";
import type { Db } from "../db/client.ts";
import type { Event } from "../events/event.ts";
import { events } from "../events/tables.ts";
import { idBound, timeOfId } from "../ids/ids.ts";
import { minuteMs } from "../time/clock.ts";

/** How long after a request its events may be made: a deletion goes on for a while. */
const madeWithinMs = 5 * minuteMs;
const maxOfRequest = 20;
/** The events that are looked at, from the beginning of a request on, for those that it caused. Other requests make events in that time, too. */
const lookedThrough = 1000;

/** The first events that a request has caused, and the delivery of each to each webhook. Redeliveries are not among them. */
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

/** The delivery of each of these events to each webhook, by its id: reads no others. */
const readFirstDeliveries = (db: Db, eventIds: readonly string[]): Promise<{ id: string; eventId: string }[]> =>
  db.all(
    sql`SELECT deliveries.id, event_id AS eventId FROM json_each(${JSON.stringify(eventIds.map((id) => `dlv_${id.slice(4, 16)}${id.slice(-16)}`))}) AS prefix
      CROSS JOIN deliveries ON deliveries.id >= prefix.value AND deliveries.id < prefix.value || 'g' ORDER BY deliveries.id`,
  );
