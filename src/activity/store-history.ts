import { sql } from "drizzle-orm";
import { type Db, newRevision } from "../db/client.ts";
import { timeOfId } from "../ids/ids.ts";
import { addLastUse, type LastUses } from "../usage/store-totals.ts";
import { addEntryByHour, type HourlyTallies } from "../usage/tallies.ts";
import { firstLogWriter, numberOf } from "./databases.ts";
import type { Entry } from "./entry.ts";
import { segmentsOf, sorted } from "./segment.ts";
import { storeCuts } from "./store-cuts.ts";

/**
 * Stores entries of an account that has no log yet. The log writer of the account does not take part. Its first cut has the number 1. `now`: the time
 * up to which the log is complete, in milliseconds since the epoch.
 */
export async function storeHistory(db: Db, entries: readonly Entry[], now: number): Promise<void> {
  const all = sorted(entries);
  const [first] = all;
  if (!first) return;
  const tallies: HourlyTallies = new Map();
  const lastUses: LastUses = new Map();
  for (const entry of all) {
    addEntryByHour(tallies, entry, timeOfId(entry.id));
    if (entry.admitted) addLastUse(lastUses, entry.keyId, { id: entry.id, path: entry.path });
  }
  const { accountId } = first;
  const segments = segmentsOf(all);
  const cut = { accountId, number: 1, id: newRevision(), at: now, tallies, lastUses, segments, bytes: 0 };
  await storeCuts({ db, owner: numberOf(firstLogWriter), now }, [cut]);
  await db.run(sql`UPDATE activity_logs SET cut = 0, cut_id = '' WHERE account_id = ${accountId}`);
}
