import { type SQL, sql } from "drizzle-orm";
import { isNotSuspended } from "../accounts/suspension.ts";
import { minuteMs, secondMs } from "../time/clock.ts";

// A webhook can have at most ten attempts in flight, and an account at most fifty. A delivery can be claimed only if a slot is free. When
// an attempt ends, the next delivery starts.

/**
 * The maximum number of attempts in flight, per webhook and per account. Because of this limit, a burst of one account does not delay other
 * accounts and does not flood a receiver.
 */
export const maxInFlight = { ofWebhook: 10, ofAccount: 50 };

/** The time for which a claim blocks other claims of the same delivery, in milliseconds. */
export const leaseMs = minuteMs;
/**
 * The time for which a claimed delivery occupies a slot, in milliseconds. A receiver has 15 s to respond. If the Worker crashes, the slot
 * is free again after this time.
 */
const inFlightMs = 20 * secondMs;

/** If no attempt follows a reservation, the delivery can be reserved again after this time, in milliseconds. */
const reservationMs = minuteMs / 2;

const inFlight = (at: number, more: SQL): SQL =>
  sql`(SELECT count(*) FROM deliveries AS other WHERE other.claim IS NOT NULL AND other.claimed_until > ${at + leaseMs - inFlightMs} AND ${more})`;

/** Returns an SQL condition that is true if both the webhook and the account of a delivery have a free slot. */
export const hasSlot = (at: number): SQL => sql`
  ${inFlight(at, sql`other.account_id = deliveries.account_id AND other.webhook_id = deliveries.webhook_id`)} < ${maxInFlight.ofWebhook}
  AND ${inFlight(at, sql`other.account_id = deliveries.account_id`)} < ${maxInFlight.ofAccount}`;

/**
 * Returns an SQL statement. The statement reserves the next due delivery of an account and returns the id of the delivery. The statement
 * chooses the webhook with the fewest attempts in flight. Of this webhook's deliveries, the statement chooses the delivery that has been
 * due longest.
 */
export const reserveNext = (
  accountId: string,
  at: number,
): SQL => sql`UPDATE deliveries SET reserved_until = ${at + reservationMs} WHERE id = (
    SELECT due FROM (
      SELECT
        (SELECT own.id FROM deliveries AS own WHERE own.status = 'pending' AND own.webhook_id = webhooks.id AND own.account_id = webhooks.account_id
          AND own.next_attempt_at <= ${at} AND own.claimed_until <= ${at} AND own.reserved_until <= ${at} ORDER BY own.next_attempt_at LIMIT 1) AS due,
        ${inFlight(at, sql`other.account_id = webhooks.account_id AND other.webhook_id = webhooks.id`)} AS in_flight
      FROM webhooks WHERE webhooks.account_id = ${accountId} AND webhooks.state = 'active' AND ${isNotSuspended(accountId)}
    ) WHERE due IS NOT NULL AND in_flight < ${maxInFlight.ofWebhook} ORDER BY in_flight LIMIT 1
  ) RETURNING id`;
