import { and, eq, type SQL, sql } from "drizzle-orm";
import { type Db, raw, type Statement } from "../db/client.ts";
import { webhookSettlements } from "./tables.ts";
import type { Webhook } from "./webhook.ts";

// A webhook that is disabled holds what waits for it, and one that is deleted ends it. That may be any number of deliveries, and D1 does nothing
// else during a statement: so the change's own batch settles the first 500, and a scheduled job the rest. Nothing is sent meanwhile, since each
// attempt reads the webhook first.

export type Settled = (typeof webhookSettlements.status.enumValues)[number];

/** As many deliveries as one statement changes. */
export const settledAtOnce = 500;

/** The statuses that a settlement changes, as SQL. */
const changedBy = { held: sql.raw("('pending')"), failed: sql.raw("('pending', 'held')") } satisfies Record<Settled, SQL>;

const waiting = (webhookId: string, status: Settled): SQL =>
  sql`SELECT id FROM deliveries WHERE webhook_id = ${webhookId} AND status <> 'delivered' AND status IN ${changedBy[status]} LIMIT ${settledAtOnce}`;

const settle = (db: Db, webhookId: string, status: Settled, when: SQL) =>
  raw<{ id: string }>(
    db,
    sql`UPDATE deliveries SET status = ${status}, next_attempt_at = NULL WHERE id IN (${waiting(webhookId, status)}) AND ${when} RETURNING id`,
  );

/** The statements, for the batch of a change, that settle the first deliveries of a webhook where `when` holds, and note whether more are left. */
export const settleFirst = (db: Db, { accountId, id }: Pick<Webhook, "accountId" | "id">, status: Settled, when: SQL): Statement[] => [
  settle(db, id, status, when),
  raw(
    db,
    sql`INSERT INTO webhook_settlements (account_id, webhook_id, status) SELECT ${accountId}, ${id}, ${status}
      WHERE ${when} AND EXISTS (${waiting(id, status)}) ON CONFLICT DO UPDATE SET status = excluded.status`,
  ),
];

/** The statement that keeps what is not settled yet as it is, where `when` holds: the webhook is enabled again. */
export const stopSettling = (db: Db, { accountId, id }: Pick<Webhook, "accountId" | "id">, when: SQL): Statement =>
  raw(db, sql`DELETE FROM webhook_settlements WHERE account_id = ${accountId} AND webhook_id = ${id} AND ${when}`);

/**
 * Goes on with settlements: at most `limit` pieces of 500 deliveries in all, a piece of each in turn. Those of an account come after the first of each
 * other account. Returns how many pieces were done.
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

/** Returns whether deliveries are left. */
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
