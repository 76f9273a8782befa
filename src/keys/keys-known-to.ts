import { and, desc, inArray, type SQL, sql } from "drizzle-orm";
import type { LogReading } from "../accounts/actor.ts";
import { isLive } from "../admission/live-keys.ts";
import { apiKeys } from "../db/schema-main.ts";
import { readLastUses } from "../usage/last-uses.ts";
import type { Key } from "./key.ts";

/**
 * A table `known` of a member and the keys of the account whose secret they may have: those that they made or rotated, those that such a key made
 * or rotated, and so on.
 */
export const knownTo = (accountId: string, memberId: string): SQL =>
  // The action as a literal: SQLite takes the partial index for no bound value.
  sql`WITH RECURSIVE known (id) AS (
    SELECT ${memberId}
    UNION SELECT made.id FROM known JOIN api_keys AS made ON made.account_id = ${accountId} AND made.created_by_id = known.id
    UNION SELECT audit.target_id FROM known JOIN audit ON audit.account_id = ${accountId} AND audit.actor_id = known.id AND action = 'key.rotated'
  )`;

/** Returns the live keys of the account whose secret a member may have: newest first, at most `limit`. */
export async function listKeysKnownTo({ db, activity, actor, now }: LogReading, memberId: string, limit: number): Promise<Key[]> {
  const rows = await db
    .select()
    .from(apiKeys)
    .where(and(isLive(actor.accountId, now), inArray(apiKeys.id, sql`(${knownTo(actor.accountId, memberId)} SELECT id FROM known)`)))
    .orderBy(desc(apiKeys.createdAt), desc(apiKeys.id))
    .limit(limit);
  const lastUseOf = await readLastUses({ activity, actor });
  return rows.map((row) => ({ ...row, ...lastUseOf(row.id) }));
}
