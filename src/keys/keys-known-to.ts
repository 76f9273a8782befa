import { and, desc, inArray, sql } from "drizzle-orm";
import type { LogReading } from "../accounts/actor.ts";
import { isLive } from "../admission/live-keys.ts";
import { knownTo } from "../audit/known-to.ts";
import { apiKeys } from "../db/schema-main.ts";
import { readLastUses } from "../usage/last-uses.ts";
import type { Key } from "./key.ts";

/** Returns the live keys whose secret a member may have, newest first, at most `limit`. */
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
