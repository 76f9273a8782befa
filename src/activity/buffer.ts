import { secondMs } from "../clock.ts";
import { messagesOf } from "../db/failures.ts";
import type { Entry } from "./entry.ts";
import { type AggregationKey, RefusalAggregator } from "./refusal-aggregator.ts";

/** Stores entries for good, in D1 or in a guard's journal. Rejects with those that neither would take in `unstored`. */
export type Store = (entries: Entry[]) => Promise<void>;

export class NotStored extends Error {
  readonly unstored: Entry[];

  constructor(unstored: Entry[], cause: unknown) {
    super(`${unstored.length} activity entries could not be stored`, { cause });
    this.unstored = unstored;
  }
}

interface Batch {
  entries: Entry[];
  startedAt: number;
}

const shortestIntervalMs = 50;
const longestIntervalMs = secondMs;
const overdueMs = secondMs;
/** The platform ends what runs after a response at 30 s; a store has ended by 10. */
const longestFlushMs = 10 * secondMs;
const abandonedMs = 15 * secondMs;

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/**
 * The entries of all requests of an isolate, written together: D1 is one writer for the world, and real keys are too slow
 * to batch one by one. One request at a time flushes: it waits an interval, then stores what all have added. Requests
 * share data here, never promises, since one may not wait for another's I/O.
 */
export class ActivityBuffer {
  #entries: Entry[] = [];
  readonly #refusals = new RefusalAggregator();
  /** What is being stored. A batch whose request was ended in the middle is taken up again: storing twice does no harm. */
  readonly #batches = new Set<Batch>();
  #lastStoreMs = 0;
  /** Until then a request is flushing. One that ended early is given up a second after it was due. */
  #flushingUntil = 0;

  add(entry: Entry): void {
    this.#entries.push(entry);
  }

  /** `makeEntry` is called only where the refusal does not go into an entry that is there already. */
  addRefusal(key: AggregationKey, now: number, makeEntry: () => Entry): void {
    const own = this.#refusals.aggregate(key, now, makeEntry);
    if (own) this.add(own);
  }

  /** Whether another request is flushing, and will store what was added. */
  isFlushing(now: number): boolean {
    return now < this.#flushingUntil;
  }

  /** To be awaited after the response (`waitUntil`). Flushes, unless another request does, until nothing is left. */
  async flush(store: Store): Promise<void> {
    const endsAt = Date.now() + longestFlushMs;
    for (let isLast = false; !isLast && Date.now() >= this.#flushingUntil; ) {
      const waitMs = this.#waitMs(Date.now());
      if (waitMs === null) return;
      this.#flushingUntil = Date.now() + waitMs + overdueMs;
      await sleep(waitMs);
      // At its end it leaves nothing behind, since nobody may come after it.
      isLast = Date.now() >= endsAt;
      const entries = this.#drain(Date.now(), isLast);
      this.#flushingUntil = 0;
      if (entries.length > 0) await this.#store(store, entries);
    }
  }

  /** How long to wait for more: as long as D1 takes, from 50 ms to a second. Null where there is nothing to store. */
  #waitMs(now: number): number | null {
    const closesAt = this.#refusals.closesAt;
    if (this.#entries.length === 0 && closesAt === null && this.#abandoned(now).length === 0) return null;
    const running = Math.max(0, ...[...this.#batches].map(({ startedAt }) => now - startedAt));
    return Math.min(Math.max(this.#lastStoreMs, running, shortestIntervalMs), longestIntervalMs);
  }

  #drain(now: number, everything: boolean): Entry[] {
    const entries = [...this.#entries.splice(0), ...this.#refusals.close(everything ? Number.POSITIVE_INFINITY : now)];
    for (const batch of this.#abandoned(now)) {
      this.#batches.delete(batch);
      entries.push(...batch.entries);
    }
    return entries;
  }

  #abandoned(now: number): Batch[] {
    return [...this.#batches].filter(({ startedAt }) => now - startedAt > abandonedMs);
  }

  async #store(store: Store, entries: Entry[]): Promise<void> {
    const batch = { entries, startedAt: Date.now() };
    this.#batches.add(batch);
    try {
      await store(entries);
    } catch (error) {
      console.error("activity entries wait for another flush:", messagesOf(error));
      if (this.#batches.has(batch)) this.#entries.unshift(...(error instanceof NotStored ? error.unstored : entries));
    }
    this.#batches.delete(batch);
    this.#lastStoreMs = Date.now() - batch.startedAt;
  }
}
