import { hourMs, hourStart } from "../lib/time/clock.ts";
import { readPeriods } from "./read-periods.ts";
import type { UsageSnapshot } from "./usage-snapshot.ts";

/**
 * Returns the ids of the keys that have counted requests in the log of the current hour. Returns null if the log writer did not respond, because
 * the latest requests are then unknown.
 */
export async function readCountedKeys(context: UsageSnapshot): Promise<Set<string> | null> {
  const from = hourStart(context.now);
  const [hours = []] = await readPeriods(context, [{ by: "hour", spans: [{ from, to: from + hourMs }], keys: "all" }]);
  if (context.open.latest === null) return null;
  const keys = hours.flatMap(({ rollups }) => [...rollups]);
  return new Set(keys.filter(([, { cells }]) => [...cells.values()].some(({ counted }) => counted > 0)).map(([keyId]) => keyId));
}
