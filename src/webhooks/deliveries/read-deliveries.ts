import { and, asc, desc, eq, lt, type SQL, sql } from "drizzle-orm";
import type { ReadContext } from "../../accounts/actor.ts";
import { attempts, deliveries } from "../../db/areas/webhooks/tables.ts";
import { isOneOf, isOwnOneOf } from "../../db/is-one-of.ts";
import { newestFirst, type Page } from "../../db/page.ts";
import { Failure } from "../../lib/errors/failure.ts";
import { readWebhook } from "../subscriptions/read-webhooks.ts";

export type Delivery = typeof deliveries.$inferSelect;
export type Attempt = typeof attempts.$inferSelect;
export const deliveryStatuses = deliveries.status.enumValues;
export const attemptErrors = attempts.error.enumValues;

export interface DeliveryFilter {
  statuses?: readonly Delivery["status"][] | undefined;
  eventTypes?: readonly string[] | undefined;
}

/**
 * Lists deliveries of a webhook, newest first. If `after` is given, the page starts after the delivery with that id. If a filter is set,
 * one page scans at most 2,000 deliveries. Throws `not_found` if the webhook does not exist.
 */
export async function listDeliveries(
  context: ReadContext,
  webhookId: string,
  { filter, after, limit }: { filter: DeliveryFilter; after?: string | undefined; limit: number },
): Promise<Page<Delivery, string>> {
  const { db, actor } = context;
  await readWebhook(context, webhookId);
  const range = and(
    eq(deliveries.accountId, actor.accountId),
    eq(deliveries.webhookId, webhookId),
    after === undefined ? undefined : lt(deliveries.id, after),
  );
  const matches = and(isOneOf(deliveries.status, filter.statuses), isOneOf(deliveries.eventType, filter.eventTypes));
  const rows = (where: SQL | undefined) =>
    db
      .select()
      .from(deliveries)
      .where(where)
      .orderBy(desc(deliveries.id))
      .limit(limit + 1);
  return newestFirst(db, deliveries, { range, matches, limit, rows });
}

/** Returns one delivery of the account with its attempts, oldest attempt first. Throws `not_found` if the delivery does not exist. */
export async function readDelivery(context: ReadContext, id: string): Promise<WithAttempts> {
  const { db, actor } = context;
  const [[delivery], made] = await db.batch([
    db
      .select()
      .from(deliveries)
      .where(and(eq(deliveries.id, id), eq(deliveries.accountId, actor.accountId))),
    db.select().from(attempts).where(eq(attempts.deliveryId, id)).orderBy(asc(attempts.id)),
  ]);
  if (!delivery) throw new Failure("not_found", "There is no such delivery.");
  return { ...delivery, attempts: made };
}

/** A delivery with its attempts, oldest first. */
export type WithAttempts = Delivery & { attempts: Attempt[] };

/** The maximum number of deliveries that are followed from the first deliveries. */
const maxFollowed = 2000;

/**
 * Returns deliveries of the account and all that repeat them, directly or not, with their attempts. The latest `limit` deliveries are returned, oldest first.
 * `count`: the number of all of them.
 */
export async function readWithRepetitions(
  { db, actor }: ReadContext,
  ids: readonly string[],
  limit: number,
): Promise<{ deliveries: WithAttempts[]; count: number }> {
  const latest = await db.all<{ id: string; count: number }>(
    sql`WITH RECURSIVE followed (id) AS (
        SELECT value FROM json_each(${JSON.stringify(ids)})
        UNION SELECT repetition.id FROM followed JOIN deliveries AS repetition ON repetition.redelivery_of = followed.id
        LIMIT ${sql.raw(String(maxFollowed))}
      ) SELECT deliveries.id, count(*) OVER () AS count FROM followed CROSS JOIN deliveries ON deliveries.id = followed.id
      WHERE +account_id = ${actor.accountId} ORDER BY created_at DESC, deliveries.id DESC LIMIT ${limit}`,
  );
  if (latest.length === 0) return { deliveries: [], count: 0 };
  const found = latest.map(({ id }) => id);
  const [read, made] = await db.batch([
    db
      .select()
      .from(deliveries)
      .where(isOwnOneOf(deliveries, actor.accountId, found))
      .orderBy(asc(deliveries.createdAt), asc(deliveries.id)),
    db.select().from(attempts).where(isOneOf(attempts.deliveryId, found)).orderBy(asc(attempts.id)),
  ]);
  const byDelivery = Map.groupBy(made, ({ deliveryId }) => deliveryId);
  return {
    deliveries: read.map((delivery) => ({ ...delivery, attempts: byDelivery.get(delivery.id) ?? [] })),
    count: latest[0]?.count ?? 0,
  };
}

/** Returns the latest attempt of each of the given deliveries, by the id of the delivery. A delivery without an attempt has no entry. */
export async function readLatestAttempts({ db }: ReadContext, of: readonly Delivery[]): Promise<Map<string, Attempt>> {
  const ids = JSON.stringify(of.map(({ id }) => id));
  const latest = await db
    .select()
    .from(attempts)
    .where(
      sql`(${attempts.deliveryId}, ${attempts.id}) IN (SELECT value, (SELECT max(id) FROM attempts WHERE delivery_id = value) FROM json_each(${ids}))`,
    );
  return new Map(latest.map((attempt) => [attempt.deliveryId, attempt]));
}
