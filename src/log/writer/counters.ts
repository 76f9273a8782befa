import { secondMs } from "../../lib/time/clock.ts";
import { addDecisions, type Decisions, noDecisions } from "../decisions.ts";
import type { Entry } from "../entry.ts";
import {
  addAllCounters,
  addCounters,
  addVersion,
  type Failures,
  noRequests,
  type RequestCounters,
  type Versions,
} from "./request-counters.ts";

const table = "CREATE TABLE IF NOT EXISTS counters (only INTEGER PRIMARY KEY CHECK (only = 1), counts TEXT NOT NULL)";

/** The counts of versions and of lost entries are stored after this time, in milliseconds. Each time costs one written row. */
const storeEveryMs = 10 * secondMs;

/** Entries and reports that are not in the log. */
export interface Lost {
  /** The number of entries that were dropped, for example because the storage was full. */
  dropped: number;
  /** When an entry was last dropped, in milliseconds since the epoch. */
  droppedAt: number | null;
  /** The number of entries that were older than their account's log, and were therefore rejected. */
  tooOld: number;
  /** The number of reports that came too late, or that found too many waiting reports. */
  closedReports: number;
}

export const nothingLost: Lost = { dropped: 0, droppedAt: null, tooOld: 0, closedReports: 0 };

interface Counts {
  /** The requests of all entries that were ever flushed. */
  served: RequestCounters;
  versions: Versions;
  lost: Lost;
  /** The calls of forward auth whose options were not valid. */
  refusedOptions: number;
  decisions: Decisions;
}

const nothing = (): Counts => ({ served: noRequests(), versions: {}, lost: nothingLost, refusedOptions: 0, decisions: noDecisions() });

/**
 * The counters of one log writer. They never decrease, even if the object restarts, because readers see only counts that are on disk. A restart loses
 * at most the last ten seconds of the counts of versions. The counts of `served` are exact, because the entries that are not flushed yet are on disk.
 */
export class Counters {
  readonly #sql: SqlStorage;
  #stored: Counts;
  #versions: Versions;
  #lost: Lost;
  #decisions: Decisions;
  #storedAt = Date.now();

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec(table);
    const [row] = sql.exec<{ counts: string }>("SELECT counts FROM counters");
    this.#stored = row ? (JSON.parse(row.counts) as Counts) : nothing();
    this.#versions = this.#stored.versions;
    this.#lost = this.#stored.lost;
    this.#decisions = this.#stored.decisions;
  }

  /** What was served in all requests, with those whose entries are not flushed yet. */
  served(unflushed: Iterable<Entry>): RequestCounters {
    const sums = noRequests();
    addAllCounters(sums, this.#stored.served);
    for (const entry of unflushed) addCounters(sums, entry);
    return sums;
  }

  get versions(): Versions {
    return this.#stored.versions;
  }

  get lost(): Lost {
    return this.#stored.lost;
  }

  get decisions(): Decisions {
    return this.#stored.decisions;
  }

  get refusedOptions(): number {
    return this.#stored.refusedOptions;
  }

  addVersion(version: string, entries: readonly Entry[], now: number): void {
    this.#versions = addVersion(this.#versions, version, entries, now);
  }

  addDecisions(decisions: Decisions): void {
    this.#decisions = addDecisions(this.#decisions, decisions);
  }

  /** Counts requests that failed and have no entry. Costs one written row. A status below 500 is that of options of forward auth that were not valid. */
  addFailures(given: readonly Failures[], version: string, now: number): void {
    const served = this.served([]);
    const failures = given.filter(({ status }) => status >= 500);
    for (const failure of failures) addCounters(served, { ...failure, durationMs: null });
    if (version !== "") this.#versions = addVersion(this.#versions, version, failures, now);
    const refused = given.reduce((sum, { status, count }) => (status < 500 ? sum + count : sum), this.refusedOptions);
    this.#store(served, refused);
  }

  addLost(lost: Partial<Pick<Lost, "dropped" | "tooOld" | "closedReports">>, now: number): void {
    const { dropped = 0, tooOld = 0, closedReports = 0 } = lost;
    this.#lost = {
      dropped: this.#lost.dropped + dropped,
      droppedAt: dropped > 0 ? now : this.#lost.droppedAt,
      tooOld: this.#lost.tooOld + tooOld,
      closedReports: this.#lost.closedReports + closedReports,
    };
    try {
      this.#store(this.#stored.served);
    } catch {
      // The disk is full. The count is stored with the next counts.
    }
  }

  /** Stores the counts of entries that leave the memtables. Call it in the transaction that removes them from the write-ahead log. */
  addFlush(entries: Iterable<Entry>): void {
    this.#store(this.served(entries));
  }

  /** Stores what has changed, unless it was stored a moment ago. */
  store(now: number): void {
    const { versions, lost, decisions } = this.#stored;
    const isChanged = this.#versions !== versions || this.#lost !== lost || this.#decisions !== decisions;
    if (!isChanged || Math.abs(now - this.#storedAt) < storeEveryMs) return;
    this.#store(this.#stored.served);
    this.#storedAt = now;
  }

  #store(served: RequestCounters, refusedOptions = this.refusedOptions): void {
    const counts = { served, versions: this.#versions, lost: this.#lost, refusedOptions, decisions: this.#decisions };
    this.#sql.exec("INSERT OR REPLACE INTO counters (only, counts) VALUES (1, ?)", JSON.stringify(counts));
    this.#stored = counts;
  }
}
