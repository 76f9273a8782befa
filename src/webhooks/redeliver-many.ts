import { sql } from "drizzle-orm";
import { insertWhere } from "../db/insert-where.ts";
import { wrote } from "../db/optimistic-locking.ts";
import { Failure } from "../errors/failure.ts";
import { eventCatalogue } from "../events/catalogue.ts";
import { eventsKeptMs } from "../events/retention.ts";
import { idBound, newId } from "../ids/ids.ts";
import { deliveryBytes } from "../storage/storage.ts";
import type { Delivery } from "./read-deliveries.ts";
import { readWebhook } from "./read-webhooks.ts";
import { requireActive } from "./redeliver.ts";
import { countMatching, firstCursor, nextPiece } from "./redelivery-pieces.ts";
import { redeliveries, type StoredRedeliveryFilter } from "./tables.ts";
import type { Webhook } from "./webhook.ts";
import type { WebhookContext, WebhookReadContext } from "./write-webhooks.ts";

/** Which deliveries of a webhook are to be made again: by the time of their events, and by the status of the latest delivery of each. */
export interface RedeliveryFilter {
  from: number;
  to?: number | undefined;
  /** By default those that failed or were held. */
  statuses?: readonly Delivery["status"][] | undefined;
  eventTypes?: readonly string[] | undefined;
}

/** How many deliveries match, and how many of these are pending. */
export interface Matching {
  count: number;
  pending: number;
}

/** Returns how many deliveries match. Throws `not_found` and `forbidden`. */
export async function countRedeliveries(writing: WebhookContext, webhookId: string, filter: RedeliveryFilter): Promise<Matching> {
  const { count, pending } = await readMatching(writing, await readWebhook(writing, webhookId), stored(writing.now, filter));
  // So that a repetition with the same Idempotency-Key gets the same response.
  await writing.commit({ accountId: writing.actor.accountId, result: { count, pending }, events: [], statements: [] });
  return { count, pending };
}

/** Redeliveries of many that an account may have with deliveries still to be made. */
export const maxUnfinished = 20;

/**
 * Sends all that match once more, five a second and after what is redelivered to the webhook already: the first 500 at once, the rest by a
 * scheduled job. Throws as `redeliver` does, and `limit_reached`.
 */
export async function redeliverAll(
  writing: WebhookContext,
  webhookId: string,
  filter: RedeliveryFilter,
): Promise<{ id: string; count: number }> {
  const { db, actor, now, commit } = writing;
  const webhook = await readWebhook(writing, webhookId);
  const own = stored(now, filter);
  const { count, types } = await readMatching(writing, webhook, own);
  requireActive(webhook);
  const redelivery = {
    accountId: actor.accountId,
    id: newId("rdl", now),
    webhookId,
    count,
    filter: own,
    eventTypes: types,
    cursor: firstCursor(own),
    made: 0,
    nextAt: 0,
    createdAt: now,
  };
  const { statements, due } = await nextPiece(db, redelivery, now);
  const result = { id: redelivery.id, count };
  const when = sql`(SELECT count(*) FROM redeliveries WHERE account_id = ${actor.accountId} AND cursor IS NOT NULL) < ${maxUnfinished}`;
  const [inserted] = await commit({
    accountId: actor.accountId,
    addsBytes: count * deliveryBytes,
    result,
    events: [],
    statements: [insertWhere(db, redeliveries, redelivery, when), ...statements],
    when,
    scopes: eventCatalogue.scopesFor(types),
    due: ([, made]) => due(made),
  });
  if (!wrote(inserted))
    throw new Failure("limit_reached", `${maxUnfinished} redeliveries of this account are still being made. Wait until one is done.`);
  return result;
}

function stored(now: number, { from, to, statuses = ["failed", "held"], eventTypes }: RedeliveryFilter): StoredRedeliveryFilter {
  return {
    fromId: idBound("evt", Math.max(from, now - eventsKeptMs)),
    toId: to === undefined ? null : idBound("evt", to),
    statuses: [...statuses],
    eventTypes: eventTypes ? [...eventTypes] : null,
  };
}

/** Throws `forbidden` where the acting key may not read all that match, or all that were asked for. */
async function readMatching(
  { db, now, scopes }: WebhookReadContext,
  webhook: Webhook,
  filter: StoredRedeliveryFilter,
): Promise<Matching & { types: string[] }> {
  const { byStatus, types } = await countMatching(db, webhook, filter, now);
  const all = [...new Set([...types, ...(filter.eventTypes ?? [])])];
  eventCatalogue.requireReadable(all, scopes);
  const count = [...byStatus.values()].reduce((sum, each) => sum + each, 0);
  return { count, pending: byStatus.get("pending") ?? 0, types: all };
}
