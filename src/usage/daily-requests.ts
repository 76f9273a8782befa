import { and, eq, gte, ne } from "drizzle-orm";
import { dayMs, dayStart } from "../time/clock.ts";
import { usageDayTotals } from "./log-tables.ts";
import type { Refreshed } from "./refresh-roll-ups.ts";

/**
 * Returns a list of requests per UTC day for each key id. Each list covers `days` days and ends with today. Omits keys without requests.
 */
export async function readDailyRequests({ activity, actor, now }: Refreshed, days: number): Promise<Map<string, number[]>> {
  const first = dayStart(now) - (days - 1) * dayMs;
  const rows = await activity
    .select({ keyId: usageDayTotals.keyId, start: usageDayTotals.start, byStatus: usageDayTotals.byStatus })
    .from(usageDayTotals)
    .where(and(eq(usageDayTotals.accountId, actor.accountId), ne(usageDayTotals.keyId, ""), gte(usageDayTotals.start, first)));
  const byKey = new Map<string, number[]>();
  for (const { keyId, start, byStatus } of rows) {
    const counts = byKey.get(keyId) ?? Array<number>(days).fill(0);
    const requests = Object.values(byStatus).reduce((sum, [count]) => sum + count, 0);
    counts[(start - first) / dayMs] = requests;
    byKey.set(keyId, counts);
  }
  return byKey;
}
