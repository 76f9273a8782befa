import { sql } from "drizzle-orm";
import type { Db } from "../../db/client.ts";
import { idBound } from "../../lib/ids.ts";
import { dayMs, hourStart } from "../../lib/time/clock.ts";
import { numberOf } from "../databases.ts";
import type { Entry } from "../entry.ts";
import { defaultDays } from "../retention.ts";
import { sorted } from "../segments/segment.ts";
import { makeFlush } from "./flush.ts";
import { storeFlushes } from "./store-flushes.ts";

/**
 * Stores entries of an account in its log. `logWriter`: the log writer of the account. It does not take part, and its first flush has the number 1. `now`: the
 * time up to which the log is complete, in milliseconds since the epoch. Entries that are past the default retention are in the figures, but are not shown.
 */
export async function storeHistory(db: Db, logWriter: string, entries: readonly Entry[], now: number): Promise<void> {
  const all = sorted(entries);
  const [first] = all;
  if (!first) return;
  const { accountId } = first;
  const flush = makeFlush({ accountId, flush: 0, highestId: "", startId: "" }, all, { at: now, completeTo: now });
  const startId = idBound("req", hourStart(now - defaultDays * dayMs));
  await storeFlushes({ db, owner: numberOf(logWriter) }, [{ ...flush, startId }]);
  await db.run(sql`UPDATE activity_logs SET flush = 0, flush_id = '' WHERE account_id = ${accountId}`);
}
