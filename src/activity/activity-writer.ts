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

/** The time that entries wait for a full batch, in milliseconds. D1 executes about 300 batches a second, regardless of their size. */
const paceMs = 100;
/**
 * The time to wait for D1's confirmation, in milliseconds. If D1 does not confirm in time, the entries go to the journal and the sender's call
 * returns.
 */
const confirmedWithinMs = 400;
const firstRetryMs = secondMs;
const maxRetryMs = 30 * secondMs;
/** The maximum number of entries that wait in one log writer. If the log writer is full, the sender keeps its entries or uses the next log writer. */
const maxWaiting = 20_000;
/** The interval at which the size of a full database is measured again, in milliseconds. */
const fullProbeMs = minuteMs;
/** The maximum size of the journal: about two million entries. If the journal is full, new entries are dropped, counted and reported. */
const maxJournalBytes = 1e9;
/**
 * The delay between the end of a five-minute bucket and its roll-up, in milliseconds. Each log writer starts `nextWriterMs` after the previous log
 * writer.
 */
const rollUpDelayMs = 5 * secondMs;
const nextWriterMs = 3 * secondMs;
/** The time after which an alarm stops its work, in milliseconds. */
const maxAlarmMs = minuteMs;
const askTimeoutMs = 5 * secondMs;

/** The status of a log writer, for `/health` and for operators. */
export interface WriterStatus {
  /** The number of entries that D1 has not confirmed yet. */
  journalled: number;
  /** The number of lost entries since this Durable Object started. An entry is lost if no storage accepts it. */
  dropped: number;
  /** Whether the database of this log writer is full. */
  isFull: boolean;
}

/** A batch of entries from one isolate. `stored` resolves the isolate's call, and `failed` rejects it. */
interface Waiting {
  entries: readonly Entry[];
  stored: () => void;
  failed: (error: unknown) => void;
}

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/**
 * Writes the request log of some accounts to their activity database and rolls it up into usage. Isolates do not write to D1 themselves, because
 * their batches would be too small. The small batches of seventeen busy isolates would use all of D1's time. If an isolate crashes, the entries that
 * it has not sent are lost: about 200 ms of requests. Isolates send unacknowledged entries again. The name of a log writer is the binding of its
 * database and a number, for example `ACTIVITY_0/3`.
 */
export class ActivityWriter extends DurableObject<Env> {
  readonly #storage: DurableObjectStorage;
  readonly #journal: EntryJournal;
  readonly #store: string;
  readonly #number: number;
  #waiting: Waiting[] = [];
  #isWriting = false;
  #lastBatchAt = 0;
  /** A write that D1 did not confirm in time but may still commit. */
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
   * Stores entries. Resolves when D1 or the journal has stored the entries. Also resolves if the journal is full and the entries were dropped. Throws
   * if too many entries are waiting. `dropped`: the number of entries that the sender has dropped since its last call.
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

  /** Rolls up the dirty buckets of an account before its usage is read. Does nothing if the account was rolled up a moment ago. */
  refresh(accountId: string): Promise<void> {
    return this.#refreshes.refresh(accountId);
  }

  /** Sets the alarm to now, because due work is waiting. */
  wake(): void {
    this.#setAlarmBy(Date.now());
  }

  /** Removes an account's entries from the journal. Returns how many entries were removed. */
  async erase(accountId: string): Promise<number> {
    // Wait until the unconfirmed write has settled. If D1 commits the write, the caller then deletes the written entries from D1.
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
      // Set the next alarm before any step that can fail, and let no error escape. The platform gives up on an alarm after six failures.
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
    return `the writer ${this.#store}/${this.#number}`;
  }

  get #d1(): D1Database {
    return activityDatabase(this.env, this.#store);
  }

  /** Writes waiting entries, one batch after another, until none are left. */
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

  /** Takes the oldest waiting batches, with at most 500 entries in total. Always takes at least one batch. */
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
   * Writes entries to D1, or to the journal if D1 does not confirm them in time. While the journal has entries, all new entries go to the journal,
   * because the journal is written to D1 in full batches.
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

  /** Removes a batch from the journal if D1 confirms it late. */
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

  /** Adds entries to the journal. Returns the row of the batch, or null if the journal is full and the entries were dropped. */
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

  /** Writes the journal to D1 in full batches. Throws if D1 does not accept a batch. Checks the size of a full database again after a minute. */
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
   * Rolls up the five-minute buckets that have ended. Stops when new entries reach the journal, because writing them to D1 has priority. If the
   * database is full, the roll-up continues, because D1 would not accept new entries.
   */
  async #rollUpClosed(endsAt: number): Promise<void> {
    const before = bucketStart(Date.now() - rollUpDelayMs);
    const again = await this.#rollUps.rollUp({ before, endsAt, isInterrupted: () => !this.#isFull && this.#journal.count > 0 });
    if (again !== null) this.#setAlarmBy(again);
  }

  /** Returns the delay before the next retry, in milliseconds. The jitter keeps log writers that failed together from retrying together. */
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
