import { timeOfId } from "../../lib/ids.ts";
import { type Entry, openMs } from "../entry.ts";
import { isEncodable } from "../segments/codec.ts";
import { bytesOf, Head, isOpen, type Report, type Reported, reportedOn } from "./head.ts";
import { RouteNames } from "./route-names.ts";
import type { Served } from "./served.ts";
import { SharedStrings } from "./shared-strings.ts";
import { type Acknowledged, type LogState, type WaitingCut, WriteAheadLog } from "./write-ahead-log.ts";

/** The maximum number of reports that wait for their entries. */
const maxEarlyReports = 5000;

/**
 * Returns whether an account may hold more of something that all accounts share. An account that holds four times as much as is free gets no more: one
 * account alone can take four fifths, and an account that holds little always has room.
 */
export const isWithinShare = (own: number, free: number): boolean => own < 4 * free;

/** The log of one account, as far as it is in its log writer. */
export interface AccountLog {
  state: LogState;
  head: Head;
  /**
   * Late entries: their ids are not above the highest id that was ever cut. They may already be in a cut or in D1, because isolates send entries
   * again. They are not shown until they are checked. After a restart, the entries that a cut has left are checked again.
   */
  unchecked: Map<string, Entry>;
  /** The recorded cuts that D1 has not confirmed, oldest first. */
  waiting: WaitingCut[];
  /** The small segments before this time are merged, in milliseconds since the epoch. */
  mergedTo: number;
}

/**
 * The outcome of `append`. `tooOld`: the number of entries that are older than their account's log. `unfit`: the number of entries that cannot be stored,
 * for example because a number is missing.
 */
export interface Appended {
  tooOld: number;
  unfit: number;
}

