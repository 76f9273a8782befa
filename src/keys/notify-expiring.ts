import { and, eq, exists, lte, sql } from "drizzle-orm";
import { systemOn } from "../accounts/actor.ts";
import { apiKeys } from "../db/schema.ts";
import { errorsOf, throwTogether } from "../errors.ts";
import { commitChange, type Outbox } from "../events/commit.ts";
import { neverUsed, readLastUse } from "../usage/last-uses.ts";
import { isExpired, type KeyRow } from "./key.ts";
import { expiryNoticeMs, keyExpiring } from "./key-events.ts";

/** Makes the event of keys that expire within seven days, once for each expiry: at most `limit` of them. One that fails holds up no other. */
export async function notifyExpiring(outbox: Outbox, now: number, limit: number): Promise<void> {
  const { db } = outbox;
  const expiring = await db
    .select()
    .from(apiKeys)
    .where(and(sql`notified_expiry IS NOT expires_at AND state <> 'revoked'`, lte(apiKeys.expiresAt, now + expiryNoticeMs)))
    .orderBy(sql`random()`)
    .limit(limit);
  const outcomes = await Promise.allSettled(expiring.map((row) => notify(outbox, now, row)));
  throwTogether(errorsOf(outcomes), "the event of some keys that expire could not be made");
}

async function notify(outbox: Outbox, now: number, row: KeyRow): Promise<void> {
  const { db } = outbox;
  if (row.expiresAt === null) return;
  const lastUse = await readLastUse({ db, now, actor: systemOn(row.accountId) }, row.id);
  const isDue = and(eq(apiKeys.id, row.id), eq(apiKeys.revision, row.revision), sql`notified_expiry IS NOT expires_at`);
  await commitChange(outbox, {
    // One that has expired unseen, while nothing ran, is no longer about to.
    events: isExpired(row, now) ? [] : [keyExpiring({ ...row, ...neverUsed, ...lastUse }, row.expiresAt, now)],
    statements: [db.update(apiKeys).set({ notifiedExpiry: row.expiresAt }).where(isDue)],
    when: exists(db.select({ id: apiKeys.id }).from(apiKeys).where(isDue)),
  });
}
