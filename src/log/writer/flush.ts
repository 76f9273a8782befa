import { newRevision } from "../../db/client.ts";
import { idBound, timeOfId } from "../../lib/ids.ts";
import { hourMs, minuteMs, secondMs } from "../../lib/time/clock.ts";
import { addEntryByHour, type HourlyRollups } from "../../usage/rollups.ts";
import { addLastUse, type LastUses } from "../../usage/store-totals.ts";
import { numberOf } from "../databases.ts";
import { type Entry, openMs } from "../entry.ts";
import { maxSegmentEntries, segmentsOf, sorted } from "../segments/segment.ts";
import type { AccountLog, AccountLogs } from "./account-logs.ts";
import { isOpen } from "./memtable.ts";
import type { NewFlush } from "./recorded-flushes.ts";
import type { LogState } from "./write-ahead-log.ts";

// A flush takes entries out of the memtable of an account and turns them into segments. The log writer records the flush on its own disk before it asks
// D1 to store it.

/** The time between two flushes, in milliseconds. */
export const flushEveryMs = 5 * minuteMs;

/** Returns the time of the next flush of a log writer, in milliseconds since the epoch. The log writers of a database flush at different times. */
export function nextFlushAt(logWriter: string, now: number): number {
  const offset = (numberOf(logWriter) % 32) * 7 * secondMs;
  return now - ((now - offset) % flushEveryMs) + flushEveryMs;
}

/** An account is flushed if it has this number of entries that can be flushed. */
const minEntries = 100;
/** An account is flushed if its oldest entry has this age, in milliseconds. */
const maxAgeMs = hourMs;
/**
 * The age from which an entry can be flushed, in milliseconds. Entries of the same time arrive in several calls. If a flush took the first of them, the
 * others would be late, and late entries get segments of their own.
 */
const settledMs = 15 * secondMs;
/** The maximum number of entries in a flush. A flush is stored with one D1 batch. Larger memtables give several flushes. */
const maxEntries = 2 * maxSegmentEntries;
/** The maximum memory of all memtables together, in bytes. Above it, the largest accounts are flushed until the memtables need half of it. */
export const maxMemtableBytes = 32 * 1024 * 1024;

/**
 * Returns the entries of a memtable that a flush takes, sorted by id. `closed`: all but the open entries, whose responses can still be reported. `settled`: the
 * closed entries that are old enough.
 */
function entriesToFlush({ memtable }: AccountLog, now: number, which: "settled" | "closed" | "all"): Entry[] {
  const settledTo = idBound("req", now - settledMs);
  const closedTo = idBound("req", now - openMs);
  const isClosed = (entry: Entry) => !isOpen(entry) || entry.id < closedTo;
  const isTaken = (entry: Entry) => which === "all" || (isClosed(entry) && (which === "closed" || entry.id < settledTo));
  return sorted([...memtable.entries.values()].filter(isTaken));
}

/** Returns whether an account has enough entries, or one that is old enough. */
const isDue = (entries: readonly Entry[], now: number): boolean => {
  const [oldest] = entries;
  return oldest !== undefined && (entries.length >= minEntries || timeOfId(oldest.id) <= now - maxAgeMs);
};

export function flushDue(logs: AccountLogs, now: number): number {
  const due = [...logs.accounts.values()].flatMap((log) => {
    const entries = entriesToFlush(log, now, "settled");
    return isDue(entries, now) ? [{ log, entries }] : [];
  });
  return recordFlushes(logs, due, now);
}

/**
 * If the memtables need too much memory, flushes the largest accounts until the memtables need half of it. Takes the settled entries of an account. If they are
 * less than half of its entries, takes the older half, including entries that are open. Returns the number of flushes.
 */
export function flushLargest(logs: AccountLogs, now: number, maxBytes = maxMemtableBytes): number {
  let left = logs.memtableBytes;
  if (left <= maxBytes) return 0;
  const largest = [...logs.accounts.values()]
    .filter(({ memtable }) => memtable.entries.size > 0)
    .toSorted((a, b) => b.memtable.bytes - a.memtable.bytes);
  const taken: Taken[] = [];
  for (const log of largest) {
    if (left <= maxBytes / 2) break;
    const { entries, bytes } = log.memtable;
    const half = Math.ceil(entries.size / 2);
    const settled = entriesToFlush(log, now, "settled");
    const own = settled.length >= half ? settled : entriesToFlush(log, now, "all").slice(0, half);
    taken.push({ log, entries: own });
    left -= (bytes * own.length) / entries.size;
  }
  return recordFlushes(logs, taken, now);
}

