import { and, eq, lt, sql } from "drizzle-orm";
import { accounts } from "../accounts/tables.ts";
import { audit } from "../audit/tables.ts";
import type { Db } from "../db/client.ts";
import { deleteInChunks } from "../db/delete-in-chunks.ts";
import { events } from "../events/tables.ts";
import { idBound } from "../ids/ids.ts";
import { apiKeys } from "../keys/tables.ts";
import { tasks } from "../resources/tasks/tables.ts";
import { users } from "../resources/users/tables.ts";
import { sliceStart } from "../time/clock.ts";
import { keyUses, staleSlices, usageDays, usageDayTotals, usageHours, usageHourTotals, usageSlices } from "../usage/log-tables.ts";

// The demo account is filled with a life that nobody had: everything in it from before a time is made up.

const mostEntries = 1_000_000;

/** Notes that everything that an account has from before now is made up. */
export const markSampleData = (db: Db, accountId: string, now: number) =>
  db.update(accounts).set({ sampleUntil: now }).where(eq(accounts.id, accountId));

/** Removes what is made up of an account: its people, tasks, events, requests, figures and keys, whose guards must have been told before. What has come since stays. Broken off, it is done again. */
export async function removeSampleData(
  { db, activity }: { db: Db; activity: Db },
  { id, sampleUntil }: { id: string; sampleUntil: number },
): Promise<void> {
  const until = idBound("req", sampleUntil);
  await deleteInChunks(
    activity,
    mostEntries,
    (limit) => sql`DELETE FROM activity WHERE account_id = ${id}
      AND id IN (SELECT id FROM activity WHERE account_id = ${id} AND id < ${until} ORDER BY id LIMIT ${limit})`,
  );
  await activity.batch([
    activity.delete(keyUses).where(and(eq(keyUses.accountId, id), lt(keyUses.entryId, until))),
    ...[usageSlices, usageHours, usageHourTotals, usageDays, usageDayTotals].map((table) =>
      activity.delete(table).where(and(eq(table.accountId, id), lt(table.start, sampleUntil))),
    ),
    // Of the slice in which the sample ends, its hour and its day, what is left is computed anew.
    activity
      .insert(staleSlices)
      .values({ accountId: id, start: sliceStart(sampleUntil), writer: 0, since: sampleUntil })
      .onConflictDoNothing(),
  ]);
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
    db.update(accounts).set({ sampleUntil: null }).where(eq(accounts.id, id)),
  ]);
}
