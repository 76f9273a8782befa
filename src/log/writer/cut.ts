import { newRevision } from "../../db/client.ts";
import { idBound, timeOfId } from "../../lib/ids.ts";
import { hourMs, minuteMs, secondMs } from "../../lib/time/clock.ts";
import { addLastUse, type LastUses } from "../../usage/store-totals.ts";
import { addEntryByHour, type HourlyTallies } from "../../usage/tallies.ts";
import { numberOf } from "../databases.ts";
import { type Entry, openMs } from "../entry.ts";
import { maxSegmentEntries, segmentsOf, sorted } from "../segments/segment.ts";
import type { AccountLog, AccountLogs } from "./account-logs.ts";
import { isOpen } from "./head.ts";
import type { LogState, NewCut } from "./write-ahead-log.ts";

// A cut takes entries out of the head of an account and turns them into segments. The log writer records the cut on its own disk before it asks
// D1 to store it.

/** The time between two cuts, in milliseconds. */
export const cutEveryMs = 5 * minuteMs;

/** Returns the time of the next cut of a log writer, in milliseconds since the epoch. The log writers of a database cut at different times. */
export function nextCutAt(logWriter: string, now: number): number {
  const offset = (numberOf(logWriter) % 32) * 7 * secondMs;
  return now - ((now - offset) % cutEveryMs) + cutEveryMs;
}

/** An account is cut if it has this number of entries that can be cut. */
const minEntries = 100;
/** An account is cut if its oldest entry has this age, in milliseconds. */
const maxAgeMs = hourMs;
/**
 * The age from which an entry can be cut, in milliseconds. Entries of the same time arrive in several calls. If a cut took the first of them, the
 * others would be late, and late entries get segments of their own.
 */
const settledMs = 15 * secondMs;
/** The maximum number of entries in a cut. A cut is stored with one D1 batch. Larger heads give several cuts. */
const maxEntries = 2 * maxSegmentEntries;
/** The maximum memory of all heads together, in bytes. Above it, the largest accounts are cut until the heads need half of it. */
export const maxHeadBytes = 32 * 1024 * 1024;

/**
 * Returns the entries of a head that a cut takes, sorted by id. `closed`: all but the open entries, whose responses can still be reported. `settled`: the
 * closed entries that are old enough.
 */
function entriesToCut({ head }: AccountLog, now: number, which: "settled" | "closed" | "all"): Entry[] {
  const settledTo = idBound("req", now - settledMs);
  const closedTo = idBound("req", now - openMs);
  const isClosed = (entry: Entry) => !isOpen(entry) || entry.id < closedTo;
  const isTaken = (entry: Entry) => which === "all" || (isClosed(entry) && (which === "closed" || entry.id < settledTo));
  return sorted([...head.entries.values()].filter(isTaken));
}

/** Returns whether an account has enough entries, or one that is old enough. */
const isDue = (entries: readonly Entry[], now: number): boolean => {
  const [oldest] = entries;
  return oldest !== undefined && (entries.length >= minEntries || timeOfId(oldest.id) <= now - maxAgeMs);
};

export function cutDue(logs: AccountLogs, now: number): number {
  const due = [...logs.accounts.values()].flatMap((log) => {
    const entries = entriesToCut(log, now, "settled");
    return isDue(entries, now) ? [{ log, entries }] : [];
  });
  return recordCuts(logs, due, now);
}

/**
 * If the heads need too much memory, cuts the largest accounts until the heads need half of it. Takes the settled entries of an account. If they are
 * less than half of its entries, takes the older half, including entries that are open. Returns the number of cuts.
 */
export function cutLargest(logs: AccountLogs, now: number, maxBytes = maxHeadBytes): number {
  let left = logs.headBytes;
  if (left <= maxBytes) return 0;
  const largest = [...logs.accounts.values()].filter(({ head }) => head.entries.size > 0).toSorted((a, b) => b.head.bytes - a.head.bytes);
  const taken: Taken[] = [];
  for (const log of largest) {
    if (left <= maxBytes / 2) break;
    const { entries, bytes } = log.head;
    const half = Math.ceil(entries.size / 2);
    const settled = entriesToCut(log, now, "settled");
    const own = settled.length >= half ? settled : entriesToCut(log, now, "all").slice(0, half);
    taken.push({ log, entries: own });
    left -= (bytes * own.length) / entries.size;
  }
  return recordCuts(logs, taken, now);
}

