import type { Db } from "../../db/client.ts";
import { entriesAtOnce } from "../entry.ts";
import { entriesInSegments } from "../segments/read-segments.ts";
import type { AccountLog, AccountLogs } from "./account-logs.ts";
import { entriesInWaitingCuts } from "./read-head.ts";

/**
 * Decides which late entries of an account are new, and adds these entries to the head. Drops the others, because isolates send entries again if a
 * call fails. Throws if D1 does not respond. The late entries then stay in the write-ahead log and are not shown.
 */
export async function checkLate(logs: AccountLogs, log: AccountLog, db: Db): Promise<void> {
  const all = [...log.unchecked];
  for (let from = 0; from < all.length; from += entriesAtOnce) {
    const late = new Map(all.slice(from, from + entriesAtOnce));
    const ids = [...late.keys()];
    // The waiting cuts are searched first. A cut that D1 stores in the meantime is therefore found in at least one of both places.
    const inCuts = entriesInWaitingCuts(logs, log, ids);
    const inSegments = await entriesInSegments(db, log.state.accountId, ids);
    for (const [id, entry] of late) {
      // In the meantime, another check may have decided about the entry, and the entry may have been sent again. This result is then too old.
      if (log.unchecked.get(id) !== entry) continue;
      log.unchecked.delete(id);
      if (!inCuts.has(id) && !inSegments.has(id)) log.head.add(entry);
    }
  }
}
