import { inBatches } from "../../lib/in-batches.ts";
import { giveWay } from "../../lib/time/turns.ts";
import type { OpenRollups } from "../../usage/log-context.ts";
import { addLastUse, type LastUses } from "../../usage/store-totals.ts";
import type { Entry } from "../entry.ts";
import { matches } from "../read/activity-filter.ts";
import { combine, type Found, isSelective, isWithin, type Query, scan, searchFurther } from "../segments/scan.ts";
import { entriesIn, sorted } from "../segments/segment.ts";
import type { AccountLog, AccountLogs } from "./account-logs.ts";
import type { PendingFlush } from "./recorded-flushes.ts";

// Reads what D1 does not have yet: the memtable of an account and its pending flushes. A reader asks the log writer first, and then reads D1. A flush that
// D1 stores in between is therefore in both answers, but no flush is in neither.

/** Returns the rollups of an account that D1 may not have yet. */
export function readOpenRollups({ wal }: AccountLogs, { state, memtable, waiting }: AccountLog): OpenRollups {
  return {
    memtable: memtable.rollups,
    waiting: waiting.map((flush) => ({ number: flush.number, rollups: wal.flushes.totalsOf(flush).rollups })),
    flush: state.flush,
  };
}

/** Returns the latest admitted entry of each key that D1 may not have yet. */
export function readOpenUses({ wal }: AccountLogs, { memtable, waiting }: AccountLog): LastUses {
  const uses: LastUses = new Map(memtable.lastUses);
  for (const flush of waiting) for (const [keyId, use] of wal.flushes.totalsOf(flush).lastUses) addLastUse(uses, keyId, use);
  return uses;
}

/** A key with the account that it belongs to. */
export interface UsedKey {
  account: string;
  id: string;
}

/** Returns the keys with admitted requests in a memtable or a pending flush, sorted by account and key, after the key `after`. */
export function readUsedKeys(logs: AccountLogs, after: UsedKey, limit: number): UsedKey[] {
  const keys = [...logs.accounts].flatMap(([account, log]) => [...readOpenUses(logs, log).keys()].map((id) => ({ account, id })));
  const position = ({ account, id }: UsedKey) => `${account}/${id}`;
  const isAfter = keys.filter((key) => position(key) > position(after));
  return isAfter.toSorted((one, other) => (position(one) < position(other) ? -1 : 1)).slice(0, limit);
}

/** The number of entries of a memtable that are compared with a filter in one piece. */
const entriesAtOnce = 4000;

/** Searches the memtable and the pending flushes of an account, as they are when the search begins. */
export async function searchMemtable(logs: AccountLogs, log: AccountLog, wanted: Query): Promise<Found> {
  const { startId } = log.state;
  const query = wanted.from === null || wanted.from < startId ? { ...wanted, from: startId } : wanted;
  // Newer entries are mostly added last. Once a page is full, nearly all others are left out by one comparison.
  const all = [...log.memtable.entries.values()].reverse();
  const overlapping = waitingSegments(log.waiting).filter(({ firstId, lastId }) => overlaps(query, firstId, lastId));
  const refs = overlapping.map((ref) => ({
    ...ref,
    summary: isSelective(query.filter) ? (logs.wal.flushes.summariesOf(ref.flush)[ref.part] ?? null) : null,
  }));
  const open = async (some: readonly (typeof refs)[number][]) => {
    const opened: Entry[][] = [];
    for (const { flush, part } of some) {
      await giveWay();
      // A flush that no longer waits is in D1 now, and the reader reads D1 afterwards.
      opened.push(log.waiting.includes(flush) ? entriesIn(logs.wal.flushes.bodyOf(flush, part), flush.accountId) : []);
    }
    return opened;
  };
  let inMemtable: Entry[] = [];
  for (const some of inBatches(all, entriesAtOnce)) {
    if (some[0] !== all[0]) await giveWay();
    const lowest = inMemtable[query.limit]?.id ?? "";
    const isOnPage = (entry: Entry) => entry.id > lowest && isWithin(query, entry) && matches(query.filter, entry);
    const matching = some.filter(isOnPage);
    if (matching.length > 0) inMemtable = newestFirst([...inMemtable, ...matching]).slice(0, query.limit + 1);
  }
  const page = inMemtable.slice(0, query.limit);
  const memtable = { entries: page, completeFrom: inMemtable.length > query.limit ? (page.at(-1)?.id ?? null) : null };
  const waiting = await searchFurther(query, (mayOpen) => scan(refs, open, query, mayOpen));
  return combine([memtable, waiting], query.limit);
}

const newestFirst = (entries: readonly Entry[]): Entry[] => sorted(entries).reverse();

/** Returns the segments of pending flushes, sorted by their last id, highest first. */
const waitingSegments = (waiting: readonly PendingFlush[]) =>
  waiting
    .flatMap((flush) => flush.segments.map((segment, part) => ({ ...segment, flush, part })))
    .toSorted((a, b) => (a.lastId > b.lastId ? -1 : 1));

const overlaps = ({ before, from }: Query, firstId: string, lastId: string): boolean =>
  (before === null || firstId < before) && (from === null || lastId >= from);
