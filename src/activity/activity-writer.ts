import { DurableObject } from "cloudflare:workers";
import { fullBytes } from "../db/database-sizes.ts";
import { messagesOf } from "../db/failures.ts";
import { bucketMs, bucketStart, minuteMs, secondMs } from "../time/clock.ts";
import { withDeadline } from "../time/deadline.ts";
import { RefreshThrottle } from "../usage/refresh-throttle.ts";
import { RollUpRunner } from "../usage/roll-up-runner.ts";
import { activityDatabase } from "./databases.ts";
import { type Entry, entriesAtOnce } from "./entry.ts";
import { EntryJournal } from "./entry-journal.ts";
import { writeEntries } from "./write-entries.ts";

/**
 * The maximum time that entries wait until a batch is full, in milliseconds. D1 executes about 300 batches a second, regardless of the
 * batch size.
 */
const paceMs = 100;
/**
 * The maximum time to wait until D1 confirms a batch, in milliseconds. After this time, the log writer adds the entries to the journal, and
 * the sender's call returns.
 */
const confirmedWithinMs = 400;
const firstRetryMs = secondMs;
const maxRetryMs = 30 * secondMs;
/**
 * The maximum number of entries that wait in one log writer. If a log writer has reached this maximum, the sender keeps its entries or uses
 * the next log writer.
 */
const maxWaiting = 20_000;
/** If a database is full, its size is measured again after this time, in milliseconds. */
const fullProbeMs = minuteMs;
/**
 * The maximum size of the journal in bytes. This is about two million entries. If the journal is full, the log writer drops new entries and
 * reports their number.
 */
const maxJournalBytes = 1e9;
/**
 * The delay between the end of a five-minute bucket and its roll-up, in milliseconds. Log writer 1 waits `nextWriterMs` longer
 * than log writer 0, log writer 2 waits `nextWriterMs` longer than log writer 1, and so on.
 */
const rollUpDelayMs = 5 * secondMs;
const nextWriterMs = 3 * secondMs;
/** The maximum time that one alarm works, in milliseconds. */
const maxAlarmMs = minuteMs;
const askTimeoutMs = 5 * secondMs;

/** The status that a log writer reports to `/health` and to operators. */
export interface WriterStatus {
  /** The number of entries in the journal. D1 has not confirmed these entries yet. */
  journalled: number;
  /** The number of entries that were lost since this Durable Object started. If no storage accepts an entry, the entry is lost. */
  dropped: number;
  /** Whether the database of this log writer is full. */
  isFull: boolean;
}

/** A batch of entries from one isolate. `stored` resolves the promise of the isolate's call, and `failed` rejects this promise. */
interface Waiting {
  entries: readonly Entry[];
  stored: () => void;
  failed: (error: unknown) => void;
}

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/**
 * Writes the request log of some accounts to their activity database. Also rolls up this log into usage figures. Isolates do not write to
 * D1 themselves, because their batches would be too small. The small batches of seventeen busy isolates would use all of D1's time. If an
 * isolate crashes, it loses the entries of about 200 ms that it has not sent yet. If a log writer does not acknowledge entries, the isolate
 * sends these entries again. The name of a log writer consists of the binding of its database and a number, for example `ACTIVITY_0/3`.
 */
