import { and, desc, eq, inArray, or, sql } from "drizzle-orm";
import type { LogReading } from "../accounts/actor.ts";
import { isLive } from "../admission/live-keys.ts";
import { apiKeys, audit } from "../db/schema-main.ts";
import { readLastUses } from "../usage/last-uses.ts";
import type { Key } from "./key.ts";

/** Returns the live keys of the account whose secret a member was shown, since they made or rotated the key: newest first, at most `limit`. */
export async function listKeysKnownTo({ db, activity, actor, now }: LogReading, memberId: string, limit: number): Promise<Key[]> {
  const rotated = db
    .select({ id: audit.targetId })
    .from(audit)
    // The action as a literal: SQLite takes the partial index for no bound value.
    .where(and(eq(audit.accountId, actor.accountId), eq(audit.actorId, memberId), sql`action = 'key.rotated'`));
  const rows = await db
    .select()
    .from(apiKeys)
    .where(and(isLive(actor.accountId, now), or(eq(apiKeys.createdById, memberId), inArray(apiKeys.id, rotated))))
    .orderBy(desc(apiKeys.createdAt), desc(apiKeys.id))
    .limit(limit);
  const lastUseOf = await readLastUses({ activity, actor });
  return rows.map((row) => ({ ...row, ...lastUseOf(row.id) }));
}
