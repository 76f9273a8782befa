import { type SQL, sql } from "drizzle-orm";
import { isNotSuspended } from "../accounts/suspension.ts";
import { minuteMs, secondMs } from "../time/clock.ts";
import { maxInFlight } from "./outbox.ts";

// Ten attempts of a webhook are in flight at once, fifty of an account: a claim asks whether there is room, and each attempt that ends
// sets off the next.

/** How long a claim keeps others from a delivery. */
export const leaseMs = minuteMs;
/** How long it counts as in flight: a receiver has 15 s to answer. What a crash has left behind takes up no room for longer. */
const inFlightMs = 20 * secondMs;

/** What was set off waits so long for its attempt before it may be set off again. */
const reservedMs = minuteMs / 2;

const inFlight = (at: number, more: SQL): SQL =>
  sql`(SELECT count(*) FROM deliveries AS other WHERE other.claim IS NOT NULL AND other.claimed_until > ${at + leaseMs - inFlightMs} AND ${more})`;

/** Whether the row of `deliveries` that is to be claimed may be attempted beside what is in flight. */
export const hasSlot = (at: number): SQL => sql`
  ${inFlight(at, sql`other.account_id = deliveries.account_id AND other.webhook_id = deliveries.webhook_id`)} < ${maxInFlight.ofWebhook}
  AND ${inFlight(at, sql`other.account_id = deliveries.account_id`)} < ${maxInFlight.ofAccount}`;

/**
 * The statement that reserves the next delivery of an account and returns its id, if one is due. It takes the longest due one of the webhook
 * with the fewest in flight.
 */
export const reserveNext = (
  accountId: string,
  at: number,
): SQL => sql`UPDATE deliveries SET reserved_until = ${at + reservedMs} WHERE id = (
    SELECT due FROM (
      SELECT
        (SELECT own.id FROM deliveries AS own WHERE own.status = 'pending' AND own.webhook_id = webhooks.id AND own.account_id = webhooks.account_id
          AND own.next_attempt_at <= ${at} AND own.claimed_until <= ${at} AND own.reserved_until <= ${at} ORDER BY own.next_attempt_at LIMIT 1) AS due,
        ${inFlight(at, sql`other.account_id = webhooks.account_id AND other.webhook_id = webhooks.id`)} AS in_flight
      FROM webhooks WHERE webhooks.account_id = ${accountId} AND webhooks.state = 'active' AND ${isNotSuspended(accountId)}
    ) WHERE due IS NOT NULL AND in_flight < ${maxInFlight.ofWebhook} ORDER BY in_flight LIMIT 1
  ) RETURNING id`;
