import { DurableObject } from "cloudflare:workers";
import { fullBytes } from "../db/database-sizes.ts";
import { messagesOf } from "../db/failures.ts";
import { minuteMs, secondMs, sliceMs, sliceStart } from "../time/clock.ts";
import { withDeadline } from "../time/deadline.ts";
import { Refreshes } from "../usage/refreshes.ts";
import { SliceFolder } from "../usage/slice-folder.ts";
import { activityDatabase } from "./databases.ts";
import { type Entry, entriesAtOnce } from "./entry.ts";
import { EntryJournal } from "./entry-journal.ts";
import { writeEntries } from "./write-entries.ts";

/** How long entries wait for more, unless there is a full batch: D1 takes some 300 batches a second, of any size. */
const paceMs = 100;
/** After this time without a response of D1, entries are stored here and the call that sent them returns. */
const confirmedWithinMs = 400;
const firstRetryMs = secondMs;
const maxRetryMs = 30 * secondMs;
/** No more than this wait for a writer: the sender keeps the others, or uses the next writer. */
const maxWaiting = 20_000;
/** How often the size of a full database is looked at. */
const fullProbeMs = minuteMs;
/** Some two million entries. What comes on top of them is dropped, counted and reported. */
const maxJournalBytes = 1e9;
/** Slices are folded a little after their end, the writers one after the other. */
const foldDelayMs = 5 * secondMs;
const nextWriterMs = 3 * secondMs;
/** How long one alarm works. */
const maxAlarmMs = minuteMs;
const askTimeoutMs = 5 * secondMs;

/** What `/health` and the operator are told. */
export interface WriterStatus {
  /** Entries that D1 has not taken yet. */
  journalled: number;
  /** Entries that nobody could take, since this object was started. */
  dropped: number;
  /** Whether its database takes no more. */
  isFull: boolean;
}

/** A batch of an isolate, and who waits for it to be stored. */
interface Waiting {
  entries: readonly Entry[];
  stored: () => void;
  failed: (error: unknown) => void;
}

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/**
 * Writes the log of some accounts to their database, and folds it into usage. Isolates do not write to D1 themselves, since each would
 * write its own small batch: seventeen busy ones would fill its time. A crash costs what isolates had not sent yet, some 200 ms of requests: what was sent
 * and not answered they send again. Its name is the binding of the database and a number: `ACTIVITY_0/3`.
 */
export class ActivityWriter extends DurableObject<Env> {
  readonly #storage: DurableObjectStorage;
  readonly #journal: EntryJournal;
  readonly #store: string;
  readonly #number: number;
  #waiting: Waiting[] = [];
  #isWriting = false;
  #lastBatchAt = 0;
  /** A batch that D1 has not confirmed in time, and may yet. */
  #inDoubt: Promise<void> | null = null;
  #isFull = false;
  #measuredAt = 0;
  #dropped = 0;
  #retryMs = firstRetryMs;
  #alarmAt: number | null = null;
  readonly #folder: SliceFolder;
  readonly #refreshes: Refreshes;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#storage = ctx.storage;
    this.#journal = new EntryJournal(ctx.storage.sql);
    const [store = "", number] = (ctx.id.name ?? "").split("/");
    [this.#store, this.#number] = [store, Number(number)];
    this.#folder = new SliceFolder(() => this.#d1, this.#number);
    this.#refreshes = new Refreshes(() => this.#d1);
    ctx.blockConcurrencyWhile(async () => {
      this.#alarmAt = await this.#storage.getAlarm();
      if (this.#journal.count > 0) this.#setAlarmBy(Date.now() + firstRetryMs);
    });
  }

  /** Stores entries: returns when D1 has them, or when they are kept here until it does. `dropped`: how many the sender had to drop since it last came. */
  write(entries: readonly Entry[], dropped = 0): Promise<void> {
    if (dropped > 0) this.#drop(dropped, "by an isolate whose writers could not be reached");
    const waiting = this.#waiting.reduce((sum, each) => sum + each.entries.length, 0);
    if (waiting + entries.length > maxWaiting) throw new Error(`${waiting} entries wait for ${this.#name} already`);
    return new Promise((stored, failed) => {
      this.#waiting.push({ entries, stored, failed });
      if (!this.#isWriting) this.ctx.waitUntil(this.#writeWaiting());
    });
  }

  /** Brings the usage of an account up to its log for who reads it, unless that was done a moment ago. */
  refresh(accountId: string): Promise<void> {
    return this.#refreshes.refresh(accountId);
  }

  /** Sets the alarm to now, because due work waits for it. */
  wake(): void {
    this.#setAlarmBy(Date.now());
  }

  /** Removes what waits here of an account for its database. Answers how many entries those were. */
  async erase(accountId: string): Promise<number> {
    // A batch that the database may take yet is waited for: what it brings there is deleted there.
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
      // The successor before what may fail, and no error gets out: the platform gives an alarm up after six.
      if (this.#journal.count > 0) this.#setAlarmBy(Date.now() + maxAlarmMs + this.#retryMs);
      await this.#drain(endsAt);
      await this.#foldClosed(endsAt);
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

  /** Writes what waits, one batch after the other, until nothing does. */
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

  /** What waits longest, of 500 entries together at most, and one batch of an isolate at least. */
  #takeBatch(): Waiting[] {
    const batch: Waiting[] = [];
    for (let sum = 0; this.#waiting[0] && (batch.length === 0 || sum + this.#waiting[0].entries.length <= entriesAtOnce); ) {
      const [first] = this.#waiting.splice(0, 1) as [Waiting];
      batch.push(first);
      sum += first.entries.length;
    }
    return batch;
  }

  /** Brings entries to D1 or, where it does not confirm them in time, to the journal. As long as that holds some, all go there: it is drained in full batches. */
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

  /** Removes from the journal what D1 confirms after all. */
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
    this.#setAlarmBy(sliceStart(now) + sliceMs + foldDelayMs + this.#number * nextWriterMs);
  }

  /** Returns the row of the journal, or null if that is full too. */
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

  /** Brings what the journal has to D1, in full batches. Throws where D1 does not take it; a full database is asked again in a minute. */
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

  /** Folds the slices that have ended. What comes into the journal meanwhile goes before; what a full database does not take has to wait for room. */
  async #foldClosed(endsAt: number): Promise<void> {
    const before = sliceStart(Date.now() - foldDelayMs);
    const again = await this.#folder.fold({ before, endsAt, isInterrupted: () => !this.#isFull && this.#journal.count > 0 });
    if (again !== null) this.#setAlarmBy(again);
  }

  /** How long to wait for D1: with jitter, so that writers that have failed together do not come back together. */
  #backOff(): number {
    return this.#retryMs * (0.5 + Math.random());
  }

  /** Sets the object's one alarm, unless it rings by then already. */
  #setAlarmBy(at: number): void {
    if (this.#alarmAt !== null && this.#alarmAt <= at) return;
    this.#alarmAt = at;
    this.ctx.waitUntil(this.#storage.setAlarm(at));
  }
}
