import { and, asc, eq, gt, inArray, lt, sql } from "drizzle-orm";
import type { ReadContext } from "../../accounts/actor.ts";
import { events } from "../../db/areas/events/tables.ts";
import type { Db } from "../../db/client.ts";
import { idBound, timeOfId } from "../../lib/ids.ts";
import { minuteMs } from "../../lib/time/clock.ts";
import { firstDeliveryPrefix } from "../../outbox/delivery-id.ts";

/**
 * The time after the start of a request in which the request can create events, in milliseconds. This time is long, because a deletion can
 * run for a while.
 */
const madeWithinMs = 5 * minuteMs;
const maxOfRequest = 50;
/**
 * The maximum number of events to scan. The scan begins with the first event after the start of a request. The scan includes events of
 * other requests from the same period.
 */
const lookedThrough = 1000;

/** The first delivery of an event to a webhook. */
export interface FirstDelivery {
  id: string;
  webhookId: string;
}

/**
 * Returns at most 50 events that a request caused, at least one of each type, with the first delivery of each event to each webhook. Omits redeliveries.
 * `count`: the number of all events that the request caused.
 */
export async function readEventsOfRequest({ db, actor }: ReadContext, requestId: string) {
  const at = timeOfId(requestId);
  const madeMeanwhile = db
    .select({ id: events.id })
    .from(events)
    .where(and(eq(events.accountId, actor.accountId), gt(events.id, idBound("evt", at)), lt(events.id, idBound("evt", at + madeWithinMs))))
    .orderBy(asc(events.id))
    .limit(lookedThrough);
  const rows = await db
    .select({ event: events, count: sql<number>`count(*) OVER ()` })
    .from(events)
    .where(and(eq(events.accountId, actor.accountId), inArray(events.id, madeMeanwhile), eq(sql`+${events.requestId}`, requestId)))
    .orderBy(sql`row_number() OVER (PARTITION BY ${events.type} ORDER BY ${events.id})`, asc(events.id))
    .limit(maxOfRequest);
  if (rows.length === 0) return { caused: [], count: 0 };
  const found = rows.map(({ event }) => event).toSorted((a, b) => (a.id < b.id ? -1 : 1));
  const sent = await readFirstDeliveries(
    db,
    found.map(({ id }) => id),
  );
  return {
    caused: found.map((event) => ({ event, first: sent.filter(({ eventId }) => eventId === event.id) })),
    count: rows[0]?.count ?? 0,
  };
}

/**
 * Returns the first delivery of each event to each webhook. Finds these deliveries by the prefix of their ids and reads no other
 * deliveries.
 */
const readFirstDeliveries = (db: Db, eventIds: readonly string[]): Promise<(FirstDelivery & { eventId: string })[]> =>
  db.all(
    sql`SELECT deliveries.id, webhook_id AS webhookId, event_id AS eventId FROM json_each(${JSON.stringify(eventIds.map(firstDeliveryPrefix))}) AS prefix
      CROSS JOIN deliveries ON deliveries.id >= prefix.value AND deliveries.id < prefix.value || 'g' ORDER BY deliveries.id`,
  );
