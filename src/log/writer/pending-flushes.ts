import type { Db } from "../../db/client.ts";
import { secondMs } from "../../lib/time/clock.ts";
import { withDeadline } from "../../lib/time/deadline.ts";
import { entriesIn } from "../segments/segment.ts";
import type { AccountLogs } from "./account-logs.ts";
import type { Hints } from "./hints.ts";
import type { PendingFlush } from "./recorded-flushes.ts";
import { storeFlushes } from "./store-flushes.ts";

/** The maximum number of accounts whose flushes are stored with one batch, and of bytes of their segments. */
const accountsAtOnce = 50;
const bytesAtOnce = 1_000_000;
const timeoutMs = 10 * secondMs;

/** Returns the oldest pending flush of each account, as many as fit into one batch. */
export function nextFlushes(logs: AccountLogs): PendingFlush[] {
  const flushes: PendingFlush[] = [];
  let bytes = 0;
  for (const { waiting } of logs.accounts.values()) {
    const [flush] = waiting;
    if (!flush) continue;
    if (flushes.length > 0 && (flushes.length === accountsAtOnce || bytes + flush.bytes > bytesAtOnce)) break;
    flushes.push(flush);
    bytes += flush.bytes;
  }
  return flushes;
}

/** Stores flushes in D1, and frees those that D1 has. The others stay and are stored later. Throws if D1 does not respond. */
export async function storePendingFlushes(
  { db, logs, hints, owner }: { db: Db; logs: AccountLogs; hints: Hints; owner: number },
  flushes: readonly PendingFlush[],
): Promise<void> {
  const toStore = flushes.map((flush) => ({
    ...logs.wal.flushes.totalsOf(flush),
    ...{ number: flush.number, id: flush.id, at: flush.at, completeTo: flush.completeTo, startId: logs.of(flush.accountId).state.startId },
    segments: logs.wal.flushes.segmentsOf(flush),
  }));
  const outcomes = await withDeadline(storeFlushes({ db, owner }, toStore), timeoutMs, "Storing flushes in D1");
  const stored = flushes.map((flush, at) => ({ flush, outcome: outcomes[at] }));
  logs.removeFlushes(stored.filter(({ outcome }) => outcome?.outcome === "stored").map(({ flush }) => flush));
  for (const { flush, outcome } of stored) {
    if (outcome?.outcome === "stored" && outcome.lost > 0)
      console.error(`D1 was set back: the flushes ${flush.number - outcome.lost} to ${flush.number - 1} of ${flush.accountId} are lost`);
    if (outcome?.outcome === "behind") logs.renumberAfter(flush, outcome.last);
    if (outcome?.outcome === "foreign") handOver({ logs, hints }, flush, outcome.owner);
  }
}

/** Keeps the entries of a flush for the log writer that owns the account's log. */
function handOver({ logs, hints }: { logs: AccountLogs; hints: Hints }, flush: PendingFlush, owner: number): void {
  console.error(`the log of ${flush.accountId} belongs to the log writer ${owner}`);
  for (const part of flush.segments.keys()) {
    const id = { isolate: flush.id, sequence: part };
    hints.add(owner, { id, entries: entriesIn(logs.wal.flushes.bodyOf(flush, part), flush.accountId), dropped: 0 });
  }
  logs.removeFlushes([flush]);
}
