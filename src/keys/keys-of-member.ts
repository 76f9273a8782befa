import { and, desc, type SQL, sql } from "drizzle-orm";
import type { ReadContext } from "../accounts/actor.ts";
import { memberships } from "../accounts/memberships.ts";
import { apiKeys } from "../db/areas/keys/tables.ts";
import { isOwnOneOf } from "../db/is-one-of.ts";
import { readLastUses } from "../usage/last-uses.ts";
import type { LogReadContext } from "../usage/log-context.ts";
import type { Key, KeyRow } from "./key.ts";

/**
 * Returns an SQL condition that is true for the keys that are not revoked and that the member created or rotated. An expired key can get a later
 * expiry, so it counts too. 'key.rotated' is a literal, because SQLite cannot use a partial index if the value is a parameter.
 */
function isOfMember(accountId: string, memberId: string): SQL {
  const person = memberships(accountId, memberId);
  return sql`state <> 'revoked' AND id IN (SELECT id FROM api_keys WHERE account_id = ${accountId} AND created_by_id IN (${person})
    UNION SELECT target_id FROM audit WHERE account_id = ${accountId} AND actor_id IN (${person}) AND action = 'key.rotated')`;
}

/** Returns the keys among `ids` that are not revoked and that the member created or rotated. */
export const readKeysOfMember = ({ db, actor }: ReadContext, memberId: string, ids: readonly string[]): Promise<KeyRow[]> =>
  db
    .select()
    .from(apiKeys)
    .where(and(isOwnOneOf(apiKeys, actor.accountId, ids), isOfMember(actor.accountId, memberId)));

/** Lists the keys that are not revoked and that the member created or rotated. Expired keys come last, and newer keys first. */
export async function listKeysOfMember(context: LogReadContext, memberId: string, limit: number): Promise<Key[]> {
  const { db, actor, now } = context;
  const rows = await db
    .select()
    .from(apiKeys)
    .where(isOfMember(actor.accountId, memberId))
    .orderBy(sql`coalesce(expires_at <= ${now}, 0)`, desc(apiKeys.createdAt), desc(apiKeys.id))
    .limit(limit);
  const lastUseOf = await readLastUses(context);
  return rows.map((row) => ({ ...row, ...lastUseOf(row.id) }));
}

/** Returns whether the member created or rotated a key that is not revoked. */
export async function hasKeysOfMember({ db, actor }: ReadContext, memberId: string): Promise<boolean> {
  const found = await db.select({ id: apiKeys.id }).from(apiKeys).where(isOfMember(actor.accountId, memberId)).limit(1);
  return found.length > 0;
}
