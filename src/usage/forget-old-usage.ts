import { and, eq, lt } from "drizzle-orm";
import { dayMs } from "../clock.ts";
import type { Db } from "../db/client.ts";
import { usageDays, usageHours } from "../db/schema.ts";

const hoursKeptMs = 62 * dayMs;
const daysKeptMs = 400 * dayMs;

/** Deletes roll-ups of an account that no page or call shows any more: hours after 62 days, days after 400. */
export async function forgetOldUsage(db: Db, accountId: string, now: number): Promise<void> {
  await db.batch([
    db.delete(usageHours).where(and(eq(usageHours.accountId, accountId), lt(usageHours.start, now - hoursKeptMs))),
    db.delete(usageDays).where(and(eq(usageDays.accountId, accountId), lt(usageDays.start, now - daysKeptMs))),
  ]);
}
