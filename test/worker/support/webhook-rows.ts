import { env } from "cloudflare:workers";
import { newId } from "../../../src/lib/ids.ts";
import { dayMs } from "../../../src/lib/time/clock.ts";

// Helpers for the rows of webhooks, deliveries, attempts and events in D1. Tests use the helpers for states that no API call creates.

/** Returns the row of a webhook, with all its columns. */
export const readWebhookRow = (webhookId: string) =>
  env.DB.prepare("SELECT * FROM webhooks WHERE id = ?").bind(webhookId).first<Record<string, unknown>>();

/** Changes the URL of a webhook without validation. */
export const setWebhookUrl = (webhookId: string, url: string) =>
  env.DB.prepare("UPDATE webhooks SET url = ? WHERE id = ?").bind(url, webhookId).run();

/** Marks the host of a webhook as a host that has answered an attempt with 2xx. */
export const markAnswered = (webhookId: string) =>
  env.DB.prepare("UPDATE webhooks SET answered_host = host WHERE id = ?").bind(webhookId).run();

/** Inserts `count` attempts at a host that started at a time, in milliseconds since the epoch. */
export const insertSlots = (
  host: string,
  { accountId, count, startedAt, isOpen }: { accountId: string; count: number; startedAt: number; isOpen: boolean },
) =>
  env.DB.prepare(
    `INSERT INTO webhook_slots (host, slot, taken_by, claim, started_at, is_open, is_answered)
      SELECT ?1, (SELECT coalesce(max(slot), -1) + 1 FROM webhook_slots WHERE host = ?1) + value, ?2, value, ?3, ?4, 1 FROM json_each(?5)`,
  )
    .bind(host, accountId, startedAt, Number(isOpen), JSON.stringify(Array.from({ length: count }, (_, index) => index)))
    .run();

/** Sets the time of a webhook's first failed attempt after its last success, in milliseconds since the epoch. */
export const setFailingSince = (webhookId: string, at: number | null) =>
  env.DB.prepare("UPDATE webhooks SET failing_since = ? WHERE id = ?").bind(at, webhookId).run();

/** Returns the stored numbers of pending and held deliveries of a webhook. */
export const readBacklog = (webhookId: string) =>
  env.DB.prepare("SELECT pending, held FROM webhook_backlogs WHERE webhook_id = ?").bind(webhookId).first();

/**
 * Returns the row of a webhook's unfinished settlement, or null if no settlement is unfinished. A settlement holds or fails all waiting
 * deliveries of a webhook.
 */
export const readSettlement = (webhookId: string) =>
  env.DB.prepare("SELECT * FROM webhook_settlements WHERE webhook_id = ?").bind(webhookId).first();

/** Inserts `count` deliveries of a webhook that were created about a second ago. Pending deliveries are due in a day. */
export async function insertDeliveries(accountId: string, webhookId: string, status: string, count: number): Promise<void> {
  const createdAt = Date.now() - 1000;
  const ids = Array.from({ length: count }, (_, index) => {
    const at = createdAt - count + index;
    return [newId("dlv", at), newId("evt", at)];
  });
  await env.DB.prepare(
    `INSERT INTO deliveries
        (id, account_id, webhook_id, event_id, event_type, status, attempts_made, next_attempt_at, claimed_until, created_at)
      SELECT value ->> 0, ?1, ?2, value ->> 1, 'task.created', ?3, 1, iif(?3 = 'pending', ?5, NULL), 0, ?4 FROM json_each(?6)`,
  )
    .bind(accountId, webhookId, status, createdAt, createdAt + dayMs, JSON.stringify(ids))
    .run();
}

export const readDeliveryRows = async (webhookId: string) =>
  (await env.DB.prepare("SELECT * FROM deliveries WHERE webhook_id = ?").bind(webhookId).all<Record<string, unknown>>()).results;

/** Returns the number of a webhook's deliveries for each status. */
export async function countDeliveriesByStatus(webhookId: string): Promise<Record<string, number>> {
  const { results } = await env.DB.prepare("SELECT status, count(*) AS count FROM deliveries WHERE webhook_id = ? GROUP BY status")
    .bind(webhookId)
    .all<{ status: string; count: number }>();
  return Object.fromEntries(results.map(({ status, count }) => [status, count]));
}

/** Marks all deliveries of an account as failed. */
export const failAllDeliveries = (accountId: string) =>
  env.DB.prepare("UPDATE deliveries SET status = 'failed', next_attempt_at = NULL WHERE account_id = ?").bind(accountId).run();

/** Deletes all deliveries of a webhook. */
export const deleteDeliveries = (webhookId: string) => env.DB.prepare("DELETE FROM deliveries WHERE webhook_id = ?").bind(webhookId).run();

/** Deletes the deliveries of all accounts. */
export const deleteAllDeliveries = () => env.DB.prepare("DELETE FROM deliveries").run();

/** Returns the rows of a delivery's attempts, oldest first. */
export const readAttemptRows = async (deliveryId: string) =>
  (await env.DB.prepare("SELECT * FROM attempts WHERE delivery_id = ? ORDER BY id").bind(deliveryId).all<Record<string, unknown>>())
    .results;

/** Replaces the stored response body of a delivery's attempts. */
export const setResponseBody = (deliveryId: string, body: string) =>
  env.DB.prepare("UPDATE attempts SET response_body = ? WHERE delivery_id = ?").bind(body, deliveryId).run();

export const readEventRows = async (accountId: string) =>
  (await env.DB.prepare("SELECT * FROM events WHERE account_id = ?").bind(accountId).all<Record<string, unknown>>()).results;

/** Returns the number of an account's events. Counts events of all types unless `type` is given. */
export const countEvents = async (accountId: string, type?: string): Promise<number> =>
  (await env.DB.prepare("SELECT count(*) AS count FROM events WHERE account_id = ?1 AND type = coalesce(?2, type)")
    .bind(accountId, type ?? null)
    .first<number>("count")) ?? 0;

/** Deletes an account's events of one type. */
export const deleteEvents = (accountId: string, type: string) =>
  env.DB.prepare("DELETE FROM events WHERE account_id = ? AND type = ?").bind(accountId, type).run();
