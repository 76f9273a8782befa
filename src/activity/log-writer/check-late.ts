import type { Db } from "../../db/client.ts";
import { entriesInSegments } from "../segments/read-segments.ts";
import type { AccountLog, AccountLogs } from "./account-logs.ts";
import { entriesInWaitingCuts } from "./read-head.ts";

/**
 * Decides which late entries of an account are new, and adds these entries to the head. Drops the others, because isolates send entries again if a
 * call fails. Throws if D1 does not respond. The late entries then stay in the write-ahead log and are not shown.
 */
export async function checkLate(logs: AccountLogs, log: AccountLog, db: Db): Promise<void> {
  const late = [...log.unchecked.keys()];
  if (late.length === 0) return;
  // The waiting cuts are searched first. A cut that D1 stores in the meantime is therefore found in at least one of both places.
  const inCuts = entriesInWaitingCuts(logs, log, late);
  const inSegments = await entriesInSegments(db, log.state.accountId, late);
  for (const id of late) {
    const entry = log.unchecked.get(id);
    log.unchecked.delete(id);
    if (entry && !inCuts.has(id) && !inSegments.has(id)) log.head.add(entry);
  }
}