export class ActivityWriter extends DurableObject<Env> {
  readonly #storage: DurableObjectStorage;
  readonly #journal: EntryJournal;
  readonly #store: string;
  readonly #number: number;
  #waiting: Waiting[] = [];
  #isWriting = false;
  #lastBatchAt = 0;
  /** The write that D1 has not confirmed in time. D1 may still commit this write. */
  #inDoubt: Promise<void> | null = null;
  #isFull = false;
  #measuredAt = 0;
  #dropped = 0;
  #retryMs = firstRetryMs;
  #alarmAt: number | null = null;
  readonly #rollUps: RollUpRunner;
  readonly #refreshes: RefreshThrottle;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#storage = ctx.storage;
    this.#journal = new EntryJournal(ctx.storage.sql);
    const [store = "", number] = (ctx.id.name ?? "").split("/");
    [this.#store, this.#number] = [store, Number(number)];
    this.#rollUps = new RollUpRunner(() => this.#d1, this.#number);
    this.#refreshes = new RefreshThrottle(() => this.#d1);
    ctx.blockConcurrencyWhile(async () => {
      this.#alarmAt = await this.#storage.getAlarm();
      if (this.#journal.count > 0) this.#setAlarmBy(Date.now() + firstRetryMs);
    });
  }

  /**
   * Stores entries. Resolves when D1 or the journal has stored the entries. Also resolves if the journal is full and the entries were
   * dropped. Throws if too many entries are already waiting. `dropped` is the number of entries that the sender has dropped since its last
   * call.
   */
  write(entries: readonly Entry[], dropped = 0): Promise<void> {
    if (dropped > 0) this.#drop(dropped, "by an isolate whose writers could not be reached");
    const waiting = this.#waiting.reduce((sum, each) => sum + each.entries.length, 0);
    if (waiting + entries.length > maxWaiting) throw new Error(`${waiting} entries wait for ${this.#name} already`);
    return new Promise((stored, failed) => {
      this.#waiting.push({ entries, stored, failed });
      if (!this.#isWriting) this.ctx.waitUntil(this.#writeWaiting());
    });
  }

  /**
   * Rolls up the dirty buckets of an account. Callers do this before they read the usage of the account. Does nothing if a roll-up of the
   * account has just run.
   */
  refresh(accountId: string): Promise<void> {
    return this.#refreshes.refresh(accountId);
  }

  /** Sets the alarm to the current time. Callers do this when due work is waiting. */
  wake(): void {
    this.#setAlarmBy(Date.now());
  }

  /** Removes an account's entries from the journal. Returns the number of removed entries. */
  async erase(accountId: string): Promise<number> {
    // Wait until D1 has committed or rejected the unconfirmed write. If D1 commits the write, the caller deletes the written entries from
    // D1 afterwards.
    await this.#inDoubt;
    return this.#journal.erase(accountId);
  }

  status(): WriterStatus {
    return { journalled: this.#journal.count, dropped: this.#dropped, isFull: this.#isFull };
  }

  override async alarm(): Promise<void> {
    this.#alarmAt = null;
    const endsAt = Date.now() + maxAlarmMs;
    try {
      // Set the next alarm before any step that can fail, and catch every error. After six failures, the platform does not run the alarm
      // again.
      if (this.#journal.count > 0) this.#setAlarmBy(Date.now() + maxAlarmMs + this.#retryMs);
      await this.#drain(endsAt);
      await this.#rollUpClosed(endsAt);
      this.#retryMs = firstRetryMs;
    } catch (error) {
      console.error(`an alarm of ${this.#name} failed, with ${this.#journal.count} entries kept:`, messagesOf(error));
      this.#setAlarmBy(Date.now() + this.#backOff());
      this.#retryMs = Math.min(2 * this.#retryMs, maxRetryMs);
    }
  }

  get #name(): string {
    return `the log writer ${this.#store}/${this.#number}`;
  }

  get #d1(): D1Database {
    return activityDatabase(this.env, this.#store);
  }

  /** Writes one batch of waiting entries after another, until no entries are waiting. */
  async #writeWaiting(): Promise<void> {
    this.#isWriting = true;
    try {
      while (this.#waiting.length > 0) {
        await this.#pace();
        const batch = this.#takeBatch();
        try {
          await this.#storeBatch(batch.flatMap(({ entries }) => entries));
          for (const { stored } of batch) stored();
        } catch (error) {
          for (const { failed } of batch) failed(error);
        }
      }
    } finally {
      this.#isWriting = false;
    }
  }

  async #pace(): Promise<void> {
    for (;;) {
      const waitMs = this.#lastBatchAt + paceMs - Date.now();
      const waiting = this.#waiting.reduce((sum, each) => sum + each.entries.length, 0);
      if (waitMs <= 0 || waiting >= entriesAtOnce) break;
      await sleep(Math.min(waitMs, 20));
    }
    this.#lastBatchAt = Date.now();
  }

  /** Takes the oldest waiting batches, up to 500 entries in total. If the oldest batch alone has more entries, takes this batch only. */
  #takeBatch(): Waiting[] {
    const batch: Waiting[] = [];
    for (let sum = 0; this.#waiting[0] && (batch.length === 0 || sum + this.#waiting[0].entries.length <= entriesAtOnce); ) {
      const [first] = this.#waiting.splice(0, 1) as [Waiting];
      batch.push(first);
      sum += first.entries.length;
    }
    return batch;
  }

