import { DurableObject } from "cloudflare:workers";
import { connect, type Db } from "../../db/client.ts";
import type { OpenRollups } from "../../usage/log-context.ts";
import type { LastUses } from "../../usage/store-totals.ts";
import type { Batch } from "../batch.ts";
import { activityDatabase } from "../databases.ts";
import type { Decisions } from "../decisions.ts";
import type { Retention } from "../retention.ts";
import { isEncodable } from "../segments/codec.ts";
import type { Found, Query } from "../segments/scan.ts";
import { type AccountLog, AccountLogs, hasEntries, maxStoredBytes } from "./account-logs.ts";
import type { Counters, Lost } from "./counters.ts";
import { deleteOldSegments } from "./delete-old-segments.ts";
import { flushAccount, flushEveryMs, flushLargest, nextFlushAt } from "./flush.ts";
import { GroupCommit, type Sent } from "./group-commit.ts";
import { Hints } from "./hints.ts";
import type { Report, Reported } from "./memtable.ts";
import { readOpenRollups, readOpenUses, readUsedKeys, searchMemtable, type UsedKey } from "./read-memtable.ts";
import { reportAll } from "./report.ts";
import type { Failures, RequestCounters, Versions } from "./request-counters.ts";
import { WriterAlarm } from "./writer-alarm.ts";

/** The status that a log writer reports to `/health` and to operators. */
export interface WriterStatus {
  /** The number of accounts that have entries or flushes in this log writer. */
  accounts: number;
  /** The number of entries that were added in the last minutes. New accounts go to the log writer with the fewest. */
  recentEntries: number;
  /** The number of entries that are in no flush. */
  memtableEntries: number;
  /** The time of the oldest flush that D1 has not confirmed, in milliseconds since the epoch. Null if D1 has confirmed all flushes. */
  oldestWaitingAt: number | null;
  /** The number of entries that wait for another log writer. */
  hinted: number;
  /** The entries and reports that are not in the log. */
  lost: Lost;
  decisions: Decisions;
  /** The number of rows of the write-ahead log that this release cannot read. */
  unreadable: number;
  isFull: boolean;
}

/** The requests that a log writer has counted, for `/metrics`. */
export interface WriterCounts {
  served: RequestCounters;
  versions: Versions;
  refusedOptions: number;
  decisions: Decisions;
}

/**
 * Owns the request log of some accounts. Collects entries, commits them to its own disk, and moves them to its activity database in segments.
 * Isolates do not write to D1 themselves, because each of them would write small batches. The name of a log writer consists of the binding of its
 * database and a number, for example `ACTIVITY_0/3`.
 */
export class ActivityWriter extends DurableObject<Env> {
  readonly #name: string;
  readonly #logs: AccountLogs;
  readonly #hints: Hints;
  readonly #alarm: WriterAlarm;
  readonly #commits = new GroupCommit((sent) => this.#append(sent));
  #recent = { entries: 0, before: 0, since: Date.now() };

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#name = ctx.id.name ?? "";
    this.#logs = new AccountLogs(ctx.storage);
    this.#hints = new Hints(ctx.storage.sql);
    this.#alarm = new WriterAlarm({ ctx, env: () => this.env, name: this.#name, logs: this.#logs, hints: this.#hints });
    ctx.blockConcurrencyWhile(() => this.#alarm.start());
  }

  // Append

  /**
   * Adds the entries of a batch. Resolves when they are on disk, or when they were dropped because the disk is full. A batch that was added before is not
   * added again. Throws if too many entries wait already. `version` is the id of the sender's version.
   */
  write(batch: Batch, version = ""): Promise<void> {
    return this.#commits.add({ batch, version });
  }

