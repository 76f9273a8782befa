import { secondMs } from "../clock.ts";
import type { Entry } from "./entry.ts";
import { type Likeness, RefusalFolder } from "./refusal-folder.ts";

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
const longestTurnMs = 10 * secondMs;
const abandonedMs = 15 * secondMs;

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/**
 * The entries of all requests of an isolate, written together: D1 is one writer for the world, and real keys are too slow
 * to batch one by one. One request at a time takes the turn: it waits an interval, then stores what all have added. Requests
 * share data here, never promises, since one may not wait for another's I/O.
 */
export class Gatherer {
  #entries: Entry[] = [];
  readonly #folder = new RefusalFolder();
  /** What is being stored. A batch whose request was ended in the middle is taken up again: storing twice does no harm. */
  readonly #batches = new Set<Batch>();
  #lastStoreMs = 0;
  /** Until then the turn is taken. A request that ended early loses it a second after it was due. */
  #takenUntil = 0;

  add(entry: Entry): void {
    this.#entries.push(entry);
  }

  /** `makeEntry` is called only where the refusal does not go into an entry that is there already. */
  addRefusal(likeness: Likeness, now: number, makeEntry: () => Entry): void {
    const own = this.#folder.fold(likeness, now, makeEntry);
    if (own) this.add(own);
  }

  /** Whether another request has the turn, and will store what was added. */
  isTaken(now: number): boolean {
    return now < this.#takenUntil;
  }

  /** To be awaited after the response (`waitUntil`). Takes the turn unless another request has it, and keeps it until nothing is left. */
  async gather(store: Store): Promise<void> {
    const endsAt = Date.now() + longestTurnMs;
    for (let isLast = false; !isLast && Date.now() >= this.#takenUntil; ) {
      const waitMs = this.#waitMs(Date.now());
      if (waitMs === null) return;
      this.#takenUntil = Date.now() + waitMs + overdueMs;
      await sleep(waitMs);
      // At its end it leaves nothing behind, since nobody may come after it.
      isLast = Date.now() >= endsAt;
      const entries = this.#take(Date.now(), isLast);
      this.#takenUntil = 0;
      if (entries.length > 0) await this.#store(store, entries);
    }
  }

  /** How long to gather: as long as D1 takes, from 50 ms to a second. Null where there is nothing to store. */
  #waitMs(now: number): number | null {
    const closesAt = this.#folder.closesAt;
    if (this.#entries.length === 0 && closesAt === null && this.#abandoned(now).length === 0) return null;
    const running = Math.max(0, ...[...this.#batches].map(({ startedAt }) => now - startedAt));
    return Math.min(Math.max(this.#lastStoreMs, running, shortestIntervalMs), longestIntervalMs);
  }

  #take(now: number, everything: boolean): Entry[] {
    const entries = [...this.#entries.splice(0), ...this.#folder.close(everything ? Number.POSITIVE_INFINITY : now)];
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
      console.error("activity entries wait for another turn:", String(error));
      if (this.#batches.has(batch)) this.#entries.unshift(...(error instanceof NotStored ? error.unstored : entries));
    }
    this.#batches.delete(batch);
    this.#lastStoreMs = Date.now() - batch.startedAt;
  }
}
