import { and, eq, gt } from "drizzle-orm";
import { hourStart } from "../time/clock.ts";
import { usageHours } from "./log-tables.ts";
import type { UpToDate } from "./refresh-roll-ups.ts";

/** The ids of the keys that have used up some of their limit in the current hour, by the log. */
export async function readCountedKeys({ activity, actor, now }: UpToDate): Promise<Set<string>> {
  const rows = await activity
    .selectDistinct({ keyId: usageHours.keyId })
    .from(usageHours)
    .where(and(eq(usageHours.accountId, actor.accountId), eq(usageHours.start, hourStart(now)), gt(usageHours.counted, 0)));
  return new Set(rows.map(({ keyId }) => keyId));
}
