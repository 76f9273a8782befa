import { minuteMs } from "../../lib/time/clock.ts";
import type { BatchId } from "../batch.ts";

/** The number of isolates whose batches are always known. */
const maxIsolates = 10_000;
/** If more isolates are known, those that were silent for this time are forgotten, in milliseconds. */
const silentMs = 10 * minuteMs;

/** The sequences from the first to the last number. */
type Range = readonly [first: number, last: number];

/** The batches of an isolate that are stored. `at`: when the last of them was stored, in milliseconds since the epoch. */
export interface KnownIsolate {
  isolate: string;
  at: number;
  ranges: readonly Range[];
}

/**
 * The ids of the stored batches. An isolate usually has one range of sequences. A hint can bring a batch after thousands of later ones, so a gap stays
 * open until its batch arrives.
 */
export class KnownBatches {
  /** The isolates, the longest silent first. */
  readonly #isolates = new Map<string, KnownIsolate>();

  get all(): KnownIsolate[] {
    return [...this.#isolates.values()];
  }

  has({ isolate, sequence }: BatchId): boolean {
    return this.#isolates.get(isolate)?.ranges.some(([first, last]) => first <= sequence && sequence <= last) ?? false;
  }

  add({ isolate, at, ranges }: KnownIsolate): void {
    const known = this.#isolates.get(isolate)?.ranges ?? [];
    this.#isolates.delete(isolate);
    this.#isolates.set(isolate, { isolate, at, ranges: joined([...known, ...ranges]) });
    for (const oldest of this.#isolates.values()) {
      if (this.#isolates.size <= maxIsolates || at - oldest.at < silentMs) break;
      this.#isolates.delete(oldest.isolate);
    }
  }
}

/** Joins ranges that overlap or follow each other. */
function joined(ranges: readonly Range[]): Range[] {
  const all: Range[] = [];
  for (const [first, last] of ranges.toSorted(([one], [other]) => one - other)) {
    const before = all.at(-1);
    if (before && first <= before[1] + 1) all[all.length - 1] = [before[0], Math.max(before[1], last)];
    else all.push([first, last]);
  }
  return all;
}
