import { messagesOf } from "../db/failures.ts";
import { secondMs } from "../time/clock.ts";
import { type Entry, entriesAtOnce } from "./entry.ts";
import { type AggregationKey, EntryAggregator } from "./entry-aggregator.ts";

/**
 * Brings entries to where they are kept for good. `dropped`: how many were lost before; answers how many of those have been reported. Rejects
 * where nobody takes them.
 */
export type Send = (entries: Entry[], dropped: number) => Promise<number>;

/** A batch after a silence is sent at once; then entries of this long go together. */
const intervalMs = 200;
/** Some 5 MB, of the 128 that an isolate has. */
const maxEntries = 10_000;
const shortestWaitMs = 50;
/** The platform ends what runs after a response at 30 s; a send has ended by 15. */
const maxFlushMs = 10 * secondMs;
const abandonedMs = 20 * secondMs;

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/**
 * The entries of all requests of an isolate that go to one writer. One request at a time flushes: it waits for the interval to pass, then
 * sends what all have added. Requests share data here, never promises, since one may not wait for another's I/O.
 */
export class ActivityBuffer {
  #entries: Entry[] = [];
  readonly #shared = new EntryAggregator();
  /** What is on its way, and since when. A batch whose request was ended in the middle is taken up again: storing twice does no harm. */
  #sent: { entries: Entry[]; at: number } | null = null;
  #lastSentAt = 0;
  /** Until then a request is flushing. One that ended early is given up a second after it was due. */
  #flushingUntil = 0;
  #dropped = 0;

  add(entry: Entry): void {
    if (this.#entries.length < maxEntries) this.#entries.push(entry);
    else if (this.#dropped++ === 0) console.error(`activity entries are dropped: ${maxEntries} wait for a writer already`);
  }

  /** Adds a request that may share its entry. Calls `makeEntry` only where there is none yet that it shares. */
  addShared(key: AggregationKey, times: { startedAt: number; endedAt: number }, makeEntry: () => Entry): void {
    const own = this.#shared.aggregate(key, times, makeEntry);
    if (own) this.add(own);
  }

  /** Whether another request is flushing, and will send what was added. */
  isFlushing(now: number): boolean {
    return now < this.#flushingUntil;
  }

  /**
   * To be awaited after the response (`waitUntil`). Flushes, unless another request does, until nothing is left or ten seconds are over: its
   * last batch is then on its way while the next request takes over.
   */
  async flush(send: Send): Promise<void> {
    const endsAt = Date.now() + maxFlushMs;
    for (let isLast = false; !isLast && !this.isFlushing(Date.now()); ) {
      const waitMs = this.#waitMs(Date.now());
      if (waitMs === null) return;
      if (waitMs > 0) {
        this.#flushingUntil = Date.now() + waitMs + secondMs;
        await sleep(waitMs);
        this.#flushingUntil = 0;
        if (this.#isSending(Date.now())) continue;
      }
      // At its end it leaves no shared entry behind, since nobody may come after it.
      isLast = Date.now() >= endsAt;
      const entries = this.#take(Date.now(), isLast);
      if (entries.length > 0) await this.#send(send, entries, isLast);
    }
  }

  /** Whether a batch is on its way, of a request that has not been given up. */
  #isSending(now: number): boolean {
    return this.#sent !== null && now - this.#sent.at <= abandonedMs;
  }

  /** How long to wait for more. Null where there is nothing to send. */
  #waitMs(now: number): number | null {
    if (this.#isSending(now)) return this.#entries.length === 0 ? null : shortestWaitMs;
    if (this.#entries.length === 0 && this.#sent === null) return this.#shared.closesAt === null ? null : intervalMs;
    return Math.max(0, this.#lastSentAt + intervalMs - now);
  }

  /** Takes a batch: first what was sent by a request that ended before it knew. */
  #take(now: number, openToo: boolean): Entry[] {
    this.#entries.push(...this.#shared.close(openToo ? Number.POSITIVE_INFINITY : now));
    const abandoned = this.#sent?.entries ?? [];
    this.#sent = null;
    return [...abandoned, ...this.#entries.splice(0, entriesAtOnce)];
  }

  async #send(send: Send, entries: Entry[], isLast: boolean): Promise<void> {
    const sent = { entries, at: Date.now() };
    [this.#sent, this.#lastSentAt] = [sent, sent.at];
    this.#flushingUntil = isLast ? 0 : sent.at + abandonedMs;
    try {
      this.#dropped -= await send(entries, this.#dropped);
    } catch (error) {
      console.error(`${entries.length} activity entries wait for another flush:`, messagesOf(error));
      this.#entries.unshift(...entries);
    }
    if (this.#sent === sent) this.#sent = null;
    if (!isLast) this.#flushingUntil = 0;
  }
}
