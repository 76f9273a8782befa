import { and, desc, inArray, type SQL, sql } from "drizzle-orm";
import { isLiveKey } from "../admission/live-keys.ts";
import { apiKeys } from "../db/areas/keys/tables.ts";
import { holdsNow } from "../db/batch-condition.ts";
import { type Db, raw, type Statement } from "../db/client.ts";
import { always } from "../db/optimistic-locking.ts";
import { knownTo, knownToRemovedSince } from "../identity/audit/known-to.ts";
import { readLastUses } from "../usage/last-uses.ts";
import type { LogReadContext } from "../usage/log-context.ts";
import { keyUpdated } from "./events.ts";
import type { Key, KeyRow } from "./key.ts";
import { type KeyContext, writeKey } from "./write-key.ts";

/** Lists the live keys whose secrets the member may know, newest first. Returns at most `limit` keys. */
export async function listKeysKnownTo(context: LogReadContext, memberId: string, limit: number): Promise<Key[]> {
  const { db, actor, now } = context;
  const rows = await db
    .select()
    .from(apiKeys)
    .where(and(isLiveKey(actor.accountId, now), inArray(apiKeys.id, sql`(${knownTo(actor.accountId, memberId)} SELECT id FROM known)`)))
    .orderBy(desc(apiKeys.createdAt), desc(apiKeys.id))
    .limit(limit);
  const lastUseOf = await readLastUses(context);
  return rows.map((row) => ({ ...row, ...lastUseOf(row.id) }));
}

/** Returns an SQL statement. The statement disables the active keys of the account whose ids are in `ids`. `ids` is a SELECT of key ids. */
export const disableKeys = (db: Db, accountId: string, ids: SQL, now: number): Statement =>
  raw(
    db,
    sql`UPDATE api_keys SET state = 'disabled', version = version + 1, revision = lower(hex(randomblob(8))), updated_at = max(${now}, updated_at + 1)
      WHERE account_id = ${accountId} AND state = 'active' AND id IN (${ids})`,
  );

/**
 * Returns an SQL condition. The condition is true if a member was removed after the key had expired and this member may know the key's
 * secret.
 */
export const expiredBeforeRemoval = ({ accountId, id }: KeyRow, expiredAt: number): SQL =>
  sql`${id} IN (${knownToRemovedSince(accountId, expiredAt)} SELECT id FROM known)`;

/**
 * Records that the removal of a member has disabled a key. Writes the event and the audit entry, and pushes the key to its guard. `isDue`
 * is an SQL condition that is true until the event is written. `done` takes a condition and returns an SQL statement. If the condition is
 * true, the statement marks the event as written. If the key is no longer disabled, this function writes nothing. Throws the same errors as
 * `changeKey`.
 */
export async function recordDisabled(
  context: KeyContext,
  id: string,
  { isDue, done }: { isDue: SQL; done: (when: SQL) => Statement },
): Promise<void> {
  await writeKey(context, id, {
    precondition: always,
    decide: async (before) => {
      if (before.state !== "disabled" || !(await holdsNow(context.db, isDue))) return null;
      const was = { ...before, state: "active" as const };
      return { members: { state: "disabled" }, was, event: keyUpdated, evenWhereFull: true, alongside: done };
    },
  });
}
