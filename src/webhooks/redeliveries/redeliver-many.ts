import { sql } from "drizzle-orm";
import { manifest } from "../../db/areas/webhooks/manifest.ts";
import { redeliveries, type StoredRedeliveryFilter } from "../../db/areas/webhooks/tables.ts";
import { insertWhere } from "../../db/insert-where.ts";
import { wrote } from "../../db/optimistic-locking.ts";
import { Failure } from "../../lib/errors/failure.ts";
import { idBound, newId } from "../../lib/ids.ts";
import { eventCatalogue } from "../../outbox/catalogue.ts";
import { eventRetentionMs } from "../../outbox/retention.ts";
import type { Delivery } from "../deliveries/read-deliveries.ts";
import { readWebhook } from "../subscriptions/read-webhooks.ts";
import type { Webhook } from "../subscriptions/webhook.ts";
import type { WebhookContext, WebhookReadContext } from "../subscriptions/write-webhooks.ts";
import { requireActive } from "./redeliver.ts";
import { countMatching, firstCursor, nextPiece } from "./redelivery-pieces.ts";

/**
 * Selects the deliveries of a webhook that a redelivery repeats. The criteria are the time and the type of each event, and the status of
 * the event's latest delivery.
 */
export interface RedeliveryFilter {
  from: number;
  to?: number | undefined;
  /** The default statuses are `failed` and `held`. */
  statuses?: readonly Delivery["status"][] | undefined;
  eventTypes?: readonly string[] | undefined;
}

/** `count`: the number of matching deliveries. `pending`: the number of matching deliveries that are pending. */
export interface Matching {
  count: number;
  pending: number;
}

/**
 * Counts the deliveries that match the filter. Throws `not_found` if the webhook does not exist. Throws `forbidden` if the acting key may
 * not read a requested event type or the type of a matching event.
 */
export async function countRedeliveries(context: WebhookContext, webhookId: string, filter: RedeliveryFilter): Promise<Matching> {
  const { count, pending } = await readMatching(context, await readWebhook(context, webhookId), stored(context.now, filter));
  // Commit the result, so that a repeated request with the same Idempotency-Key gets the same response.
  await context.commit({ accountId: context.actor.accountId, whenFull: "write", result: { count, pending }, events: [], statements: {} });
  return { count, pending };
}

/** The maximum number of unfinished redeliveries per account. */
export const maxUnfinished = 20;

/**
 * Sends all matching events again, five per second. If other redeliveries to the webhook are running, this redelivery follows them. The
 * call creates up to 500 deliveries, and a scheduled job creates the remaining deliveries. Throws the same errors as `redeliver`. Also
 * throws `limit_reached` if too many redeliveries of the account are unfinished.
 */
export async function redeliverAll(
  context: WebhookContext,
  webhookId: string,
  filter: RedeliveryFilter,
): Promise<{ id: string; count: number }> {
  const { db, actor, now, commit } = context;
  const webhook = await readWebhook(context, webhookId);
  const own = stored(now, filter);
  const { count, types } = await readMatching(context, webhook, own);
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
  const { inserted } = await commit({
    accountId: actor.accountId,
    addsBytes: count * manifest.limits.deliveryBytes,
    result,
    events: [],
    statements: { inserted: insertWhere(db, redeliveries, redelivery, when), ...statements },
    when,
    scopes: eventCatalogue.scopesFor(types),
    due: ({ repetitions }) => due(repetitions),
  });
  if (!wrote(inserted))
    throw new Failure("limit_reached", `${maxUnfinished} redeliveries of this account are still running. Wait until one of them is done.`);
  return result;
}

function stored(now: number, { from, to, statuses = ["failed", "held"], eventTypes }: RedeliveryFilter): StoredRedeliveryFilter {
  return {
    fromId: idBound("evt", Math.max(from, now - eventRetentionMs)),
    toId: to === undefined ? null : idBound("evt", to),
    statuses: [...statuses],
    eventTypes: eventTypes ? [...eventTypes] : null,
  };
}

/**
 * Counts the matching deliveries. Throws `forbidden` if the acting key may not read a requested event type or the type of a matching event.
 */
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