  /** Completes open entries, and adds those that have not arrived yet. Returns one outcome for each report. */
  async report(reports: readonly Report[]): Promise<Reported[]> {
    this.#commits.commit();
    const outcomes = await reportAll({ logs: this.#logs, db: this.#db, now: Date.now() }, reports);
    const closedReports = outcomes.filter((outcome) => outcome === "closed").length;
    if (closedReports > 0) this.#counters.addLost({ closedReports }, Date.now());
    this.#flushIfFull();
    return outcomes;
  }

  /** Keeps a batch for the log writer that owns its entries, until it can be reached. Throws if the disk is half full. */
  keepFor(owner: number, batch: Batch): void {
    if (this.#logs.wal.bytes > maxStoredBytes / 2) throw new Error(`the disk of ${this.#name} is full`);
    const entries = batch.entries.filter(isEncodable);
    this.#hints.add(owner, { ...batch, entries, dropped: batch.dropped + batch.entries.length - entries.length });
    this.#alarm.retry();
  }

  #append(sent: readonly Sent[]): void {
    const now = Date.now();
    const batches = sent.map(({ batch }) => batch);
    const { added, full, unfit, tooOld } = this.#logs.append(batches, now);
    for (const { batch, version } of sent) {
      if (!added.has(batch)) continue;
      if (version !== "") this.#counters.addVersion(version, batch.entries, now);
      if (batch.decisions) this.#counters.addDecisions(batch.decisions);
      if (batch.dropped > 0) this.#drop(batch.dropped, "by an isolate whose log writers could not be reached");
      this.#count(batch.entries.length);
    }
    if (full > 0) this.#drop(full, `because the disk of ${this.#name} is full`);
    if (unfit > 0) this.#drop(unfit, `because ${this.#name} cannot store them`);
    if (tooOld > 0) {
      console.error(`${tooOld} entries are older than their account's log and were rejected by ${this.#name}`);
      this.#counters.addLost({ tooOld }, now);
    }
    this.#flushIfFull();
  }

  /** Flushes the largest accounts if the memtables need too much memory. Sets the alarm for the next flush. */
  #flushIfFull(): void {
    const flushes = flushLargest(this.#logs, Date.now());
    this.#alarm.setBy(flushes > 0 ? Date.now() : nextFlushAt(this.#name, Date.now()));
  }

  // Flush

  override alarm(): Promise<void> {
    return this.#alarm.run();
  }

  // Read

  /** Returns the rollups of an account that D1 may not have yet. */
  openRollups(accountId: string): Promise<OpenRollups> {
    return this.#read(accountId, (log) => readOpenRollups(this.#logs, log));
  }

  /** Returns the rollups of each of these accounts that D1 may not have yet. Accounts without such rollups are left out. */
  openRollupsOf(accountIds: readonly string[]): Map<string, OpenRollups> {
    this.#commits.commit();
    const logs = accountIds.map((id) => this.#logs.accounts.get(id)).filter((log) => log !== undefined);
    return new Map(logs.filter(hasEntries).map((log) => [log.state.accountId, readOpenRollups(this.#logs, log)]));
  }

  /** Returns keys that were used in requests that D1 may not have yet, sorted by account and key, after the key `after`. */
  usedKeys(after: UsedKey, limit: number): UsedKey[] {
    this.#commits.commit();
    return readUsedKeys(this.#logs, after, limit);
  }

  /** Returns the latest admitted entry of each key of an account that D1 may not have yet. */
  lastUses(accountId: string): Promise<LastUses> {
    return this.#read(accountId, (log) => readOpenUses(this.#logs, log));
  }

  /** Searches the entries of an account that D1 may not have yet. */
  search(accountId: string, query: Query): Promise<Found> {
    return this.#read(accountId, (log) => searchMemtable(this.#logs, log, query));
  }

  /** Reads after a commit. Everything that a reader sees is therefore on disk. */
  async #read<Result>(accountId: string, read: (log: AccountLog) => Result | Promise<Result>): Promise<Result> {
    this.#commits.commit();
    return read(this.#logs.of(accountId));
  }

  // Commands

  /** Stores everything that the log writer has of an account in D1, except entries whose responses can still be reported. */
  async flush(accountId: string): Promise<void> {
    this.#commits.commit();
    const log = this.#logs.of(accountId);
    flushAccount(this.#logs, log, Date.now());
    // The flushes of other accounts may be stuck.
    if (log.waiting.length === 0) return;
    await this.#alarm.storeWaiting();
    if (log.waiting.length > 0) throw new Error(`the flushes of ${accountId} could not be stored`);
  }

  /** Deletes the segments whose retention has ended. Returns whether there may be more. */
  async deleteOld(retentions: readonly Retention[], now: number): Promise<boolean> {
    return deleteOldSegments({ db: this.#db, logs: this.#logs, now }, retentions);
  }

  /** Removes everything that the log writer has of an account. Returns the number of removed entries. */
  erase(accountId: string): number {
    this.#commits.commit();
    return this.#logs.erase(accountId, Date.now()) + this.#hints.erase(accountId);
  }

  /** Sets the alarm again if it is missing or late. The platform gives an alarm up after several failures. */
  wake(): void {
    this.#alarm.wake();
  }

  status(): WriterStatus {
    this.#counters.store(Date.now());
    const logs = [...this.#logs.accounts.values()];
    const oldest = logs.flatMap(({ waiting: [flush] }) => (flush ? [flush.at] : []));
    return {
      accounts: logs.filter(hasEntries).length,
      recentEntries: this.#recent.entries + this.#recent.before,
      memtableEntries: logs.reduce((sum, { memtable }) => sum + memtable.entries.size, 0),
      oldestWaitingAt: oldest.length === 0 ? null : Math.min(...oldest),
      hinted: this.#hints.entries,
      lost: this.#counters.lost,
      decisions: this.#counters.decisions,
      unreadable: this.#logs.wal.unreadable,
      isFull: this.#alarm.isFull,
    };
  }

  /** Returns the counters of requests. They never decrease. */
  counts(): WriterCounts {
    this.#commits.commit();
    this.#counters.store(Date.now());
    const { versions, refusedOptions, decisions } = this.#counters;
    return { served: this.#logs.served(), versions, refusedOptions, decisions };
  }

  /** Counts requests that are in no log. `version` is the id of the sender's version. */
  countFailures(failures: readonly Failures[], version: string): void {
    this.#counters.addFailures(failures, version, Date.now());
  }

  get #counters(): Counters {
    return this.#logs.wal.counters;
  }

  get #db(): Db {
    return connect(activityDatabase(this.env, this.#name));
  }

  #drop(count: number, why: string): void {
    this.#counters.addLost({ dropped: count }, Date.now());
    console.error(`${count} activity entries were dropped ${why}`);
  }

  /** Counts the entries of the last five to ten minutes. */
  #count(entries: number): void {
    if (Date.now() - this.#recent.since > flushEveryMs) this.#recent = { entries: 0, before: this.#recent.entries, since: Date.now() };
    this.#recent.entries += entries;
  }
}
