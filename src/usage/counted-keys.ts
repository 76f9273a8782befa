import { and, eq, gt } from "drizzle-orm";
import { hourStart } from "../time/clock.ts";
import { usageHours } from "./log-tables.ts";
import type { Refreshed } from "./refresh-roll-ups.ts";

/** Returns the ids of the keys that have counted requests in the log of the current hour. */
export async function readCountedKeys({ activity, actor, now }: Refreshed): Promise<Set<string>> {
  const rows = await activity
    .selectDistinct({ keyId: usageHours.keyId })
    .from(usageHours)
    .where(and(eq(usageHours.accountId, actor.accountId), eq(usageHours.start, hourStart(now)), gt(usageHours.counted, 0)));
  return new Set(rows.map(({ keyId }) => keyId));
}
