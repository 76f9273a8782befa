import { messagesOf } from "../db/failures.ts";
import { minuteMs, secondMs } from "../time/clock.ts";
import { withDeadline } from "../time/deadline.ts";
import { type Bucket, bucketsAtOnce, dirtyBucketsOfWriter, rollUpBuckets } from "./roll-up-buckets.ts";

/** The pause after a batch, as a multiple of the batch's duration. D1 serves other work during the pause. */
const pauseFactor = 8;
/** The longest pause between batches, in milliseconds. Other work of the log writer waits at most this long for the end of a pause. */
const maxPauseMs = 5 * secondMs;
/** The maximum number of batches in one run. Each batch has seven statements. */
const maxBatches = 100;
const rollUpTimeoutMs = 20 * secondMs;
const askTimeoutMs = 5 * secondMs;
/**
 * The longest time that a batch should take in D1, in milliseconds. If a batch takes longer, the next batch has half as many buckets.
 * Buckets of busy accounts take much longer than buckets of quiet accounts.
 */
const maxBatchMs = secondMs;
/** The shortest wait, in milliseconds, before a failed batch is retried with half as many buckets. */
const shortestRetryMs = secondMs / 2;
/**
 * If a batch with a single bucket fails, the first retry of the bucket starts after this time, in milliseconds. Each further failure
 * doubles the wait.
 */
const firstRestMs = minuteMs;
const maxRestMs = 60 * minuteMs;
const maxFailed = 1000;

const nameOf = ({ accountId, start }: Bucket) => `${accountId} ${start}`;
const halfOf = (count: number) => Math.max(1, Math.floor(count / 2));
const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/**
 * Rolls up the dirty buckets of one log writer, oldest first. The batch size adapts to the speed of D1. If a bucket fails, the other
 * buckets are not delayed.
 */
export class RollUpRunner {
  readonly #d1: () => D1Database;
  readonly #writer: number;
  #atOnce = bucketsAtOnce;
  readonly #failed = new Map<string, { notBefore: number; restMs: number }>();

  constructor(d1: () => D1Database, writer: number) {
    this.#d1 = d1;
    this.#writer = writer;
  }

  /**
   * Rolls up buckets that start before `before`. Stops when no bucket is left, when `endsAt` has passed, or when `isInterrupted` returns
   * true. Returns the time at which to continue, or null if no buckets are left.
   */
  async rollUp({
    before,
    endsAt,
    isInterrupted,
  }: {
    before: number;
    endsAt: number;
    isInterrupted: () => boolean;
  }): Promise<number | null> {
    for (let batches = 0; ; batches++) {
      const dirty = await this.#next(before);
      if (dirty.length === 0) return this.#earliestRetry();
      if (batches === maxBatches || Date.now() > endsAt || isInterrupted()) return Date.now();
      const startedAt = Date.now();
      try {
        const tookMs = await withDeadline(rollUpBuckets(this.#d1(), dirty), rollUpTimeoutMs, "Rolling up buckets");
        for (const bucket of dirty) this.#failed.delete(nameOf(bucket));
        this.#atOnce = tookMs > maxBatchMs ? halfOf(dirty.length) : Math.min(2 * this.#atOnce, bucketsAtOnce);
      } catch (error) {
        console.error(`${dirty.length} buckets cannot be rolled up:`, messagesOf(error));
        const [only, ...others] = dirty;
        if (only && others.length === 0) this.#passOver(only);
        this.#atOnce = halfOf(dirty.length);
        return Date.now() + Math.max(shortestRetryMs, pauseFactor * (Date.now() - startedAt));
      }
      await sleep(Math.min(pauseFactor * (Date.now() - startedAt), maxPauseMs));
    }
  }

  /** Returns the oldest dirty buckets, except for buckets that failed recently. */
  async #next(before: number): Promise<Bucket[]> {
    const limit = this.#atOnce + this.#failed.size;
    const dirty = await withDeadline(
      dirtyBucketsOfWriter(this.#d1(), this.#writer, before, limit),
      askTimeoutMs,
      "Asking for dirty buckets",
    );
    const now = Date.now();
    return dirty.filter((bucket) => (this.#failed.get(nameOf(bucket))?.notBefore ?? 0) <= now).slice(0, this.#atOnce);
  }

  #passOver(bucket: Bucket): void {
    if (this.#failed.size >= maxFailed) this.#failed.clear();
    const restMs = Math.min(2 * (this.#failed.get(nameOf(bucket))?.restMs ?? firstRestMs / 2), maxRestMs);
    this.#failed.set(nameOf(bucket), { notBefore: Date.now() + restMs, restMs });
  }

  #earliestRetry(): number | null {
    return this.#failed.size === 0 ? null : Math.min(...[...this.#failed.values()].map(({ notBefore }) => notBefore));
  }
}
