import { newRevision } from "../../db/client.ts";
import { idBound, timeOfId } from "../../ids/ids.ts";
import { hourMs, secondMs } from "../../time/clock.ts";
import { addLastUse, type LastUses } from "../../usage/store-totals.ts";
import { addEntryByHour, type HourlyTallies } from "../../usage/tallies.ts";
import type { Entry } from "../entry.ts";
import { maxSegmentEntries, segmentsOf, sorted } from "../segments/segment.ts";
import { type AccountLog, type AccountLogs, openMs } from "./account-logs.ts";
import { isOpen } from "./head.ts";
import type { LogState, NewCut } from "./write-ahead-log.ts";

// A cut takes entries out of the head of an account and turns them into segments. The log writer records the cut on its own disk before it asks
// D1 to store it.

/** An account is cut if it has this number of entries that can be cut. */
const minEntries = 100;
/** An account is cut if its oldest entry has this age, in milliseconds. */
const maxAgeMs = hourMs;
/**
 * The age from which an entry can be cut, in milliseconds. Entries of the same time arrive in several calls. If a cut took the first of them, the
 * others would be late, and each late entry costs a look into D1.
 */
const settledMs = 15 * secondMs;
/** The maximum number of entries in a cut. A cut is stored with one D1 batch. Larger heads give several cuts. */
const maxEntries = 2 * maxSegmentEntries;
/** The maximum memory of all heads together, in bytes. Above it, the largest accounts are cut until the heads need half of it. */
export const maxHeadBytes = 32 * 1024 * 1024;

/** Returns the entries of a head that a cut takes, sorted by id. */
function entriesToCut({ head }: AccountLog, now: number, { all = false } = {}): Entry[] {
  const settled = idBound("req", now - settledMs);
  const closed = idBound("req", now - openMs);
  const taken = [...head.entries.values()].filter((entry) => all || (entry.id < settled && (!isOpen(entry) || entry.id < closed)));
  return sorted(taken);
}

/** Returns whether an account has enough entries, or one that is old enough. */
const isDue = (entries: readonly Entry[], now: number): boolean => {
  const [oldest] = entries;
  return oldest !== undefined && (entries.length >= minEntries || timeOfId(oldest.id) <= now - maxAgeMs);
};

/** Cuts the accounts that are due. Returns the number of cuts. */
export function cutDue(logs: AccountLogs, now: number): number {
  const due = [...logs.accounts.values()].flatMap((log) => {
    const entries = entriesToCut(log, now);
    return isDue(entries, now) ? [{ log, entries }] : [];
  });
  return record(logs, due, now);
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
    const settled = entriesToCut(log, now);
    const own = settled.length >= half ? settled : entriesToCut(log, now, { all: true }).slice(0, half);
    taken.push({ log, entries: own });
    left -= (bytes * own.length) / entries.size;
  }
  return record(logs, taken, now);
}

/** Cuts everything that can be cut of one account, however little it is. Returns the number of cuts. */
export const cutAccount = (logs: AccountLogs, log: AccountLog, now: number): number =>
  record(logs, [{ log, entries: entriesToCut(log, now, { all: true }) }], now);

interface Taken {
  log: AccountLog;
  entries: readonly Entry[];
}

/** Records cuts on disk, and then takes their entries out of the heads. Returns the number of cuts. */
function record(logs: AccountLogs, taken: readonly Taken[], now: number): number {
  const due = taken.filter(({ entries }) => entries.length > 0).map(({ log, entries }) => ({ log, entries, ...cutsOf(log, entries, now) }));
  if (due.length === 0) return 0;
  const cutIds = new Map(due.map(({ log, entries }) => [log.state.accountId, new Set(entries.map(({ id }) => id))]));
  const { entries, reports } = logs.acknowledged(now);
  const left = entries.filter(({ accountId, id }) => !cutIds.get(accountId)?.has(id));
  const cuts = due.flatMap((each) => each.cuts);
  const recorded = logs.wal.recordCuts(
    cuts,
    due.map(({ state }) => state),
    { entries: left, reports },
  );
  for (const { log, entries: own, state } of due) {
    log.state = state;
    for (const { id } of own) log.head.remove(id);
  }
  for (const cut of recorded) logs.of(cut.accountId).waiting.push(cut);
  return cuts.length;
}

/** Returns the cuts of entries that are sorted by id, and the state of the log after the last one. */
function cutsOf(log: AccountLog, entries: readonly Entry[], now: number): { cuts: NewCut[]; state: LogState } {
  const cuts: NewCut[] = [];
  let { state } = log;
  for (let from = 0; from < entries.length; from += maxEntries) {
    const own = entries.slice(from, from + maxEntries);
    const cut = cutOf(state, own, now);
    cuts.push(cut);
    state = { ...state, cut: cut.number, highestId: higher(state.highestId, own.at(-1)?.id ?? "") };
  }
  return { cuts, state };
}

/** Returns the next cut of a log, with entries that are sorted by id. */
export function cutOf(state: LogState, entries: readonly Entry[], at: number): NewCut {
  const tallies: HourlyTallies = new Map();
  const lastUses: LastUses = new Map();
  for (const entry of entries) {
    addEntryByHour(tallies, entry, timeOfId(entry.id));
    if (entry.admitted) addLastUse(lastUses, entry.keyId, { id: entry.id, path: entry.path });
  }
  // Late entries get segments of their own. The other segments therefore do not overlap with the segments of earlier cuts.
  const late = entries.filter(({ id }) => id <= state.highestId);
  const segments = [...segmentsOf(late), ...segmentsOf(entries.slice(late.length))];
  return { accountId: state.accountId, number: state.cut + 1, id: newRevision(), at, tallies, lastUses, segments };
}

const higher = (one: string, other: string) => (one > other ? one : other);
