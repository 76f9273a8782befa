import { and, count, desc, eq, gt, isNotNull, max, type SQL, sql } from "drizzle-orm";
import type { Reading } from "../accounts/actor.ts";
import { deliveryBytes } from "../accounts/storage.ts";
import { raw } from "../db/client.ts";
import { deliveries, redeliveries } from "../db/schema-main.ts";
import { Failure } from "../errors.ts";
import { eventsKeptMs } from "../events/retention.ts";
import { idBound, newId } from "../ids.ts";
import type { Delivery } from "./read-deliveries.ts";
import { readWebhook } from "./read-webhooks.ts";
import { requireActive } from "./redeliver.ts";
import { paceMs, soonMs } from "./schedule.ts";
import type { Webhook } from "./webhook.ts";
import type { WebhookReading, WebhookWriting } from "./write-webhooks.ts";

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
  const { count } = await countMatching(writing, await readWebhook(writing, webhookId), filter);
  // So that a repetition with the same Idempotency-Key is answered alike.
  await writing.commit({ accountId: writing.actor.accountId, result: count, events: [], statements: [] });
  return count;
}

/** Throws `forbidden` where the acting key may not read all that a redelivery has sent. */
export async function authorizeRedeliveries(reading: WebhookReading, redeliveryId: string): Promise<void> {
  const { db, actor, catalogue, scopes } = reading;
  const sent = await db
    .selectDistinct({ type: deliveries.eventType })
    .from(deliveries)
    .where(and(eq(deliveries.accountId, actor.accountId), eq(deliveries.redeliveryId, redeliveryId)));
  catalogue.requireReadable(
    sent.map(({ type }) => type),
    scopes,
  );
}

/** Sends all that match once more, five a second and after what is redelivered to the webhook already. Throws as `redeliver` does. */
export async function redeliverAll(
  writing: WebhookWriting,
  webhookId: string,
  filter: RedeliveryFilter,
): Promise<{ id: string; count: number }> {
  const { db, actor, now, commit, catalogue } = writing;
  const webhook = await readWebhook(writing, webhookId);
  const { count, types } = await countMatching(writing, webhook, filter);
  requireActive(webhook);
  const startAt = await freeFrom(writing, webhook);
  const id = newId("rdl", now);
  const result = { id, count };
  await commit({
    accountId: actor.accountId,
    addsBytes: count * deliveryBytes,
    result,
    events: [],
    statements: [
      raw(
        db,
        sql`INSERT INTO deliveries (id, account_id, webhook_id, event_id, event_type, redelivery_of, redelivery_id, status, attempts_made, next_attempt_at, claimed_until, created_at)
        SELECT ${idBound("dlv", now)} || lower(hex(randomblob(10))), ${actor.accountId}, ${webhookId}, event_id, event_type, id, ${id}, 'pending', 0,
          ${startAt} + (row_number() OVER (ORDER BY event_id) - 1) * ${paceMs}, 0, ${now}
        FROM (${matching(writing, webhook, filter)})
        WHERE event_id NOT IN (SELECT event_id FROM deliveries
          WHERE account_id = ${actor.accountId} AND webhook_id = ${webhookId} AND status = 'pending' AND redelivery_of IS NOT NULL)`,
      ),
      // Another redelivery may have been made since the deliveries were counted, and what it sends is not sent twice.
      raw(
        db,
        sql`INSERT INTO redeliveries (account_id, id, webhook_id, count, created_at)
        SELECT ${actor.accountId}, ${id}, ${webhookId}, count(*), ${now} FROM deliveries WHERE redelivery_id = ${id}`,
      ),
      raw<{ id: string; at: number }>(
        db,
        sql`SELECT id, next_attempt_at AS at FROM deliveries WHERE redelivery_id = ${id} AND next_attempt_at <= ${now + soonMs}`,
      ),
    ],
    scopes: catalogue.scopesFor(types),
    due: (outcomes) =>
      (outcomes.at(-1) as { id: string; at: number }[]).map((delivery) => ({ id: delivery.id, delayMs: delivery.at - now })),
  });
  return result;
}

/**
 * Of each event that is still kept, the latest delivery to the webhook, where that matches: so that what was redelivered already is
 * not again. It stays in D1, however many they are.
 */
function matching({ now }: Reading, webhook: Webhook, { from, to, status, eventTypes }: RedeliveryFilter): SQL {
  const statuses = status === undefined ? ["failed", "held"] : [status];
  return sql`SELECT id, event_id, event_type FROM
      (SELECT id, event_id, event_type, status, row_number() OVER (PARTITION BY event_id ORDER BY id DESC) AS newest FROM deliveries
        WHERE account_id = ${webhook.accountId} AND webhook_id = ${webhook.id} AND event_id >= ${idBound("evt", Math.max(from, now - eventsKeptMs))}
          ${to === undefined ? sql`` : sql`AND event_id < ${idBound("evt", to)}`}
          ${eventTypes === undefined ? sql`` : sql`AND event_type IN (SELECT value FROM json_each(${JSON.stringify(eventTypes)}))`})
      WHERE newest = 1 AND status IN (SELECT value FROM json_each(${JSON.stringify(statuses)}))`;
}

/** Throws `forbidden` where the acting key may not read all that match, or all that were asked for. */
async function countMatching(
  reading: WebhookReading,
  webhook: Webhook,
  filter: RedeliveryFilter,
): Promise<{ count: number; types: string[] }> {
  const byType = await reading.db.all<{ type: string; count: number }>(
    sql`SELECT event_type AS type, count(*) AS count FROM (${matching(reading, webhook, filter)}) GROUP BY event_type`,
  );
  const types = [...byType.map(({ type }) => type), ...(filter.eventTypes ?? [])];
  reading.catalogue.requireReadable(types, reading.scopes);
  return { count: byType.reduce((sum, { count }) => sum + count, 0), types };
}

/** When the next redelivery to a webhook may be due, so that several together keep the pace. */
async function freeFrom({ db, now }: WebhookWriting, { accountId, id }: Webhook): Promise<number> {
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
/** The latest redelivery of the account; undefined where there was none. */
export async function readLatestRedelivery({ db, actor }: Reading): Promise<{ id: string } | undefined> {
  const [latest] = await db
    .select({ id: redeliveries.id })
    .from(redeliveries)
    .where(eq(redeliveries.accountId, actor.accountId))
    .orderBy(desc(redeliveries.id))
    .limit(1);
  return latest;
}

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
