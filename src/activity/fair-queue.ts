import type { Entry } from "./entry.ts";

/** The maximum size of a queue. A full queue takes about 5 MB. */
const maxSize = 10_000;
/** Returns the size of an entry. A usual entry has the size 1. A client can make the problem of an entry as large as 2 KB. */
const sizeOf = ({ problem }: Pick<Entry, "problem">): number => (problem === null ? 1 : 5);

/**
 * The entries that wait in an isolate. If the queue is full, the account that holds the most loses its latest entry. A flood of one account therefore
 * drops no entry of another account.
 */
export class FairQueue {
  readonly #entries: Entry[] = [];
  #size = 0;
  /** The size of the entries of each account. Null until the queue is full, because adding an entry must stay cheap. */
  #sizes: Map<string, number> | null = null;

  get length(): number {
    return this.#entries.length;
  }

  /** Adds an entry at the end. Returns the number of entries that were dropped. */
  add(entry: Entry): number {
    this.#entries.push(entry);
    this.#count(entry, 1);
    if (this.#size <= maxSize) return 0;
    const before = this.#entries.length;
    while (this.#size > maxSize) this.#dropLargest();
    return before - this.#entries.length;
  }

  /** Puts entries back at the beginning. They were in the queue before, so the queue may exceed its maximum size until the next entry is added. */
  putBack(entries: readonly Entry[]): void {
    this.#entries.unshift(...entries);
    for (const entry of entries) this.#count(entry, 1);
  }

  /** Removes and returns at most `count` entries from the beginning. */
  take(count: number): Entry[] {
    const taken = this.#entries.splice(0, count);
    for (const entry of taken) this.#count(entry, -1);
    if (this.#size < maxSize / 2) this.#sizes = null;
    return taken;
  }

  #count(entry: Entry, sign: 1 | -1): void {
    this.#size += sign * sizeOf(entry);
    this.#sizes?.set(entry.accountId, (this.#sizes.get(entry.accountId) ?? 0) + sign * sizeOf(entry));
  }

  #dropLargest(): void {
    this.#sizes ??= sizesOf(this.#entries);
    const [largest] = [...this.#sizes].reduce((most, each) => (each[1] > most[1] ? each : most));
    const [dropped] = this.#entries.splice(
      this.#entries.findLastIndex(({ accountId }) => accountId === largest),
      1,
    );
    if (dropped) this.#count(dropped, -1);
  }
}

function sizesOf(entries: readonly Entry[]): Map<string, number> {
  const sizes = new Map<string, number>();
  for (const entry of entries) sizes.set(entry.accountId, (sizes.get(entry.accountId) ?? 0) + sizeOf(entry));
  return sizes;
}
