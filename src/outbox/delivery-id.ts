import { type SQL, sql } from "drizzle-orm";

// The id of the first delivery of an event to a webhook. The id combines the event's time, the last 16 characters of the event's id, and
// the webhook's number. Each pair of an event and a webhook has a different id.

/** The SQL expression for the id of a first delivery. The expression uses a row of `events` and a row of `webhooks`. */
export const firstDeliveryId: SQL = sql.raw(
  "'dlv_' || substr(events.id, 5, 12) || substr(events.id, -16) || printf('%04x', webhooks.number)",
);

export const firstDeliveryIdOf = (eventId: string, webhookNumber: number): string =>
  `${firstDeliveryPrefix(eventId)}${webhookNumber.toString(16).padStart(4, "0")}`;

/** Returns the common prefix of the ids of all first deliveries of an event. */
export const firstDeliveryPrefix = (eventId: string): string => `dlv_${eventId.slice(4, 16)}${eventId.slice(-16)}`;
