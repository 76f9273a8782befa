import { type SQL, sql } from "drizzle-orm";
import { isNotSuspended } from "../accounts/suspension.ts";
import { hourMs, minuteMs, secondMs } from "../lib/time/clock.ts";

// A webhook can have at most ten attempts in flight, and an account at most fifty. A delivery can be claimed only if a slot is free. When
// an attempt ends, the next delivery starts. All accounts share the slots of a host. An account may take a slot if it holds fewer slots of the
// host than are free, so no account can take all of them. A host that has never answered with 2xx may not know that it receives events.

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

/** The number of slots of a host that has answered. An attempt occupies its slot until it ends, but for a second at least. */
export const maxAtHost = 200;
const minSlotMs = secondMs;
/** The maximum number of attempts per hour at one host that has never answered. Only one of these attempts may be in flight. */
export const maxUnansweredPerHour = 60;
/** The maximum number of attempts of an account per hour at all hosts that have never answered. The account chooses hosts and ports. */
export const maxUnansweredOfAccount = 120;

/**
 * The maximum difference between the clocks of two machines, in milliseconds. If a delivery becomes due within this time, the delivery
 * already counts as due.
 */
export const skewMs = secondMs;

/** If no attempt follows a reservation, the delivery can be reserved again after this time, in milliseconds. */
const reservationMs = minuteMs / 2;

const inFlight = (at: number, more: SQL): SQL =>
  sql`(SELECT count(*) FROM deliveries AS other WHERE other.claim IS NOT NULL AND other.claimed_until > ${at + leaseMs - inFlightMs} AND ${more})`;

/** Returns an SQL condition that is true if both the webhook and the account of a delivery have a free slot. */
export const hasSlot = (at: number): SQL => sql`
  ${inFlight(at, sql`other.account_id = deliveries.account_id AND other.webhook_id = deliveries.webhook_id`)} < ${maxInFlight.ofWebhook}
  AND ${inFlight(at, sql`other.account_id = deliveries.account_id`)} < ${maxInFlight.ofAccount}`;

const hasAnswered = sql`EXISTS (SELECT 1 FROM webhooks AS answered WHERE answered.answered_host = webhooks.host)`;
const slots = (condition: SQL): SQL => sql`(SELECT count(*) + count(*) FILTER (WHERE slot.taken_by = webhooks.account_id)
  FROM webhook_slots AS slot WHERE slot.host = webhooks.host AND (${condition}))`;

/** An SQL expression on a row of `deliveries`: the host of its webhook if the host has never answered, or null. */
export const unansweredHost = sql`(SELECT host FROM webhooks WHERE webhooks.account_id = deliveries.account_id AND webhooks.id = deliveries.webhook_id AND NOT ${hasAnswered})`;

const isOpen = (at: number): SQL => sql`slot.is_open AND slot.started_at > ${at - inFlightMs}`;

/** Returns an SQL condition on a row of `webhooks`. It is true if the host of the webhook has a free slot for the account of the webhook. */
export function hostHasRoom(at: number): SQL {
  const inLastHour = sql`slot.started_at > ${at - hourMs}`;
  return sql`iif(${hasAnswered},
    ${slots(sql`slot.started_at > ${at - minSlotMs} OR ${isOpen(at)}`)} < ${maxAtHost},
    ${slots(isOpen(at))} = 0 AND ${slots(inLastHour)} < ${maxUnansweredPerHour} AND ${maxUnansweredOfAccount} >
      (SELECT count(*) FROM webhook_slots AS slot WHERE slot.taken_by = webhooks.account_id AND slot.is_answered = 0 AND ${inLastHour}))`;
}

/** Returns a SELECT of the webhook of a row of `deliveries`, if its host has no free slot. */
const webhookWithoutRoom = (at: number, columns: SQL = sql`1`): SQL =>
  sql`SELECT ${columns} FROM webhooks WHERE webhooks.account_id = deliveries.account_id AND webhooks.id = deliveries.webhook_id AND NOT ${hostHasRoom(at)}`;

/** Returns an SQL condition on a row of `deliveries`: the host of its webhook has a free slot, or the webhook does not exist. */
export const hasSlotAtHost = (at: number): SQL => sql`NOT EXISTS (${webhookWithoutRoom(at)})`;

/** The minimum delay of a delivery whose host has no free slot, in milliseconds. */
const minWaitMs = 2 * secondMs;
/** The maximum number of deliveries that one statement postpones. */
const postponedAtOnce = 100;

/**
 * Returns an SQL statement. If the host of a delivery's webhook has no free slot, the statement postpones the due deliveries of the webhook by random
 * delays, and returns them. The delays grow with the number of waiting deliveries of the account, so that few messages are sent for deliveries that have
 * to wait. The delays are longest if the host gets no more attempts in this hour.
 */
export function postponeWithoutSlot(deliveryId: string, at: number): SQL {
  const msOfEach = sql`iif(${hasAnswered}, 10, iif(${slots(isOpen(at))} > 0, ${secondMs}, ${minuteMs}))`;
  const pending = sql`(SELECT sum(pending) FROM webhook_backlogs AS backlog WHERE backlog.account_id = webhooks.account_id)`;
  return sql`WITH blocked AS (SELECT webhook_id, (${webhookWithoutRoom(at, sql`1 + min(${hourMs}, ${msOfEach} * ${pending})`)}) AS wait_ms
      FROM deliveries WHERE id = ${deliveryId} AND status = 'pending' AND next_attempt_at <= ${at + skewMs})
    UPDATE deliveries SET reserved_until = 0, next_attempt_at = ${at + minWaitMs} + abs(random() % blocked.wait_ms) FROM blocked
    WHERE wait_ms IS NOT NULL AND id IN (
      SELECT id FROM deliveries AS own WHERE own.status = 'pending' AND own.webhook_id = (SELECT webhook_id FROM blocked)
        AND own.next_attempt_at <= ${at + skewMs} AND own.claimed_until <= ${at} ORDER BY own.next_attempt_at LIMIT ${postponedAtOnce}
    ) RETURNING id, next_attempt_at AS at, account_id AS accountId`;
}

/**
 * Returns an SQL statement. The statement reserves the next due delivery of an account and returns the id of the delivery. The statement
 * chooses the webhook with the fewest attempts in flight. Of this webhook's deliveries, the statement chooses the delivery that has been
 * due longest. A host that has never answered may have no room for an hour, so its webhooks are skipped until it has room.
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
      FROM webhooks WHERE webhooks.account_id = ${accountId} AND webhooks.state = 'active' AND ${isNotSuspended(accountId)} AND (${hasAnswered} OR ${hostHasRoom(at)})
    ) WHERE due IS NOT NULL AND in_flight < ${maxInFlight.ofWebhook} ORDER BY in_flight LIMIT 1
  ) RETURNING id`;
