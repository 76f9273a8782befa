import { and, asc, eq, exists, gt, lte, sql } from "drizzle-orm";
import { systemOn } from "../accounts/actor.ts";
import { accounts } from "../db/areas/accounts/tables.ts";
import { apiKeys } from "../db/areas/keys/tables.ts";
import { errorsOf, throwTogether } from "../lib/errors/failure.ts";
import { commitChange, type Outbox } from "../outbox/outbox.ts";
import { neverUsed, readLastUse } from "../usage/last-uses.ts";
import type { LogsReadContext } from "../usage/log-context.ts";
import { expiryNoticeMs, keyExpiring } from "./events.ts";
import type { KeyRow } from "./key.ts";

/** Keys that have already expired get no event. One run skips at most this many of these keys. */
const maxPassedOver = 1000;

/**
 * Creates a `key.expiring` event for each key that expires within seven days. Each expiry time of a key causes only one event. Processes at
 * most `limit` keys. Accounts take turns: first one key of each account, then a second key of each account, and so on. If the event of one
 * key fails, the other keys are still processed. Returns the number of processed keys. If some keys failed, throws an error after all keys
 * were tried.
 */
export async function notifyExpiring(outbox: Outbox & LogsReadContext, now: number, limit: number): Promise<number> {
  const { db } = outbox;
  // If a key has already expired, the event `key.expiring` would be wrong. Such a key is therefore skipped.
  await db.run(sql`UPDATE api_keys SET notified_expiry = expires_at WHERE id IN (SELECT id FROM api_keys
    WHERE notified_expiry IS NOT expires_at AND state <> 'revoked' AND expires_at <= ${now} LIMIT ${maxPassedOver})`);
  const expiring = await db
    .select({ row: apiKeys, logWriter: accounts.logWriter })
    .from(apiKeys)
    .innerJoin(accounts, eq(accounts.id, apiKeys.accountId))
    .where(
      and(
        sql`notified_expiry IS NOT expires_at AND state <> 'revoked'`,
        gt(apiKeys.expiresAt, now),
        lte(apiKeys.expiresAt, now + expiryNoticeMs),
      ),
    )
    .orderBy(sql`row_number() OVER (PARTITION BY ${apiKeys.accountId} ORDER BY ${apiKeys.expiresAt})`, asc(apiKeys.expiresAt))
    .limit(limit);
  const outcomes = await Promise.allSettled(expiring.map(({ row, logWriter }) => notify(outbox, now, row, logWriter)));
  throwTogether(errorsOf(outcomes), "the event of some keys that expire could not be made");
  return expiring.length;
}

async function notify(outbox: Outbox & LogsReadContext, now: number, row: KeyRow, logWriter: string): Promise<void> {
  const { db } = outbox;
  if (row.expiresAt === null) return;
  const lastUse = await readLastUse({ ...outbox.logOf(logWriter), actor: systemOn(row.accountId) }, row.id);
  const isDue = and(eq(apiKeys.id, row.id), eq(apiKeys.revision, row.revision), sql`notified_expiry IS NOT expires_at`);
  await commitChange(outbox, {
    whenFull: "write",
    events: [keyExpiring({ ...row, ...neverUsed, ...lastUse }, row.expiresAt, now)],
    statements: { notified: db.update(apiKeys).set({ notifiedExpiry: row.expiresAt }).where(isDue) },
    when: exists(db.select({ id: apiKeys.id }).from(apiKeys).where(isDue)),
  });
}