/** Cuts all entries of one account but the open ones, however few they are. Returns the number of cuts. */
export const cutAccount = (logs: AccountLogs, log: AccountLog, now: number): number =>
  recordCuts(logs, [{ log, entries: entriesToCut(log, now, "closed") }], now);

interface Taken {
  log: AccountLog;
  entries: readonly Entry[];
}

/**
 * Records cuts on disk, and then takes their entries out of the heads. The entries of all heads that are in no cut are carried over: they replace the
 * write-ahead log. Returns the number of cuts. The next alarm stores them in D1.
 */
function recordCuts(logs: AccountLogs, taken: readonly Taken[], now: number): number {
  const due = taken
    .filter(({ entries }) => entries.length > 0)
    .map(({ log, entries }) => ({ log, entries, ...divideIntoCuts(log, entries, now) }));
  if (due.length === 0) return 0;
  const cutIds = new Map(due.map(({ log, entries }) => [log.state.accountId, new Set(entries.map(({ id }) => id))]));
  const acknowledged = logs.acknowledged();
  const carriedOver = acknowledged.entries.filter(({ accountId, id }) => !cutIds.get(accountId)?.has(id));
  const cuts = due.flatMap((each) => each.cuts);
  const recorded = logs.wal.recordCuts(
    cuts,
    due.map(({ state }) => state),
    { ...acknowledged, entries: carriedOver },
    due.flatMap(({ entries: own }) => own),
  );
  for (const { log, entries: own, state } of due) {
    log.state = state;
    for (const { id } of own) log.head.remove(id);
  }
  for (const cut of recorded) logs.of(cut.accountId).waiting.push(cut);
  return cuts.length;
}

/** Returns the cuts of entries that are sorted by id, and the state of the log after the last one. */
function divideIntoCuts(log: AccountLog, entries: readonly Entry[], now: number): { cuts: NewCut[]; state: LogState } {
  const cuts: NewCut[] = [];
  let { state } = log;
  const carriedFrom = oldestLeft(log, entries);
  for (let from = 0; from < entries.length; from += maxEntries) {
    const own = entries.slice(from, from + maxEntries);
    const next = entries[from + maxEntries];
    const completeTo = Math.min(next ? timeOfId(next.id) : now - settledMs, carriedFrom);
    const cut = makeCut(state, own, { at: now, completeTo });
    cuts.push(cut);
    state = { ...state, cut: cut.number, highestId: higher(state.highestId, own.at(-1)?.id ?? "") };
  }
  return { cuts, state };
}

/** Returns the time of the oldest entry of a log that is not among `taken`, or infinity. */
function oldestLeft({ head }: AccountLog, taken: readonly Entry[]): number {
  const ids = new Set(taken.map(({ id }) => id));
  let oldest = Number.POSITIVE_INFINITY;
  for (const id of head.entries.keys()) if (!ids.has(id)) oldest = Math.min(oldest, timeOfId(id));
  return oldest;
}

/** Returns the next cut of a log, with entries that are sorted by id. */
export function makeCut(state: LogState, entries: readonly Entry[], { at, completeTo }: Pick<NewCut, "at" | "completeTo">): NewCut {
  const tallies: HourlyTallies = new Map();
  const lastUses: LastUses = new Map();
  for (const entry of entries) {
    addEntryByHour(tallies, entry, timeOfId(entry.id));
    if (entry.admitted) addLastUse(lastUses, entry.keyId, { id: entry.id, path: entry.path });
  }
  // Late entries get segments of their own. The other segments therefore do not overlap with the segments of earlier cuts.
  const late = entries.filter(({ id }) => id <= state.highestId);
  const segments = [...segmentsOf(late), ...segmentsOf(entries.slice(late.length))];
  return { accountId: state.accountId, number: state.cut + 1, id: newRevision(), at, completeTo, tallies, lastUses, segments };
}

const higher = (one: string, other: string) => (one > other ? one : other);
