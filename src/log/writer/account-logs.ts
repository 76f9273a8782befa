import { getOrInsert } from "../../lib/get-or-insert.ts";
import { timeOfId } from "../../lib/ids.ts";
import type { Batch } from "../batch.ts";
import { type Entry, openMs } from "../entry.ts";
import { isEncodable } from "../segments/codec.ts";
import { KnownBatches } from "./known-batches.ts";
import { Memtable, type Report, type Reported, reportedOn } from "./memtable.ts";
import type { PendingFlush } from "./recorded-flushes.ts";
import type { RequestCounters } from "./request-counters.ts";
import { RouteNames } from "./route-names.ts";
import { SharedStrings } from "./shared-strings.ts";
import { type Acknowledged, type LogState, WriteAheadLog } from "./write-ahead-log.ts";

/**
 * The maximum size of a log writer's own database, in bytes. Before it is reached, the accounts that hold the most lose their new entries, which are
 * counted. Entries for other log writers take at most half of it.
 */
export const maxStoredBytes = 1e9;

/** The number of remembered entries that reports have added before their batches arrived. */
const maxEarly = 10_000;

/**
 * Returns whether an account may hold more of something that all accounts share. An account that holds four times as much as is free gets no more: one
 * account alone can take four fifths, and an account that holds little always has room.
 */
export const isWithinShare = (own: number, free: number): boolean => own < 4 * free;

export interface AccountLog {
  state: LogState;
  memtable: Memtable;
  /** The recorded flushes that D1 has not confirmed, oldest first. */
  waiting: PendingFlush[];
  /** The small segments before this time are merged, in milliseconds since the epoch. */
  mergedTo: number;
}

export const hasEntries = ({ memtable, waiting }: AccountLog): boolean => memtable.entries.size > 0 || waiting.length > 0;

/** The logs of all accounts of a log writer. `wal` holds on disk what this object holds in memory. */
export class AccountLogs {
  readonly wal: WriteAheadLog;
  readonly accounts = new Map<string, AccountLog>();
  readonly #batches = new KnownBatches();
  /** The ids of entries that reports have added, the oldest first. Their batches have not arrived yet. */
  readonly #early = new Set<string>();
  /** The accounts that were erased. Their late entries are rejected. */
  readonly #erased: Set<string>;
  readonly #strings = new SharedStrings();
  readonly #routes: RouteNames;

  /** Reads everything that the log writer has acknowledged and that D1 has not confirmed. */
  constructor(storage: DurableObjectStorage) {
    this.wal = new WriteAheadLog(storage);
    this.#routes = new RouteNames(storage.sql);
    this.#erased = new Set(this.wal.erased(Date.now()));
    for (const state of this.wal.states()) this.of(state.accountId).state = state;
    for (const { accountId, until } of this.wal.merged()) this.of(accountId).mergedTo = until;
    for (const flush of this.wal.flushes.all()) this.of(flush.accountId).waiting.push(flush);
    const { entries, completions, isolates, early } = this.wal.readAll();
    for (const entry of entries) this.#add(entry);
    for (const { accountId, id, ...completion } of completions) this.of(accountId).memtable.complete(id, completion);
    for (const isolate of isolates) this.#batches.add(isolate);
    for (const id of early) this.#rememberEarly(id);
  }

  /** The memory of all memtables, in bytes. */
  get memtableBytes(): number {
    return [...this.accounts.values()].reduce((sum, { memtable }) => sum + memtable.bytes, 0);
  }

  /** The log of an account. Accounts without entries have an empty log. */
  of(accountId: string): AccountLog {
    const state = { accountId, flush: 0, highestId: "", startId: "" };
    return getOrInsert(this.accounts, accountId, () => ({ state, memtable: new Memtable(), waiting: [], mergedTo: 0 }));
  }

