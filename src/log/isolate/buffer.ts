import { messagesOf } from "../../db/failures.ts";
import { secondMs } from "../../lib/time/clock.ts";
import type { Batch } from "../batch.ts";
import { type Entry, entriesAtOnce } from "../entry.ts";
import { takeDecisions } from "./count-decisions.ts";
import { type AggregationKey, EntryAggregator } from "./entry-aggregator.ts";
import { FairQueue } from "./fair-queue.ts";

/** Sends a batch to a log writer. Rejects if no log writer accepted it. */
export type Send = (batch: Batch) => Promise<void>;

/** The minimum time between two batches, in milliseconds. The first batch after a quiet period is sent immediately. */
const intervalMs = 200;
/** The maximum number of batches that no log writer has acknowledged. A log writer acknowledges a batch within about a second. */
const maxUnacknowledged = 5;
const shortestWaitMs = 50;
/**
 * The maximum time that one request flushes the buffer, in milliseconds. The platform ends the work of a request 30 s after its response.
 * Sending one batch takes about ten seconds at most.
 */
const maxFlushMs = 10 * secondMs;
const abandonedMs = 20 * secondMs;

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** `sentAt`: when the batch was last sent, in milliseconds since the epoch. Null if it could not be sent. */
interface Unacknowledged {
  batch: Batch;
  sentAt: number | null;
}

/**
 * Collects the entries that an isolate sends to one log writer. The entries come from all requests of the isolate. Only one request at a
 * time flushes the buffer. The flushing request waits until the interval has passed, and then sends the entries of all requests. Requests
 * share data in this buffer, but never share promises. A request must not wait for the I/O of another request.
 */
export class ActivityBuffer {
  readonly #entries = new FairQueue();
  readonly #shared = new EntryAggregator();
  /** The id of this buffer. It is made with the first batch, because a Worker has no random values while it starts. */
  #isolate = "";
  #sequence = 0;
  /**
   * The batches that no log writer has acknowledged, oldest first. If the platform ends the sending request midway, a later flush sends the batch again.
   */
  #unacknowledged: Unacknowledged[] = [];
  #lastSentAt = 0;
  /**
   * Until this time, the buffer assumes that a request is flushing. The time is in milliseconds since the epoch. If the platform ends the
   * flushing request early, another request takes over after this time.
   */
  #flushingUntil = 0;
  #dropped = 0;

  add(entry: Entry): void {
    const dropped = this.#entries.add(entry);
    if (dropped > 0 && this.#dropped === 0)
      console.error(`activity entries are dropped: ${this.#entries.length} wait for a log writer already`);
    this.#dropped += dropped;
  }

  /** Adds a request that may share an entry with similar requests. Calls `makeEntry` only if the request needs a new entry. */
  addShared(key: AggregationKey, times: { startedAt: number; endedAt: number }, makeEntry: () => Entry): void {
    const own = this.#shared.aggregate(key, times, makeEntry);
    if (own) this.add(own);
  }

  /** Whether another request is flushing and will send the entries in the buffer. */
  isFlushing(now: number): boolean {
    return now < this.#flushingUntil;
  }

  /**
   * Flushes the buffer, unless another request is flushing it. The caller passes the returned promise to `waitUntil`. Stops when the buffer
   * is empty, but after ten seconds at the latest. When the next request takes over, the last batches of this flush may still be in flight.
   */
  async flush(send: Send): Promise<void> {
    const endsAt = Date.now() + maxFlushMs;
    let isLast = false;
    do {
      const sending: Promise<void>[] = [];
      while (!isLast && !this.isFlushing(Date.now())) {
        const waitMs = this.#waitMs(Date.now());
        if (waitMs === null) break;
        if (waitMs > 0) {
          this.#flushingUntil = Date.now() + waitMs + secondMs;
          await sleep(waitMs);
          this.#flushingUntil = 0;
          if (!this.#maySend(Date.now())) continue;
        }
        // The last batch includes the shared entries that are still open. Perhaps no later request comes that could send these entries.
        isLast = Date.now() >= endsAt;
        for (const due of this.#due(Date.now(), isLast)) sending.push(this.#send(send, due));
      }
      await Promise.all(sending);
      // A batch that could not be sent is due again.
    } while (!isLast && this.#hasDue(Date.now()) && Date.now() < endsAt && !this.isFlushing(Date.now()));
  }

  /** Returns the batches that could not be sent. After 20 seconds without a result, a batch counts as one of them. */
  #toSendAgain(now: number): Unacknowledged[] {
    return this.#unacknowledged.filter(({ sentAt }) => sentAt === null || now - sentAt > abandonedMs);
  }

  #hasDue(now: number): boolean {
    return this.#entries.length > 0 || this.#toSendAgain(now).length > 0;
  }

  #maySend(now: number): boolean {
    return this.#unacknowledged.length < maxUnacknowledged || this.#toSendAgain(now).length > 0;
  }

  /** Returns the time to wait before the next batch is sent, in milliseconds. Returns null if there is nothing to send. */
  #waitMs(now: number): number | null {
    if (!this.#hasDue(now)) return this.#shared.closesAt === null ? null : intervalMs;
    if (!this.#maySend(now)) return shortestWaitMs;
    // The clock may step back.
    return Math.min(intervalMs, Math.max(0, this.#lastSentAt + intervalMs - now));
  }

  /** Returns the batches to send now: those that could not be sent, and a new one if there is room. */
  #due(now: number, openToo: boolean): Unacknowledged[] {
    for (const entry of this.#shared.close(openToo ? Number.POSITIVE_INFINITY : now)) this.add(entry);
    const due = this.#toSendAgain(now);
    if (this.#entries.length === 0 || this.#unacknowledged.length >= maxUnacknowledged) return due;
    this.#isolate ||= crypto.randomUUID();
    const id = { isolate: this.#isolate, sequence: ++this.#sequence };
    const batch = { id, entries: this.#entries.take(entriesAtOnce), dropped: this.#dropped, decisions: takeDecisions() };
    const made = { batch, sentAt: null };
    this.#dropped = 0;
    this.#unacknowledged.push(made);
    return [...due, made];
  }

  async #send(send: Send, due: Unacknowledged): Promise<void> {
    due.sentAt = this.#lastSentAt = Date.now();
    try {
      await send(due.batch);
      this.#unacknowledged = this.#unacknowledged.filter((each) => each !== due);
    } catch (error) {
      due.sentAt = null;
      console.error(`${due.batch.entries.length} activity entries wait for another flush:`, messagesOf(error));
    }
  }
}
