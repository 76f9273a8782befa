import { and, asc, eq, exists, lte, sql } from "drizzle-orm";
import type { Db } from "../db/client.ts";
import { apiKeys } from "../db/schema.ts";
import { neverUsed, readLastUse } from "../usage/last-uses.ts";
import { commitChange, type Wake } from "../webhooks/commit.ts";
import { isExpired } from "./key.ts";
import { expiryNoticeMs, keyExpiring } from "./key-events.ts";

/** Tells the accounts of keys that expire within seven days, once for each expiry: at most `limit` of them, the earliest first. */
export async function tellExpiring(db: Db, wake: Wake, now: number, limit: number): Promise<void> {
  const untold = await db
    .select()
    .from(apiKeys)
    .where(and(sql`expiry_told IS NOT expires_at AND state <> 'revoked'`, lte(apiKeys.expiresAt, now + expiryNoticeMs)))
    .orderBy(asc(apiKeys.expiresAt))
    .limit(limit);
  for (const row of untold) {
    if (row.expiresAt === null) continue;
    const lastUse = await readLastUse({ db, now, actor: { accountId: row.accountId, keyId: null } }, row.id);
    const isUntold = and(eq(apiKeys.id, row.id), eq(apiKeys.revision, row.revision), sql`expiry_told IS NOT expires_at`);
    await commitChange(db, wake, {
      // One that has expired unseen, while nothing ran, is no longer about to.
      events: isExpired(row, now) ? [] : [keyExpiring({ ...row, ...neverUsed, ...lastUse }, row.expiresAt, now)],
      statements: [db.update(apiKeys).set({ expiryTold: row.expiresAt }).where(isUntold)],
      when: exists(db.select({ id: apiKeys.id }).from(apiKeys).where(isUntold)),
    });
  }
}
