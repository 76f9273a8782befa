import { eq, lt, sql } from "drizzle-orm";
import { attempts, deliveries, webhooks } from "../src/db/areas/webhooks/tables.ts";
import { type Db, jsonRows } from "../src/db/client.ts";
import { newId } from "../src/lib/ids.ts";
import { dayMs, hourMs, secondMs } from "../src/lib/time/clock.ts";
import { eventCatalogue } from "../src/outbox/catalogue.ts";
import { statusAdvice } from "../src/webhooks/deliveries/attempt.ts";
import { nextAttemptAt } from "../src/webhooks/deliveries/schedule.ts";
import type { Webhook } from "../src/webhooks/subscriptions/webhook.ts";
import { createWebhook, type WebhookContext } from "../src/webhooks/subscriptions/write-webhooks.ts";
import type { Random } from "./seed-random.ts";

// Both webhooks of the demo lead to `npm run receiver` on this machine. While no receiver runs, nothing receives their new events.

const receiver = "http://localhost:4000";
const daysOfDeliveries = 29;
/** The time since which the failing webhook fails, before now. */
const failingForMs = 27 * hourMs;

/** The webhooks of the demo: one whose deliveries succeed, and one that has failed since yesterday. */
export interface SeededWebhooks {
  healthy: Webhook;
  failing: Webhook;
}

/** Creates the webhooks of the demo account. Changes that are stored afterwards also store deliveries to these webhooks. */
export async function seedWebhooks(at: (time: number) => WebhookContext, now: number): Promise<SeededWebhooks> {
  const context = at(now - daysOfDeliveries * dayMs);
  const of = async (path: string, description: string, eventTypes: string[]): Promise<Webhook> =>
    (await createWebhook(context, { url: `${receiver}${path}`, description, eventTypes })).webhook;
  return {
    // Its events are rare in a first hour, so that it stays healthy without a receiver.
    healthy: await of("/warehouse", "Warehouse screens", only("task.completed", "webhook.disabled")),
    failing: await of("/fail", "Chat room of the team", only("task.updated", "key.expiring", "rate_limit.warning", "rate_limit.reached")),
  };
}

/** Returns those of the given event types that exist in this project. */
const only = (...types: string[]): string[] => types.filter((type) => eventCatalogue.find(type));

type NewAttempt = typeof attempts.$inferInsert;
type Stored = Pick<typeof deliveries.$inferSelect, "id" | "webhookId" | "createdAt">;
type Result = Pick<typeof deliveries.$inferSelect, "id" | "status" | "attemptsMade" | "nextAttemptAt"> & { made: NewAttempt[] };

/** Stores the attempts of the deliveries that the seeded changes have made, and deletes deliveries that are past their retention. */
export async function seedDeliveries(db: Db, random: Random, { failing }: SeededWebhooks, now: number): Promise<void> {
  await db.delete(deliveries).where(lt(deliveries.createdAt, now - daysOfDeliveries * dayMs));
  const failingSince = now - failingForMs;
  const stored = await db
    .select({ id: deliveries.id, webhookId: deliveries.webhookId, createdAt: deliveries.createdAt })
    .from(deliveries)
    .orderBy(deliveries.id);
  const results = stored.map((delivery) =>
    delivery.webhookId === failing.id && delivery.createdAt >= failingSince ? failed(delivery, random, now) : delivered(delivery, random),
  );
  const [first] = results.filter(({ status }) => status === "pending");
  for (const rows of jsonRows(results.map(({ id, status, attemptsMade, nextAttemptAt: next }) => [id, status, attemptsMade, next])))
    await db.run(sql`UPDATE deliveries SET status = value ->> 1, attempts_made = value ->> 2, next_attempt_at = value ->> 3
      FROM json_each(${rows}) WHERE deliveries.id = value ->> 0`);
  const made = results.flatMap(({ made }) => made);
  for (const part of inParts(made)) await db.insert(attempts).values(part);
  if (first) await db.update(webhooks).set({ failingSince: first.made[0]?.at }).where(eq(webhooks.id, failing.id));
}

/** D1 binds at most 100 parameters in a statement, and an attempt has ten. */
const inParts = <Row>(rows: readonly Row[]): Row[][] =>
  Array.from({ length: Math.ceil(rows.length / 10) }, (_, part) => rows.slice(part * 10, part * 10 + 10));

/** Returns a delivery that succeeds, in a few cases only with the second attempt. */
function delivered({ id, createdAt }: Stored, random: Random): Result {
  const isBusy = random() < 0.04;
  const success = { status: 204, durationMs: 40 + Math.floor(random() ** 3 * 400), error: null, advice: null, responseBody: "" };
  const made = isBusy
    ? [attemptOf(id, createdAt + 900, failures.busy), attemptOf(id, createdAt + 6 * secondMs, success)]
    : [attemptOf(id, createdAt + 700, success)];
  return { id, status: "delivered", attemptsMade: made.length, nextAttemptAt: null, made };
}

/** Returns a delivery whose attempts have all failed so far. */
function failed({ id, createdAt }: Stored, random: Random, now: number): Result {
  const made: NewAttempt[] = [];
  let next: number | null = createdAt + 700;
  while (next !== null && next < now) {
    made.push(attemptOf(id, next, failures.broken));
    next = nextAttemptAt(made.length, next, random(), null);
  }
  return { id, status: next === null ? "failed" : "pending", attemptsMade: made.length, nextAttemptAt: next, made };
}

type Answer = Pick<NewAttempt, "status" | "durationMs" | "error" | "advice" | "responseBody">;

const failureOf = (status: number, durationMs: number, responseBody: string): Answer => ({
  status,
  durationMs,
  error: "status",
  advice: statusAdvice(status),
  responseBody,
});

const failures = {
  busy: failureOf(503, 31, "The receiver is starting."),
  broken: failureOf(500, 62, '{"error":"channel_not_found","channel":"#orders","hint":"The channel was archived."}'),
};

const attemptOf = (deliveryId: string, at: number, answer: Answer): NewAttempt => ({
  ...answer,
  deliveryId,
  id: newId("att", at),
  at,
  bodyIsCut: false,
  responseHeaders: { "content-type": answer.error === null ? "text/plain" : "application/json" },
});
