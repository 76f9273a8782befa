import { and, eq, gte, lt } from "drizzle-orm";
import { dayMs, hourMs } from "../clock.ts";
import { usageHourTotals } from "../db/schema.ts";
import type { UpToDate } from "./refresh-roll-ups.ts";
import { type WindowName, windowsAt } from "./windows.ts";

/** 1 January 1970 was a Thursday: the third after Monday. */
const daysFromMonday = 3;

/** The requests of a window by weekday (UTC, Monday first) and by hour of the day: seven lists of 24. They add up to its total. */
export async function readWeekHours(
  { db, actor, now }: UpToDate,
  { window: name, keyId = "" }: { window: WindowName; keyId?: string | undefined },
): Promise<number[][]> {
  const { window } = windowsAt(name, now);
  const rows = await db
    .select({ start: usageHourTotals.start, byStatus: usageHourTotals.byStatus })
    .from(usageHourTotals)
    .where(
      and(
        eq(usageHourTotals.accountId, actor.accountId),
        eq(usageHourTotals.keyId, keyId),
        gte(usageHourTotals.start, window.from),
        lt(usageHourTotals.start, window.to),
      ),
    );
  const week = Array.from({ length: 7 }, () => Array<number>(24).fill(0));
  for (const { start, byStatus } of rows) {
    const day = week[(Math.floor(start / dayMs) + daysFromMonday) % 7] as number[];
    const hour = Math.floor((start % dayMs) / hourMs);
    day[hour] = (day[hour] ?? 0) + Object.values(byStatus).reduce((sum, [requests]) => sum + requests, 0);
  }
  return week;
}
