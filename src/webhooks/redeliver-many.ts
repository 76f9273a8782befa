import { and, count, eq, gt, isNotNull, max, type SQL, sql } from "drizzle-orm";
import type { Reading } from "../accounts/actor.ts";
import { minuteMs, secondMs } from "../clock.ts";
import { jsonRows, raw } from "../db/client.ts";
import { deliveries, redeliveries } from "../db/schema.ts";
import { Failure } from "../errors.ts";
import { idBound, newId } from "../ids.ts";
import type { DueDelivery } from "./commit.ts";
import { eventsKeptMs } from "./forget-old-events.ts";
import type { Delivery } from "./read-deliveries.ts";
import { readWebhook } from "./read-webhooks.ts";
import { requireReadable } from "./readable.ts";
import { requireActive } from "./redeliver.ts";
import type { Webhook } from "./webhook.ts";
import type { WebhookWriting } from "./write-webhooks.ts";

/** A receiver gets what is redelivered to it at this pace, so that it is not flooded. */
const paceMs = secondMs / 5;
/** Wake-ups further ahead are the sweep's. */
const soonMs = 15 * minuteMs;

/** Which deliveries of a webhook are to be made again: by the time of their events, and by what became of them. */
export interface RedeliveryFilter {
  from: number;
  to?: number | undefined;
  /** By default those that have failed or were held. */
  status?: Delivery["status"] | undefined;
  eventTypes?: readonly string[] | undefined;
}

/** How many deliveries match. Throws `not_found` and `forbidden`. */
export async function countRedeliveries(writing: WebhookWriting, webhookId: string, filter: RedeliveryFilter): Promise<number> {
  const webhook = await readWebhook(writing, webhookId);
  const count = (await findMatching(writing, webhook, filter)).length;
  // So that a repetition with the same Idempotency-Key is answered alike.
  await writing.commit({ result: count, events: [], statements: [] });
  return count;
}

/** Sends all that match once more, five a second and after what is redelivered to the webhook already. Throws as `redeliver` does. */
export async function redeliverAll(
  writing: WebhookWriting,
  webhookId: string,
  filter: RedeliveryFilter,
): Promise<{ id: string; count: number }> {
  const { db, actor, now, commit } = writing;
  const webhook = await readWebhook(writing, webhookId);
  const matched = await findMatching(writing, webhook, filter);
  requireActive(webhook);
  const startAt = await freePlaceAt(writing, webhook);
  const id = newId("rdl", now);
  const made = matched.map((delivery, index) => ({ ...delivery, newId: newId("dlv", now), at: startAt + index * paceMs }));
  const rows = made.map((delivery) => [delivery.newId, delivery.eventId, delivery.eventType, delivery.id, delivery.at]);
  const due: DueDelivery[] = made
    .map((delivery) => ({ id: delivery.newId, delayMs: delivery.at - now }))
    .filter(({ delayMs }) => delayMs <= soonMs);
  const result = { id, count: made.length };
  await commit({
    result,
    events: [],
    statements: [
      ...jsonRows(rows).map((made) =>
        raw(
          db,
          sql`INSERT INTO deliveries (id, account_id, webhook_id, event_id, event_type, redelivery_of, redelivery_id, status, attempts_made, next_attempt_at, claimed_until, created_at)
        SELECT value ->> 0, ${actor.accountId}, ${webhookId}, value ->> 1, value ->> 2, value ->> 3, ${id}, 'pending', 0, value ->> 4, 0, ${now}
        FROM json_each(${made})
        WHERE value ->> 1 NOT IN (SELECT event_id FROM deliveries
          WHERE account_id = ${actor.accountId} AND webhook_id = ${webhookId} AND status = 'pending' AND redelivery_of IS NOT NULL)`,
        ),
      ),
      // Another redelivery may have been made since the deliveries were read, and what it sends is not sent twice.
      raw(
        db,
        sql`INSERT INTO redeliveries (account_id, id, webhook_id, count, created_at)
        SELECT ${actor.accountId}, ${id}, ${webhookId}, count(*), ${now} FROM deliveries WHERE redelivery_id = ${id}`,
      ),
    ],
    due,
  });
  return result;
}

interface Matching {
  id: string;
  eventId: string;
  eventType: string;
}

/** Of each event that is still kept, the latest delivery to the webhook, where that matches: so that what was redelivered already is not again. Throws `forbidden`. */
async function findMatching({ db, now, scopes }: WebhookWriting, webhook: Webhook, filter: RedeliveryFilter): Promise<Matching[]> {
  const { from, to, status, eventTypes } = filter;
  const statuses = status === undefined ? ["failed", "held"] : [status];
  const matched = await db.all<Matching>(
    sql`SELECT id, event_id AS eventId, event_type AS eventType FROM
      (SELECT id, event_id, event_type, status, row_number() OVER (PARTITION BY event_id ORDER BY id DESC) AS place FROM deliveries
        WHERE account_id = ${webhook.accountId} AND webhook_id = ${webhook.id} AND event_id >= ${idBound("evt", Math.max(from, now - eventsKeptMs))}
          ${to === undefined ? sql`` : sql`AND event_id < ${idBound("evt", to)}`}
          ${eventTypes === undefined ? sql`` : sql`AND event_type IN (SELECT value FROM json_each(${JSON.stringify(eventTypes)}))`})
      WHERE place = 1 AND status IN (SELECT value FROM json_each(${JSON.stringify(statuses)})) ORDER BY eventId`,
  );
  requireReadable([...new Set(matched.map(({ eventType }) => eventType)), ...(eventTypes ?? [])], scopes);
  return matched;
}

/** When the next redelivery to a webhook may be due, so that several together keep the pace. */
async function freePlaceAt({ db, now }: WebhookWriting, { accountId, id }: Webhook): Promise<number> {
  const [last] = await db
    .select({ at: max(deliveries.nextAttemptAt) })
    .from(deliveries)
    .where(
      and(
        eq(deliveries.accountId, accountId),
        eq(deliveries.webhookId, id),
        eq(deliveries.status, "pending"),
        eq(deliveries.attemptsMade, 0),
        isNotNull(deliveries.redeliveryId),
      ),
    );
  return last?.at ? Math.max(now, last.at + paceMs) : now;
}

export interface Redelivery {
  id: string;
  count: number;
  /** How many have been attempted. */
  sent: number;
  status: "running" | "done";
}

/** How far a redelivery is. Throws `not_found`. */
export async function readRedelivery({ db, actor }: Reading, id: string): Promise<Redelivery> {
  const ofRedelivery = (...conditions: SQL[]) =>
    db
      .select({ count: count() })
      .from(deliveries)
      .where(and(eq(deliveries.redeliveryId, id), ...conditions));
  const [[row], [attempted], [waiting]] = await db.batch([
    db
      .select()
      .from(redeliveries)
      .where(and(eq(redeliveries.accountId, actor.accountId), eq(redeliveries.id, id))),
    ofRedelivery(gt(deliveries.attemptsMade, 0)),
    ofRedelivery(eq(deliveries.attemptsMade, 0), eq(deliveries.status, "pending")),
  ]);
  if (!row) throw new Failure("not_found", "There is no such redelivery.");
  return { id, count: row.count, sent: attempted?.count ?? 0, status: waiting?.count === 0 ? "done" : "running" };
}