/** The logs of all accounts of a log writer. `wal` holds on disk what this object holds in memory. */
export class AccountLogs {
  readonly wal: WriteAheadLog;
  readonly accounts = new Map<string, AccountLog>();
  /** Reports that arrived before their entry, by the id of the entry. */
  readonly #early = new Map<string, Report>();
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
    for (const cut of this.wal.waitingCuts()) this.of(cut.accountId).waiting.push(cut);
    const { entries, reports } = this.wal.readAll();
    for (const entry of entries) this.#add(entry);
    for (const report of reports) this.#report(report);
  }

  /** The memory of all late entries that are not checked yet, in bytes. */
  get uncheckedBytes(): number {
    let bytes = 0;
    for (const { unchecked } of this.accounts.values()) for (const entry of unchecked.values()) bytes += bytesOf(entry);
    return bytes;
  }

  /** The memory of all heads, in bytes. */
  get headBytes(): number {
    return [...this.accounts.values()].reduce((sum, { head }) => sum + head.bytes, 0);
  }

  /** The log of an account. Accounts without entries have an empty log. */
  of(accountId: string): AccountLog {
    const known = this.accounts.get(accountId);
    if (known) return known;
    const state = { accountId, cut: 0, highestId: "", startId: "" };
    const made: AccountLog = { state, head: new Head(), unchecked: new Map(), waiting: [], mergedTo: 0 };
    this.accounts.set(accountId, made);
    return made;
  }

  /**
   * Adds entries, on disk and in memory. Entries with an id that the head already has are left out, because isolates send entries again if a call
   * fails.
   */
  append(entries: readonly Entry[]): Appended {
    const encodable = entries.filter(isEncodable);
    const recent = encodable.filter(({ accountId, id }) => !this.#erased.has(accountId) && id >= this.of(accountId).state.startId);
    const added = recent.filter((entry) => this.get(entry) === undefined).map((entry) => this.#withRoute(entry));
    if (added.length > 0) this.wal.append({ entries: added, reports: [] });
    for (const entry of added) this.#add(entry);
    return { tooOld: encodable.length - recent.length, unfit: entries.length - encodable.length };
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
        log.waiting.reduce((sum, { bytes }) => sum + bytes, log.head.bytes),
        free,
      );
    const full = new Set([...this.accounts.values()].filter((log) => !isWithin(log)).map(({ state }) => state.accountId));
    return free > 0 ? entries.filter(({ accountId }) => !full.has(accountId)) : [];
  }

  /** Completes open entries, on disk and in memory. A report that arrives before its entry waits for it. Returns one outcome for each report. */
  report(given: readonly Report[], now: number): Reported[] {
    this.#removeExpired(now);
    const reports = given.map((report) => (report.route === undefined ? report : this.#withRoute({ ...report, route: report.route })));
    const isTooLate = ({ id }: Report) => timeOfId(id) < now - openMs;
    const waiting = Map.groupBy(this.#early.values(), ({ accountId }) => accountId);
    let room = maxEarlyReports - this.#early.size;
    const mayWait = ({ accountId, id }: Report) =>
      !this.#erased.has(accountId) && (this.#early.has(id) || (isWithinShare(waiting.get(accountId)?.length ?? 0, room) && room-- > 0));
    const due = new Set(reports.filter((report) => !isTooLate(report) && (this.get(report) !== undefined || mayWait(report))));
    if (due.size > 0) this.wal.append({ entries: [], reports: [...due] });
    return reports.map((report) => {
      if (due.has(report)) return this.#report(report);
      const entry = this.get(report);
      return entry ? reportedOn(entry, report) : "refused";
    });
  }

  /** Returns an entry that is in no cut. */
  get({ accountId, id }: { accountId: string; id: string }): Entry | undefined {
    const { head, unchecked } = this.of(accountId);
    return head.entries.get(id) ?? unchecked.get(id);
  }

  /** What was served in all requests that the log has, and in those that were cut. */
  served(): Served {
    return this.wal.counters.served([...this.accounts.values()].flatMap(({ head }) => [...head.entries.values()]));
  }

  /** Everything that is in no cut, for the write-ahead log. Reports that have waited for too long are left out. */
  acknowledged(now: number): Acknowledged {
    this.#removeExpired(now);
    const entries = [...this.accounts.values()].flatMap(({ head, unchecked }) => [...head.entries.values(), ...unchecked.values()]);
    return { entries, reports: [...this.#early.values()] };
  }

  /** Frees cuts that D1 has stored. */
  removeCuts(cuts: readonly WaitingCut[]): void {
    this.wal.removeCuts(cuts);
    for (const { accountId, row } of cuts) {
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
    for (const id of log.head.entries.keys()) if (id < startId) log.head.remove(id);
    for (const id of log.unchecked.keys()) if (id < startId) log.unchecked.delete(id);
  }

  /** Raises the numbers of an account's waiting cuts, so that the oldest cut `first` has the number after `last`, which is the last cut in D1. */
  renumberAfter(first: WaitingCut, last: number): void {
    const log = this.of(first.accountId);
    const by = last + 1 - first.number;
    // If D1 has stored the cut in the meantime, nothing has to change.
    if (by <= 0 || log.waiting[0]?.id !== first.id) return;
    log.state = { ...log.state, cut: log.state.cut + by };
    log.waiting = log.waiting.map((waiting) => ({ ...waiting, number: waiting.number + by }));
    this.wal.renumberCuts(log.state, by);
  }

  /** Removes everything of an account, and rejects its entries for 30 days. Returns the number of removed entries. */
  erase(accountId: string, now: number): number {
    const { head, unchecked, waiting } = this.of(accountId);
    const served = [...head.entries.values()];
    const entries = head.entries.size + unchecked.size;
    const cut = waiting.flatMap(({ segments }) => segments).reduce((sum, segment) => sum + segment.entries, 0);
    this.accounts.delete(accountId);
    for (const [id, report] of this.#early) if (report.accountId === accountId) this.#early.delete(id);
    this.#erased.add(accountId);
    this.#routes.erase(accountId);
    this.wal.erase(accountId, now, this.acknowledged(now), served);
    return entries + cut;
  }

  #withRoute<Item extends { accountId: string; route: string }>(item: Item): Item {
    const route = this.#routes.named(item.accountId, item.route);
    return route === item.route ? item : { ...item, route };
  }

  #add(entry: Entry): void {
    const { state, head, unchecked } = this.of(entry.accountId);
    const early = this.#early.get(entry.id);
    if (entry.id < state.startId || this.#erased.has(entry.accountId)) return;
    if (entry.id <= state.highestId) unchecked.set(entry.id, this.#strings.share(entry));
    else head.add(this.#strings.share(entry));
    if (early) this.#report(early);
  }

  /** Completes an open entry. If the entry has not arrived yet, the report waits. */
  #report(report: Report): Reported {
    const { accountId, id, status, durationMs, route } = report;
    const { head, unchecked } = this.of(accountId);
    const late = unchecked.get(id);
    const completed = late && isOpen(late) ? { ...late, status, durationMs, route: route ?? late.route } : late;
    if (completed) unchecked.set(id, completed);
    const outcome = completed ? reportedOn(completed, report) : head.complete(report);
    if (outcome !== "unknown") {
      this.#early.delete(id);
      return outcome;
    }
    // The first report of an entry wins.
    if (!this.#early.has(id)) this.#early.set(id, report);
    return "unknown";
  }

  /** Removes reports that have waited too long for their entries. */
  #removeExpired(now: number): void {
    for (const [id] of this.#early) if (timeOfId(id) < now - openMs) this.#early.delete(id);
  }
}