  /**
   * Writes entries to D1. If D1 does not confirm the entries in time, adds the entries to the journal. While the journal has entries, all
   * new entries go to the journal, because the journal is written to D1 in full batches.
   */
  async #storeBatch(entries: readonly Entry[]): Promise<void> {
    if (this.#journal.count > 0 || this.#isFull) return void this.#keep(entries);
    const written = this.#write(entries);
    try {
      await withDeadline(written, confirmedWithinMs, "D1's confirmation");
    } catch (error) {
      console.error(`${this.#name} keeps ${entries.length} entries that D1 has not confirmed:`, messagesOf(error));
      this.#inDoubt = this.#settle(written, this.#keep(entries));
    }
  }

  /** If D1 confirms a batch late, removes the batch from the journal. */
  async #settle(written: Promise<void>, row: number | null): Promise<void> {
    const isWritten = await written.then(
      () => true,
      () => false,
    );
    if (isWritten && row !== null) this.#journal.remove([row]);
    this.#inDoubt = null;
  }

  async #write(entries: readonly Entry[]): Promise<void> {
    const now = Date.now();
    const bytes = await writeEntries({ d1: this.#d1, writer: this.#number, now }, entries);
    this.#isFull = bytes >= fullBytes.activity;
    this.#setAlarmBy(bucketStart(now) + bucketMs + rollUpDelayMs + this.#number * nextWriterMs);
  }

  /**
   * Adds entries to the journal. Returns the journal's row for these entries. If the journal is full, drops the entries and returns null.
   */
  #keep(entries: readonly Entry[]): number | null {
    if (this.#journal.bytes > maxJournalBytes) {
      this.#drop(entries.length, `since ${this.#name} has kept as many as it may`);
      return null;
    }
    const row = this.#journal.add(entries);
    this.#setAlarmBy(Date.now() + (this.#isFull ? fullProbeMs : this.#backOff()));
    return row;
  }

  #drop(count: number, why: string): void {
    this.#dropped += count;
    console.error(`${count} activity entries were dropped ${why}`);
  }

  /**
   * Writes the journal to D1 in full batches. Throws if D1 does not accept a batch. If the database is full, checks its size again after a
   * minute.
   */
  async #drain(endsAt: number): Promise<void> {
    if (this.#isFull && (await this.#isStillFull())) {
      if (this.#journal.count > 0) this.#setAlarmBy(Date.now() + fullProbeMs);
      return;
    }
    while (this.#journal.count > 0) {
      await this.#inDoubt;
      if (Date.now() > endsAt) return this.#setAlarmBy(Date.now());
      const { rows, entries } = this.#journal.oldest(entriesAtOnce);
      await this.#write(entries);
      this.#journal.remove(rows);
      if (this.#isFull) return this.#setAlarmBy(Date.now() + fullProbeMs);
    }
  }

  async #isStillFull(): Promise<boolean> {
    if (Date.now() - this.#measuredAt < fullProbeMs) return true;
    this.#measuredAt = Date.now();
    const { meta } = await withDeadline(this.#d1.prepare("SELECT 1").run(), askTimeoutMs, "Measuring a database");
    this.#isFull = (meta.size_after ?? 0) >= fullBytes.activity;
    return this.#isFull;
  }

  /**
   * Rolls up the five-minute buckets that have ended. Stops when the journal receives new entries, because writing the journal to D1 has
   * priority. If the database is full, continues anyway, because D1 would not accept the new entries.
   */
  async #rollUpClosed(endsAt: number): Promise<void> {
    const before = bucketStart(Date.now() - rollUpDelayMs);
    const again = await this.#rollUps.rollUp({ before, endsAt, isInterrupted: () => !this.#isFull && this.#journal.count > 0 });
    if (again !== null) this.#setAlarmBy(again);
  }

  /**
   * Returns the delay before the next retry, in milliseconds. The delay varies randomly. Log writers that failed at the same time therefore
   * retry at different times.
   */
  #backOff(): number {
    return this.#retryMs * (0.5 + Math.random());
  }

  /** Sets the alarm of this Durable Object, unless an earlier alarm is already set. */
  #setAlarmBy(at: number): void {
    if (this.#alarmAt !== null && this.#alarmAt <= at) return;
    this.#alarmAt = at;
    this.ctx.waitUntil(this.#storage.setAlarm(at));
  }
}
