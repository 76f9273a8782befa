import { and, desc, eq, ne, sql } from "drizzle-orm";
import type { ReadContext } from "../../accounts/actor.ts";
import { attempts, deliveries, webhookBacklogs } from "../../db/areas/webhooks/tables.ts";
import { raw } from "../../db/client.ts";

/** The health of a webhook: the results of its latest attempts, and its waiting deliveries. */
export interface WebhookHealth {
  /** The number of attempts of the latest 50 deliveries. */
  attempts: number;
  succeeded: number;
  p95Ms: number | null;
  /** How attempts failed, with the number of such attempts. The most frequent result is first. */
  causes: (Pick<typeof attempts.$inferSelect, "status" | "error"> & { attempts: number })[];
  /** A sentence that says how to fix the error of the latest failed attempt. Null if no attempt failed. */
  advice: string | null;
  /** The number of pending deliveries, including deliveries that wait for a retry. */
  waiting: number;
  oldestWaitingAt: number | null;
  held: number;
}

const looksAt = 50;

/** The type of test events, which say nothing about the health of a webhook. */
export const testType = "webhook.test";

/** The results of the attempts of a webhook's latest 50 deliveries. */
export type AttemptCounts = Pick<WebhookHealth, "attempts" | "succeeded">;

/** Returns the results of the latest attempts of several webhooks of the account, by the id of the webhook. */
export async function readAttemptCounts({ db, actor }: ReadContext, webhookIds: readonly string[]): Promise<Map<string, AttemptCounts>> {
  const rows = await db.all<{ id: string; counts: string }>(
    sql`SELECT webhook.value AS id, (SELECT json_array(count(*), count(*) FILTER (WHERE error IS NULL)) FROM attempts WHERE delivery_id IN
        (SELECT id FROM deliveries WHERE account_id = ${actor.accountId} AND webhook_id = webhook.value AND event_type <> ${testType} ORDER BY id DESC LIMIT ${looksAt})) AS counts
      FROM json_each(${JSON.stringify(webhookIds)}) AS webhook`,
  );
  return new Map(
    rows.map(({ id, counts }) => {
      const [made, succeeded] = JSON.parse(counts) as [number, number];
      return [id, { attempts: made, succeeded }];
    }),
  );
}

export async function readHealth({ db, actor }: ReadContext, webhookId: string): Promise<WebhookHealth> {
  const ofWebhook = and(eq(deliveries.accountId, actor.accountId), eq(deliveries.webhookId, webhookId));
  const latest = db
    .select({ id: deliveries.id })
    .from(deliveries)
    .where(and(ofWebhook, ne(deliveries.eventType, testType)))
    .orderBy(desc(deliveries.id))
    .limit(looksAt)
    .as("latest");
  const [made, [backlog], [oldest]] = await db.batch([
    db
      .select({ id: attempts.id, status: attempts.status, error: attempts.error, advice: attempts.advice, durationMs: attempts.durationMs })
      .from(attempts)
      .innerJoin(latest, eq(latest.id, attempts.deliveryId)),
    db
      .select()
      .from(webhookBacklogs)
      .where(and(eq(webhookBacklogs.accountId, actor.accountId), eq(webhookBacklogs.webhookId, webhookId))),
    // The delivery with the lowest id is the oldest, because each id starts with the time at which it was created.
    raw<{ at: number }>(
      db,
      sql`SELECT created_at AS at FROM deliveries WHERE webhook_id = ${webhookId} AND status <> 'delivered' AND status = 'pending' AND +account_id = ${actor.accountId}
        ORDER BY id LIMIT 1`,
    ),
  ]);
  const durations = made.map(({ durationMs }) => durationMs).toSorted((a, b) => a - b);
  const failures = made.filter(({ error }) => error !== null);
  const [failed] = failures.toSorted((a, b) => (a.id < b.id ? 1 : -1));
  return {
    attempts: made.length,
    succeeded: made.filter(({ error }) => error === null).length,
    p95Ms: durations[Math.max(0, Math.ceil(0.95 * durations.length) - 1)] ?? null,
    causes: [...Map.groupBy(failures, ({ status, error }) => `${status ?? error}`).values()]
      .map((of) => ({ status: of[0]?.status ?? null, error: of[0]?.error ?? null, attempts: of.length }))
      .toSorted((one, other) => other.attempts - one.attempts),
    advice: failed?.advice ?? null,
    waiting: backlog?.pending ?? 0,
    oldestWaitingAt: oldest?.at ?? null,
    held: backlog?.held ?? 0,
  };
}
