import { and, eq, type SQL, sql } from "drizzle-orm";
import { type Db, raw, type Statement } from "../db/client.ts";
import { webhookSettlements } from "./tables.ts";
import type { Webhook } from "./webhook.ts";

// Disabling a webhook holds its waiting deliveries. Deleting a webhook marks its waiting deliveries as failed. Any number of deliveries may be
// waiting, and D1 runs only one statement at a time. The batch of the change settles the first 500 deliveries, and a scheduled job settles the rest.
// No unsettled delivery is sent, because each attempt reads the webhook first.

export type Settled = (typeof webhookSettlements.status.enumValues)[number];

/** The maximum number of deliveries that one statement updates. */
export const settledAtOnce = 500;

/** The statuses of the deliveries that a settlement updates, as SQL. */
const changedBy = { held: sql.raw("('pending')"), failed: sql.raw("('pending', 'held')") } satisfies Record<Settled, SQL>;

const waiting = (webhookId: string, status: Settled): SQL =>
  sql`SELECT id FROM deliveries WHERE webhook_id = ${webhookId} AND status <> 'delivered' AND status IN ${changedBy[status]} LIMIT ${settledAtOnce}`;

const settle = (db: Db, webhookId: string, status: Settled, when: SQL) =>
  raw<{ id: string }>(
    db,
    sql`UPDATE deliveries SET status = ${status}, next_attempt_at = NULL WHERE id IN (${waiting(webhookId, status)}) AND ${when} RETURNING id`,
  );

/**
 * Returns statements for the batch of a change. If `when` is true, the statements settle the first deliveries of a webhook and record whether more
 * are left.
 */
export const settleFirst = (db: Db, { accountId, id }: Pick<Webhook, "accountId" | "id">, status: Settled, when: SQL): Statement[] => [
  settle(db, id, status, when),
  raw(
    db,
    sql`INSERT INTO webhook_settlements (account_id, webhook_id, status) SELECT ${accountId}, ${id}, ${status}
      WHERE ${when} AND EXISTS (${waiting(id, status)}) ON CONFLICT DO UPDATE SET status = excluded.status`,
  ),
];

/**
 * Returns the statement that stops an unfinished settlement if `when` is true. Used when a webhook is enabled again. Unsettled deliveries keep their
 * status.
 */
export const stopSettling = (db: Db, { accountId, id }: Pick<Webhook, "accountId" | "id">, when: SQL): Statement =>
  raw(db, sql`DELETE FROM webhook_settlements WHERE account_id = ${accountId} AND webhook_id = ${id} AND ${when}`);

/**
 * Continues settlements. Processes at most `limit` pieces of up to 500 deliveries. Settlements take turns: each turn processes one piece. Each
 * account's first settlement comes before any account's second settlement. Returns the number of pieces.
 */
export async function finishSettlements(db: Db, limit: number): Promise<number> {
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
      if (await settlePiece(db, settlement)) unfinished.push(settlement);
    }
    open = unfinished;
  }
  return pieces;
}

/** Settles up to 500 deliveries. Returns whether deliveries may be left. */
async function settlePiece(db: Db, { accountId, webhookId, status }: typeof webhookSettlements.$inferSelect): Promise<boolean> {
  const own = and(
    eq(webhookSettlements.accountId, accountId),
    eq(webhookSettlements.webhookId, webhookId),
    eq(webhookSettlements.status, status),
  );
  const [settled] = await db.batch([
    settle(db, webhookId, status, sql`EXISTS (SELECT 1 FROM webhook_settlements WHERE ${own})`),
    db.delete(webhookSettlements).where(and(own, sql`NOT EXISTS (${waiting(webhookId, status)})`)),
  ]);
  return settled.length === settledAtOnce;
}