  /**
   * Adds the entries of batches, on disk and in memory. Leaves out batches that are known, and entries that the memtable or a report has added already.
   * Returns the batches that were not known as `added`. Of their entries, `full` were dropped because the disk is full, `unfit` cannot be stored, for example
   * because a number is missing, and `tooOld` are older than their account's log.
   */
  append(batches: readonly Batch[], now: number) {
    const added = this.#unknown(batches);
    const given = [...added].flatMap(({ entries }) => entries);
    const kept = this.withinShare(given, maxStoredBytes);
    const encodable = kept.filter(isEncodable);
    const recent = encodable.filter((entry) => this.#accepts(entry));
    const entries = recent.filter((entry) => !this.get(entry) && !this.#early.has(entry.id)).map((entry) => this.#withRoute(entry));
    const isolates = [...added].map(({ id: { isolate, sequence } }) => ({ isolate, at: now, ranges: [[sequence, sequence] as const] }));
    if (added.size > 0) this.wal.append({ entries, isolates });
    for (const entry of entries) this.#add(entry);
    for (const isolate of isolates) this.#batches.add(isolate);
    for (const { id } of recent) this.#early.delete(id);
    return { added, full: given.length - kept.length, unfit: kept.length - encodable.length, tooOld: encodable.length - recent.length };
  }

  /**
   * Returns the entries of the accounts that may take more of the disk. If the disk is nearly full, the accounts that hold the most lose their entries.
   * `maxBytes`: the maximum size of the disk.
   */
  withinShare(entries: readonly Entry[], maxBytes: number): readonly Entry[] {
    const free = maxBytes - this.wal.bytes;
    if (isWithinShare(this.wal.bytes, free)) return entries;
    const isWithin = (log: AccountLog) =>
      isWithinShare(
        log.waiting.reduce((sum, { bytes }) => sum + bytes, log.memtable.bytes),
        free,
      );
    const full = new Set([...this.accounts.values()].filter((log) => !isWithin(log)).map(({ state }) => state.accountId));
    return free > 0 ? entries.filter(({ accountId }) => !full.has(accountId)) : [];
  }

  /**
   * Completes open entries, on disk and in memory. Adds the entries that have not arrived yet. `flush`: the entries of reports that were flushed, by id. Returns
   * one outcome for each report.
   */
  report(given: readonly Report[], { flush, now }: { flush: ReadonlyMap<string, Entry>; now: number }): Reported[] {
    const isInTime = ({ entry }: Report) => timeOfId(entry.id) >= now - openMs;
    const isMissing = ({ entry }: Report) => !this.get(entry) && !flush.has(entry.id) && this.#accepts(entry) && isEncodable(entry);
    const missing = new Map(given.filter((report) => isInTime(report) && isMissing(report)).map(({ entry }) => [entry.id, entry]));
    const entries = this.withinShare([...missing.values()], maxStoredBytes).map((entry) => this.#withRoute(entry));
    const early = entries.map(({ id }) => id);
    const added = new Set(early);
    const reports = given.map((report) =>
      report.route === undefined ? report : { ...report, route: this.#routes.named(report.entry.accountId, report.route) },
    );
    const due = new Set(reports.filter((report) => isInTime(report) && (this.get(report.entry) || added.has(report.entry.id))));
    const completed = [...due].filter(({ status }) => status !== null);
    const completions = completed.map(({ entry: { accountId, id }, ...completion }) => ({ ...completion, accountId, id }));
    if (due.size > 0) this.wal.append({ entries, completions, early });
    for (const entry of entries) this.#add(entry);
    for (const id of early) this.#rememberEarly(id);
    return reports.map((report) => {
      const { entry } = report;
      if (due.has(report)) return this.of(entry.accountId).memtable.complete(entry.id, report);
      const late = this.get(entry) ?? flush.get(entry.id);
      return late ? reportedOn(late, report) : "closed";
    });
  }

  /** Returns an entry that is in no flush. */
  get({ accountId, id }: { accountId: string; id: string }): Entry | undefined {
    return this.of(accountId).memtable.entries.get(id);
  }

  /** What was served in all requests that the log has, and in those that were flushed. */
  served(): RequestCounters {
    return this.wal.counters.served([...this.accounts.values()].flatMap(({ memtable }) => [...memtable.entries.values()]));
  }

  /** Everything that is in no flush, for the write-ahead log. */
  acknowledged(): Acknowledged {
    const entries = [...this.accounts.values()].flatMap(({ memtable }) => [...memtable.entries.values()]);
    return { entries, completions: [], isolates: this.#batches.all, early: [...this.#early] };
  }

  /** Frees flushes that D1 has stored. */
  removeFlushes(flushes: readonly PendingFlush[]): void {
    this.wal.removeFlushes(flushes);
    for (const { accountId, row } of flushes) {
      const log = this.of(accountId);
      log.waiting = log.waiting.filter((waiting) => waiting.row !== row);
    }
  }

  /** Raises the start of an account's log. Older entries are rejected from now on. */
  raiseStart(accountId: string, startId: string): void {
    const log = this.of(accountId);
    if (startId <= log.state.startId) return;
    log.state = { ...log.state, startId };
    this.wal.storeState(log.state);
    for (const id of log.memtable.entries.keys()) if (id < startId) log.memtable.remove(id);
  }

  /** Raises the numbers of an account's pending flushes, so that the oldest flush `first` has the number after `last`, which is the last flush in D1. */
  renumberAfter(first: PendingFlush, last: number): void {
    const log = this.of(first.accountId);
    const by = last + 1 - first.number;
    // If D1 has stored the flush in the meantime, nothing has to change.
    if (by <= 0 || log.waiting[0]?.id !== first.id) return;
    log.state = { ...log.state, flush: log.state.flush + by };
    log.waiting = log.waiting.map((waiting) => ({ ...waiting, number: waiting.number + by }));
    this.wal.renumberFlushes(log.state, by);
  }

  /** Removes everything of an account, and rejects its entries for 30 days. Returns the number of removed entries. */
  erase(accountId: string, now: number): number {
    const { memtable, waiting } = this.of(accountId);
    const entries = [...memtable.entries.values()];
    const flush = waiting.flatMap(({ segments }) => segments).reduce((sum, segment) => sum + segment.entries, 0);
    this.accounts.delete(accountId);
    this.#erased.add(accountId);
    this.#routes.erase(accountId);
    this.wal.erase(accountId, now, this.acknowledged(), entries);
    return entries.length + flush;
  }

  #withRoute(entry: Entry): Entry {
    const route = this.#routes.named(entry.accountId, entry.route);
    return route === entry.route ? entry : { ...entry, route };
  }

  /** Returns the batches that are not known, each once. */
  #unknown(batches: readonly Batch[]): Set<Batch> {
    const byId = new Map(batches.map((batch) => [`${batch.id.isolate} ${batch.id.sequence}`, batch]));
    return new Set([...byId.values()].filter(({ id }) => !this.#batches.has(id)));
  }

  /** Returns whether an entry belongs to the log, because its account was not erased and keeps entries for as long. */
  #accepts({ accountId, id }: Entry): boolean {
    return !this.#erased.has(accountId) && id >= this.of(accountId).state.startId;
  }

  #add(entry: Entry): void {
    if (this.#accepts(entry)) this.of(entry.accountId).memtable.add(this.#strings.share(entry));
  }

  #rememberEarly(id: string): void {
    this.#early.add(id);
    for (const oldest of this.#early) {
      if (this.#early.size <= maxEarly) break;
      this.#early.delete(oldest);
    }
  }
}
