import { and, eq, lt, sql } from "drizzle-orm";
import { dayStart, hourMs, hourStart } from "../clock.ts";
import type { Db } from "../db/client.ts";
import { deleteInChunks } from "../db/delete-in-chunks.ts";
import {
  accounts,
  apiKeys,
  audit,
  events,
  keyUses,
  staleHours,
  tasks,
  usageDays,
  usageDayTotals,
  usageHours,
  usageHourTotals,
  users,
} from "../db/schema.ts";
import { idBound } from "../ids.ts";

// The demo account is filled with a life that nobody had: everything in it from before a time is made up.

const mostEntries = 1_000_000;

/** Notes that everything that an account has from before now is made up. */
export const markSampleData = (db: Db, accountId: string, now: number) =>
  db.update(accounts).set({ sampleUntil: now }).where(eq(accounts.id, accountId));

/** Removes what is made up of an account: its people, tasks, events, requests, figures and keys, whose guards must have been told before. What has come since stays. */
export async function removeSampleData(db: Db, { id, sampleUntil }: { id: string; sampleUntil: number }, now: number): Promise<void> {
  const until = idBound("req", sampleUntil);
  await deleteInChunks(
    db,
    mostEntries,
    (limit) => sql`DELETE FROM activity WHERE account_id = ${id}
      AND id IN (SELECT id FROM activity WHERE account_id = ${id} AND id < ${until} ORDER BY id LIMIT ${limit})`,
  );
  // What is left of the day in which the sample ends is computed anew from the log.
  const today = dayStart(sampleUntil);
  const stale: { accountId: string; hour: number }[] = [];
  for (let hour = today; hour <= hourStart(now) && stale.length < 24; hour += hourMs) stale.push({ accountId: id, hour });
  await db.batch([
    db.delete(tasks).where(and(eq(tasks.accountId, id), lt(tasks.createdAt, sampleUntil))),
    db
      .delete(users)
      .where(
        and(
          eq(users.accountId, id),
          lt(users.createdAt, sampleUntil),
          sql`NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.account_id = users.account_id AND tasks.assignee_id = users.id)`,
        ),
      ),
    db.delete(events).where(and(eq(events.accountId, id), lt(events.createdAt, sampleUntil))),
    // What is said of keys that never were, the end of them too.
    db
      .delete(audit)
      .where(
        and(
          eq(audit.accountId, id),
          sql`${audit.targetId} IN (SELECT id FROM api_keys WHERE account_id = ${id} AND created_at < ${sampleUntil})`,
        ),
      ),
    db.delete(apiKeys).where(and(eq(apiKeys.accountId, id), lt(apiKeys.createdAt, sampleUntil))),
    db.delete(keyUses).where(and(eq(keyUses.accountId, id), lt(keyUses.entryId, until))),
    ...[usageHours, usageHourTotals, usageDays, usageDayTotals].map((table) =>
      db.delete(table).where(and(eq(table.accountId, id), lt(table.start, sampleUntil))),
    ),
    db.insert(staleHours).values(stale).onConflictDoNothing(),
    db.update(accounts).set({ sampleUntil: null }).where(eq(accounts.id, id)),
  ]);
}
