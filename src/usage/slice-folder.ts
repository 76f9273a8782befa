import { messagesOf } from "../db/failures.ts";
import { minuteMs, secondMs } from "../time/clock.ts";
import { withDeadline } from "../time/deadline.ts";
import { foldSlices, type Slice, slicesAtOnce, staleSlicesOfWriter } from "./fold-slices.ts";

/** For each millisecond that folding takes of D1, all others have eight. */
const restOfOthers = 8;
/** What else the writer has to do waits for it no longer. */
const maxRestOfOthersMs = 5 * secondMs;
/** Statements of one run: seven for each batch. */
const maxBatches = 100;
const foldTimeoutMs = 20 * secondMs;
const askTimeoutMs = 5 * secondMs;
/** Fifty slices may be of fifty accounts that are still, or of fifty that are not: so many go together as take D1 less than this. */
const maxBatchMs = secondMs;
/** A batch that failed is tried again by halves, but not at once. */
const shortestRetryMs = secondMs / 2;
/** A slice that cannot be folded by itself is tried again after this, doubled each time. */
const firstRestMs = minuteMs;
const maxRestMs = 60 * minuteMs;
const maxFailed = 1000;

const nameOf = ({ accountId, start }: Slice) => `${accountId} ${start}`;
const halfOf = (count: number) => Math.max(1, Math.floor(count / 2));
const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Folds the stale slices of one writer, the oldest first, as many at once as D1 bears. One that cannot be folded holds up no other. */
export class SliceFolder {
  readonly #d1: () => D1Database;
  readonly #writer: number;
  #atOnce = slicesAtOnce;
  readonly #failed = new Map<string, { notBefore: number; restMs: number }>();

  constructor(d1: () => D1Database, writer: number) {
    this.#d1 = d1;
    this.#writer = writer;
  }

  /** Folds slices that have begun before `before`, until none is left, `endsAt`, or `isInterrupted`. Answers when to go on; null where none is left. */
  async fold({ before, endsAt, isInterrupted }: { before: number; endsAt: number; isInterrupted: () => boolean }): Promise<number | null> {
    for (let batches = 0; ; batches++) {
      const stale = await this.#next(before);
      if (stale.length === 0) return this.#earliestRetry();
      if (batches === maxBatches || Date.now() > endsAt || isInterrupted()) return Date.now();
      const startedAt = Date.now();
      try {
        const tookMs = await withDeadline(foldSlices(this.#d1(), stale), foldTimeoutMs, "Folding slices");
        for (const slice of stale) this.#failed.delete(nameOf(slice));
        this.#atOnce = tookMs > maxBatchMs ? halfOf(stale.length) : Math.min(2 * this.#atOnce, slicesAtOnce);
      } catch (error) {
        console.error(`${stale.length} slices cannot be folded:`, messagesOf(error));
        const [only, ...others] = stale;
        if (only && others.length === 0) this.#passOver(only);
        this.#atOnce = halfOf(stale.length);
        return Date.now() + Math.max(shortestRetryMs, restOfOthers * (Date.now() - startedAt));
      }
      await sleep(Math.min(restOfOthers * (Date.now() - startedAt), maxRestOfOthersMs));
    }
  }

  /** The oldest slices that are due, without those that could not be folded a while ago. */
  async #next(before: number): Promise<Slice[]> {
    const limit = this.#atOnce + this.#failed.size;
    const stale = await withDeadline(staleSlicesOfWriter(this.#d1(), this.#writer, before, limit), askTimeoutMs, "Asking for stale slices");
    const now = Date.now();
    return stale.filter((slice) => (this.#failed.get(nameOf(slice))?.notBefore ?? 0) <= now).slice(0, this.#atOnce);
  }

  #passOver(slice: Slice): void {
    if (this.#failed.size >= maxFailed) this.#failed.clear();
    const restMs = Math.min(2 * (this.#failed.get(nameOf(slice))?.restMs ?? firstRestMs / 2), maxRestMs);
    this.#failed.set(nameOf(slice), { notBefore: Date.now() + restMs, restMs });
  }

  #earliestRetry(): number | null {
    return this.#failed.size === 0 ? null : Math.min(...[...this.#failed.values()].map(({ notBefore }) => notBefore));
  }
}
