import { and, eq, exists, lte, sql } from "drizzle-orm";
import type { Db } from "../db/client.ts";
import { apiKeys } from "../db/schema.ts";
import { neverUsed, readLastUse } from "../usage/last-uses.ts";
import { commitChange, type Wake } from "../webhooks/commit.ts";
import { isExpired, type KeyRow } from "./key.ts";
import { expiryNoticeMs, keyExpiring } from "./key-events.ts";

/** Tells the accounts of keys that expire within seven days, once for each expiry: at most `limit` of them. One that cannot be told of holds up no other. */
export async function tellExpiring(db: Db, wake: Wake, now: number, limit: number): Promise<void> {
  const untold = await db
    .select()
    .from(apiKeys)
    .where(and(sql`expiry_told IS NOT expires_at AND state <> 'revoked'`, lte(apiKeys.expiresAt, now + expiryNoticeMs)))
    .orderBy(sql`random()`)
    .limit(limit);
  const outcomes = await Promise.allSettled(untold.map((row) => tell(db, wake, now, row)));
  const errors = outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason] : []));
  if (errors.length > 0) throw new AggregateError(errors, "some keys that expire could not be told of", { cause: errors[0] });
}

async function tell(db: Db, wake: Wake, now: number, row: KeyRow): Promise<void> {
  if (row.expiresAt === null) return;
  const lastUse = await readLastUse({ db, now, actor: { accountId: row.accountId, keyId: null } }, row.id);
  const isUntold = and(eq(apiKeys.id, row.id), eq(apiKeys.revision, row.revision), sql`expiry_told IS NOT expires_at`);
  await commitChange(db, wake, {
    // One that has expired unseen, while nothing ran, is no longer about to.
    events: isExpired(row, now) ? [] : [keyExpiring({ ...row, ...neverUsed, ...lastUse }, row.expiresAt, now)],
    statements: [db.update(apiKeys).set({ expiryTold: row.expiresAt }).where(isUntold)],
    when: exists(db.select({ id: apiKeys.id }).from(apiKeys).where(isUntold)),
  });
}
