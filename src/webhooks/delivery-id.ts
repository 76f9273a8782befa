import { type SQL, sql } from "drizzle-orm";

// The id of the first delivery of an event to a webhook. It combines the event's time, the last 16 characters of the event's id, and the webhook's
// number. Each pair of event and webhook has a different id.

/** The id of the first delivery of the row of `events` to the row of `webhooks`. */
export const firstDeliveryId: SQL = sql.raw(
  "'dlv_' || substr(events.id, 5, 12) || substr(events.id, -16) || printf('%04x', webhooks.number)",
);

/** Returns the characters with which the ids of all first deliveries of an event start. */
export const firstDeliveryPrefix = (eventId: string): string => `dlv_${eventId.slice(4, 16)}${eventId.slice(-16)}`;
