import { and, eq, type SQL, sql } from "drizzle-orm";
import { webhookSettlements } from "../../db/areas/webhooks/tables.ts";
import { type Db, raw, type Statement } from "../../db/client.ts";
import type { Webhook } from "../subscriptions/webhook.ts";

// If a webhook is disabled, its waiting deliveries become `held`. If a webhook is deleted, its waiting deliveries become `failed`. This
// change of the statuses is called a settlement. Any number of deliveries may be waiting, and D1 runs only one statement at a time. The
// batch that disables or deletes the webhook settles the first 500 deliveries. A scheduled job settles the other deliveries. Unsettled
// deliveries are never sent, because each attempt reads the webhook first.

export type Settled = (typeof webhookSettlements.status.enumValues)[number];

/** The maximum number of deliveries that one statement updates. */
export const settledAtOnce = 500;

/** For each new status: the old statuses that a settlement replaces, as SQL. */
const changedBy = { held: sql.raw("('pending')"), failed: sql.raw("('pending', 'held')") } satisfies Record<Settled, SQL>;

const waiting = (webhookId: string, status: Settled): SQL =>
  sql`SELECT id FROM deliveries WHERE webhook_id = ${webhookId} AND status <> 'delivered' AND status IN ${changedBy[status]} LIMIT ${settledAtOnce}`;

const settle = (db: Db, webhookId: string, status: Settled, now: number, when: SQL) =>
  raw<{ id: string }>(
    db,
    sql`UPDATE deliveries SET status = ${status}, next_attempt_at = NULL, held_at = ${status === "held" ? now : sql.raw("held_at")} WHERE id IN (${waiting(webhookId, status)}) AND ${when} RETURNING id`,
  );

/**
 * Returns statements for the batch that disables or deletes a webhook. If `when` is true, the statements settle the first deliveries of the
 * webhook. If more deliveries are left, the statements also record an unfinished settlement.
 */
export const settleFirst = (
  db: Db,
  { accountId, id }: Pick<Webhook, "accountId" | "id">,
  status: Settled,
  now: number,
  when: SQL,
): Statement[] => [
  settle(db, id, status, now, when),
  raw(
    db,
    sql`INSERT INTO webhook_settlements (account_id, webhook_id, status) SELECT ${accountId}, ${id}, ${status}
      WHERE ${when} AND EXISTS (${waiting(id, status)}) ON CONFLICT DO UPDATE SET status = excluded.status`,
  ),
];

/**
 * Returns a statement for the batch that enables a webhook again. If `when` is true, the statement stops the webhook's unfinished
 * settlement. Deliveries that are not settled yet keep their status.
 */
export const stopSettling = (db: Db, { accountId, id }: Pick<Webhook, "accountId" | "id">, when: SQL): Statement =>
  raw(db, sql`DELETE FROM webhook_settlements WHERE account_id = ${accountId} AND webhook_id = ${id} AND ${when}`);

/**
 * Continues unfinished settlements. Processes at most `limit` pieces of up to 500 deliveries each. Settlements take turns, and each turn
 * processes one piece. The first settlement of every account comes before the second settlement of any account. Returns the number of
 * processed pieces.
 */
export async function finishSettlements(db: Db, now: number, limit: number): Promise<number> {
  let open = await db
    .select()
    .from(webhookSettlements)
    .orderBy(sql`row_number() OVER (PARTITION BY ${webhookSettlements.accountId} ORDER BY ${webhookSettlements.webhookId})`)
    .limit(limit);
  let pieces = 0;
  while (open.length > 0 && pieces < limit) {
    const unfinished: typeof open = [];
    for (const settlement of open.slice(0, limit - pieces)) {
      pieces++;
      if (await settlePiece(db, settlement, now)) unfinished.push(settlement);
    }
    open = unfinished;
  }
  return pieces;
}

/** Settles up to 500 deliveries. Returns whether more deliveries may be left. */
async function settlePiece(
  db: Db,
  { accountId, webhookId, status }: typeof webhookSettlements.$inferSelect,
  now: number,
): Promise<boolean> {
  const own = and(
    eq(webhookSettlements.accountId, accountId),
    eq(webhookSettlements.webhookId, webhookId),
    eq(webhookSettlements.status, status),
  );
  const [settled] = await db.batch([
    settle(db, webhookId, status, now, sql`EXISTS (SELECT 1 FROM webhook_settlements WHERE ${own})`),
    db.delete(webhookSettlements).where(and(own, sql`NOT EXISTS (${waiting(webhookId, status)})`)),
  ]);
  return settled.length === settledAtOnce;
}
