import type { Db } from "../../db/client.ts";
import { secondMs } from "../../lib/time/clock.ts";
import { withDeadline } from "../../lib/time/deadline.ts";
import { entriesIn } from "../segments/segment.ts";
import type { AccountLogs } from "./account-logs.ts";
import type { Hints } from "./hints.ts";
import { storeCuts } from "./store-cuts.ts";
import type { WaitingCut } from "./write-ahead-log.ts";

/** The maximum number of accounts whose cuts are stored with one batch, and of bytes of their segments. */
const accountsAtOnce = 50;
const bytesAtOnce = 1_000_000;
const timeoutMs = 10 * secondMs;

/** Returns the oldest waiting cut of each account, as many as fit into one batch. */
export function nextCuts(logs: AccountLogs): WaitingCut[] {
  const cuts: WaitingCut[] = [];
  let bytes = 0;
  for (const { waiting } of logs.accounts.values()) {
    const [cut] = waiting;
    if (!cut) continue;
    if (cuts.length > 0 && (cuts.length === accountsAtOnce || bytes + cut.bytes > bytesAtOnce)) break;
    cuts.push(cut);
    bytes += cut.bytes;
  }
  return cuts;
}

/** Stores cuts in D1, and frees those that D1 has. The others stay and are stored later. Throws if D1 does not respond. */
export async function storeWaitingCuts(
  { db, logs, hints, owner }: { db: Db; logs: AccountLogs; hints: Hints; owner: number },
  cuts: readonly WaitingCut[],
): Promise<void> {
  const toStore = cuts.map((cut) => ({
    ...logs.wal.totalsOf(cut),
    ...{ number: cut.number, id: cut.id, at: cut.at, completeTo: cut.completeTo, startId: logs.of(cut.accountId).state.startId },
    segments: logs.wal.segmentsOf(cut),
  }));
  const outcomes = await withDeadline(storeCuts({ db, owner }, toStore), timeoutMs, "Storing cuts in D1");
  const stored = cuts.map((cut, at) => ({ cut, outcome: outcomes[at] }));
  logs.removeCuts(stored.filter(({ outcome }) => outcome?.outcome === "stored").map(({ cut }) => cut));
  for (const { cut, outcome } of stored) {
    if (outcome?.outcome === "stored" && outcome.lost > 0)
      console.error(`D1 was set back: the cuts ${cut.number - outcome.lost} to ${cut.number - 1} of ${cut.accountId} are lost`);
    if (outcome?.outcome === "behind") logs.renumberAfter(cut, outcome.last);
    if (outcome?.outcome === "foreign") handOver({ logs, hints }, cut, outcome.owner);
  }
}

/** Keeps the entries of a cut for the log writer that owns the account's log. */
function handOver({ logs, hints }: { logs: AccountLogs; hints: Hints }, cut: WaitingCut, owner: number): void {
  console.error(`the log of ${cut.accountId} belongs to the log writer ${owner}`);
  for (const part of cut.segments.keys()) {
    const id = { isolate: cut.id, sequence: part };
    hints.add(owner, { id, entries: entriesIn(logs.wal.bodyOf(cut, part), cut.accountId), dropped: 0 });
  }
  logs.removeCuts([cut]);
}
