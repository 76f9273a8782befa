import { and, eq, gte, isNotNull, lt, sql } from "drizzle-orm";
import { dayMs } from "../clock.ts";
import type { Db } from "../db/client.ts";
import { activity } from "../db/schema.ts";
import { idBound } from "../ids.ts";

const entriesKeptMs = 31 * dayMs;
const ipKeptMs = 7 * dayMs;
const chunk = 5000;

/**
 * Deletes entries of an account that are older than 31 days, and clears the addresses of those older than 7, at most 5,000 of
 * each. Addresses are looked for among the entries of two days: the job comes every hour, and may miss some.
 */
export async function forgetOldEntries(db: Db, accountId: string, now: number): Promise<void> {
  const own = eq(activity.accountId, accountId);
  const old = sql`id IN (SELECT id FROM activity WHERE account_id = ${accountId} AND id < ${idBound("req", now - entriesKeptMs)} LIMIT ${chunk})`;
  const withIp = db
    .select({ id: activity.id })
    .from(activity)
    .where(
      and(
        own,
        isNotNull(activity.ip),
        gte(activity.id, idBound("req", now - ipKeptMs - 2 * dayMs)),
        lt(activity.id, idBound("req", now - ipKeptMs)),
      ),
    )
    .limit(chunk);
  await db.batch([
    db.delete(activity).where(and(own, old)),
    db
      .update(activity)
      .set({ ip: null })
      .where(and(own, sql`id IN ${withIp}`)),
  ]);
}
