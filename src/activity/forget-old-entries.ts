import { and, asc, eq, gte, isNotNull, lt, sql } from "drizzle-orm";
import { dayMs } from "../clock.ts";
import type { Db } from "../db/client.ts";
import { accounts, activity } from "../db/schema.ts";
import { idBound } from "../ids.ts";
import { addressesKeptMs } from "./entry.ts";

const entriesKeptMs = 31 * dayMs;
const chunk = 5000;
/** Of an account in a run: twice what all of its keys together can add in the hour until the next. */
const mostChunks = 100;

/**
 * Deletes entries of an account that are older than 31 days, and clears the addresses of those older than 7, in chunks of
 * 5,000. What one run does not reach, the next ones do, however late they come.
 */
export async function forgetOldEntries(db: Db, accountId: string, now: number): Promise<void> {
  await untilDone(() => deleteChunk(db, accountId, idBound("req", now - entriesKeptMs)));
  await untilDone(() => clearChunk(db, accountId, idBound("req", now - addressesKeptMs)));
}

/** `work` answers whether more may be left. */
async function untilDone(work: () => Promise<boolean>): Promise<void> {
  for (let chunks = 0; chunks < mostChunks; chunks++) if (!(await work())) return;
}

async function deleteChunk(db: Db, accountId: string, bound: string): Promise<boolean> {
  const { meta } = await db
    .delete(activity)
    .where(
      and(
        eq(activity.accountId, accountId),
        sql`id IN (SELECT id FROM activity WHERE account_id = ${accountId} AND id < ${bound} ORDER BY id LIMIT ${chunk})`,
      ),
    );
  return meta.changes >= chunk;
}

/** Goes on where the last chunk ended, so that no entry is looked at twice and none is passed over. */
async function clearChunk(db: Db, accountId: string, bound: string): Promise<boolean> {
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
