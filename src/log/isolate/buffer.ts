import { messagesOf } from "../../db/failures.ts";
import { secondMs } from "../../lib/time/clock.ts";
import { type Entry, entriesAtOnce } from "../entry.ts";
import { type AggregationKey, EntryAggregator } from "./entry-aggregator.ts";
import { FairQueue } from "./fair-queue.ts";

/**
 * Sends entries to a log writer. `dropped` is the number of entries that were lost before this call. Returns how many of these lost entries were
 * reported to a log writer. Rejects if no log writer accepted the entries.
 */
export type Send = (entries: Entry[], dropped: number) => Promise<number>;

/** The minimum time between two batches, in milliseconds. The first batch after a quiet period is sent at once. */
const intervalMs = 200;
/** The maximum number of batches that are being sent at the same time. A log writer acknowledges a batch within about a second. */
const maxInFlight = 5;
const shortestWaitMs = 50;
/**
 * The maximum time that one request flushes the buffer, in milliseconds. The platform ends the work of a request 30 s after its response.
 * Sending one batch takes about ten seconds at most.
 */
const maxFlushMs = 10 * secondMs;
const abandonedMs = 20 * secondMs;

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

interface Sent {
  entries: Entry[];
  at: number;
}

/**
 * Collects the entries that an isolate sends to one log writer. The entries come from all requests of the isolate. Only one request at a
 * time flushes the buffer. The flushing request waits until the interval has passed, and then sends the entries of all requests. Requests
 * share data in this buffer, but never share promises. A request must not wait for the I/O of another request.
 */
export class ActivityBuffer {
  readonly #entries = new FairQueue();
  readonly #shared = new EntryAggregator();
  /**
   * The batches that are being sent, each with the time when the sending started. If the platform ends the sending request midway, a later flush
   * sends the batch again. Storing the same batch twice does no harm.
   */
  #sent: Sent[] = [];
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
          if (this.#inFlight(Date.now()) >= maxInFlight) continue;
        }
        // The last batch includes the shared entries that are still open. Perhaps no later request comes that could send these entries.
        isLast = Date.now() >= endsAt;
        const entries = this.#take(Date.now(), isLast);
        if (entries.length > 0) sending.push(this.#send(send, entries));
      }
      await Promise.all(sending);
      // The entries of a batch that could not be sent are in the buffer again.
    } while (!isLast && this.#entries.length > 0 && Date.now() < endsAt && !this.isFlushing(Date.now()));
  }

  /** The number of batches in flight. After 20 seconds without a result, a batch counts as lost and is no longer in flight. */
  #inFlight(now: number): number {
    return this.#sent.filter(({ at }) => now - at <= abandonedMs).length;
  }

  /** Returns the time to wait before the next batch is sent, in milliseconds. Returns null if there is nothing to send. */
  #waitMs(now: number): number | null {
    const hasAbandoned = this.#sent.some(({ at }) => now - at > abandonedMs);
    if (this.#entries.length === 0 && !hasAbandoned) return this.#shared.closesAt === null ? null : intervalMs;
    if (this.#inFlight(now) >= maxInFlight) return shortestWaitMs;
    // The clock may step back.
    return Math.min(intervalMs, Math.max(0, this.#lastSentAt + intervalMs - now));
  }

  /** Takes the next batch. It starts with the entries of batches that count as lost. */
  #take(now: number, openToo: boolean): Entry[] {
    for (const entry of this.#shared.close(openToo ? Number.POSITIVE_INFINITY : now)) this.add(entry);
    const abandoned = this.#sent.filter(({ at }) => now - at > abandonedMs);
    this.#sent = this.#sent.filter((sent) => !abandoned.includes(sent));
    this.#entries.putBack(abandoned.flatMap(({ entries }) => entries));
    return this.#entries.take(entriesAtOnce);
  }

  async #send(send: Send, entries: Entry[]): Promise<void> {
    const sent = { entries, at: Date.now() };
    this.#sent.push(sent);
    this.#lastSentAt = sent.at;
    // Only one batch reports the dropped entries, even if several batches are in flight.
    const dropped = this.#dropped;
    this.#dropped = 0;
    try {
      this.#dropped += dropped - (await send(entries, dropped));
    } catch (error) {
      this.#dropped += dropped;
      console.error(`${entries.length} activity entries wait for another flush:`, messagesOf(error));
      this.#entries.putBack(entries);
    }
    this.#sent = this.#sent.filter((each) => each !== sent);
  }
}
