import { dayMs, dayStart } from "../lib/time/clock.ts";
import { readPeriods } from "./read-periods.ts";
import type { UsageSnapshot } from "./usage-snapshot.ts";

/**
 * Returns a list of requests per UTC day for each key id. Each list covers `days` days and ends with today. Omits keys without requests.
 */
export async function readDailyRequests(context: UsageSnapshot, days: number): Promise<Map<string, number[]>> {
  const first = dayStart(context.now) - (days - 1) * dayMs;
  const [periods = []] = await readPeriods(context, [{ by: "day", spans: [{ from: first, to: first + days * dayMs }], keys: "all" }]);
  const byKey = new Map<string, number[]>();
  for (const { start, rollups } of periods) {
    for (const [keyId, { cells }] of rollups) {
      const counts = byKey.get(keyId) ?? Array<number>(days).fill(0);
      counts[(start - first) / dayMs] = [...cells.values()].reduce((sum, { requests }) => sum + requests, 0);
      byKey.set(keyId, counts);
    }
  }
  return byKey;
}