/** Flushes all entries of one account but the open ones, however few they are. Returns the number of flushes. */
export const flushAccount = (logs: AccountLogs, log: AccountLog, now: number): number =>
  recordFlushes(logs, [{ log, entries: entriesToFlush(log, now, "closed") }], now);

interface Taken {
  log: AccountLog;
  entries: readonly Entry[];
}

/**
 * Records flushes on disk, and then takes their entries out of the memtables. The entries of all memtables that are in no flush are carried over: they replace the
 * write-ahead log. Returns the number of flushes. The next alarm stores them in D1.
 */
function recordFlushes(logs: AccountLogs, taken: readonly Taken[], now: number): number {
  const due = taken
    .filter(({ entries }) => entries.length > 0)
    .map(({ log, entries }) => ({ log, entries, ...divideIntoFlushes(log, entries, now) }));
  if (due.length === 0) return 0;
  const flushIds = new Map(due.map(({ log, entries }) => [log.state.accountId, new Set(entries.map(({ id }) => id))]));
  const acknowledged = logs.acknowledged();
  const carriedOver = acknowledged.entries.filter(({ accountId, id }) => !flushIds.get(accountId)?.has(id));
  const flushes = due.flatMap((each) => each.flushes);
  const recorded = logs.wal.recordFlushes(
    flushes,
    due.map(({ state }) => state),
    { ...acknowledged, entries: carriedOver },
    due.flatMap(({ entries: own }) => own),
  );
  for (const { log, entries: own, state } of due) {
    log.state = state;
    for (const { id } of own) log.memtable.remove(id);
  }
  for (const flush of recorded) logs.of(flush.accountId).waiting.push(flush);
  return flushes.length;
}

/** Returns the flushes of entries that are sorted by id, and the state of the log after the last one. */
function divideIntoFlushes(log: AccountLog, entries: readonly Entry[], now: number): { flushes: NewFlush[]; state: LogState } {
  const flushes: NewFlush[] = [];
  let { state } = log;
  const carriedFrom = oldestLeft(log, entries);
  for (let from = 0; from < entries.length; from += maxEntries) {
    const own = entries.slice(from, from + maxEntries);
    const next = entries[from + maxEntries];
    const completeTo = Math.min(next ? timeOfId(next.id) : now - settledMs, carriedFrom);
    const flush = makeFlush(state, own, { at: now, completeTo });
    flushes.push(flush);
    state = { ...state, flush: flush.number, highestId: higher(state.highestId, own.at(-1)?.id ?? "") };
  }
  return { flushes, state };
}

/** Returns the time of the oldest entry of a log that is not among `taken`, or infinity. */
function oldestLeft({ memtable }: AccountLog, taken: readonly Entry[]): number {
  const ids = new Set(taken.map(({ id }) => id));
  let oldest = Number.POSITIVE_INFINITY;
  for (const id of memtable.entries.keys()) if (!ids.has(id)) oldest = Math.min(oldest, timeOfId(id));
  return oldest;
}

/** Returns the next flush of a log, with entries that are sorted by id. */
export function makeFlush(state: LogState, entries: readonly Entry[], { at, completeTo }: Pick<NewFlush, "at" | "completeTo">): NewFlush {
  const rollups: HourlyRollups = new Map();
  const lastUses: LastUses = new Map();
  for (const entry of entries) {
    addEntryByHour(rollups, entry, timeOfId(entry.id));
    if (entry.admitted) addLastUse(lastUses, entry.keyId, { id: entry.id, path: entry.path });
  }
  // Late entries get segments of their own. The other segments therefore do not overlap with the segments of earlier flushes.
  const late = entries.filter(({ id }) => id <= state.highestId);
  const segments = [...segmentsOf(late), ...segmentsOf(entries.slice(late.length))];
  return { accountId: state.accountId, number: state.flush + 1, id: newRevision(), at, completeTo, rollups, lastUses, segments };
}

const higher = (one: string, other: string) => (one > other ? one : other);
