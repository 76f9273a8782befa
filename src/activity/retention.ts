import { and, asc, eq, gte, isNotNull, lt, sql } from "drizzle-orm";
import { dayMs } from "../clock.ts";
import type { Db } from "../db/client.ts";
import { chunk, deleteInChunks } from "../db/delete-in-chunks.ts";
import { accounts, activity } from "../db/schema.ts";
import { idBound } from "../ids.ts";
import { addressesKeptMs } from "./entry.ts";

export const entriesKeptMs = 31 * dayMs;

/** Deletes entries of an account that are older than 31 days, and clears the addresses of those older than 7, in bounded chunks. */
export async function deleteOldEntries(db: Db, accountId: string, now: number, atMost: number): Promise<void> {
  const oldest = idBound("req", now - entriesKeptMs);
  await deleteInChunks(
    db,
    atMost,
    (limit) => sql`DELETE FROM activity WHERE account_id = ${accountId}
      AND id IN (SELECT id FROM activity WHERE account_id = ${accountId} AND id < ${oldest} ORDER BY id LIMIT ${limit})`,
  );
  for (let cleared = 0; cleared < atMost; cleared += chunk)
    if (!(await clearAddresses(db, accountId, idBound("req", now - addressesKeptMs)))) return;
}

/** Goes on where the last chunk ended, so that no entry is looked at twice and none is passed over. Returns whether more may be left. */
async function clearAddresses(db: Db, accountId: string, bound: string): Promise<boolean> {
  const [account] = await db.select({ from: accounts.addressesClearedTo }).from(accounts).where(eq(accounts.id, accountId));
  if (!account || account.from >= bound) return false;
  const uncleared = and(eq(activity.accountId, accountId), gte(activity.id, account.from), lt(activity.id, bound));
  const [next] = await db.select({ id: activity.id }).from(activity).where(uncleared).orderBy(asc(activity.id)).limit(1).offset(chunk);
  const end = next?.id ?? bound;
  await db.batch([
    db
      .update(activity)
      .set({ ip: null })
      .where(and(uncleared, lt(activity.id, end), isNotNull(activity.ip))),
    db.update(accounts).set({ addressesClearedTo: end }).where(eq(accounts.id, accountId)),
  ]);
  return next !== undefined;
}
