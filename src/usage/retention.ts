import { and, eq, lt } from "drizzle-orm";
import { dayMs } from "../clock.ts";
import type { Db } from "../db/client.ts";
import { usageDays, usageDayTotals, usageHours, usageHourTotals } from "../db/schema.ts";

const hoursKeptMs = 62 * dayMs;
const daysKeptMs = 400 * dayMs;

/** Deletes roll-ups of an account that no page or call shows any more: hours after 62 days, days after 400. */
export async function deleteOldUsage(db: Db, accountId: string, now: number): Promise<void> {
  await db.batch([
    deleteBefore(db, usageHours, accountId, now - hoursKeptMs),
    deleteBefore(db, usageHourTotals, accountId, now - hoursKeptMs),
    deleteBefore(db, usageDays, accountId, now - daysKeptMs),
    deleteBefore(db, usageDayTotals, accountId, now - daysKeptMs),
  ]);
}

type RollUp = typeof usageHours | typeof usageDays | typeof usageHourTotals | typeof usageDayTotals;

const deleteBefore = (db: Db, table: RollUp, accountId: string, start: number) =>
  db.delete(table).where(and(eq(table.accountId, accountId), lt(table.start, start)));
