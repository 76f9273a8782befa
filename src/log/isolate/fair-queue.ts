import { type Entry, sizeOf } from "../entry.ts";

/** The maximum size of a queue. A full queue takes about 5 MB. */
const maxSize = 10_000;

/**
 * The entries that wait in an isolate. If the queue is full, the account that holds the most loses its latest entry. A flood of one account therefore
 * drops no entry of another account.
 */
export class FairQueue {
  readonly #entries: Entry[] = [];
  #size = 0;
  /** The size of the entries of each account. */
  readonly #sizes = new Map<string, number>();

  get length(): number {
    return this.#entries.length;
  }

  /** Adds an entry at the end. Returns the number of entries that were dropped. */
  add(entry: Entry): number {
    const before = this.#entries.push(entry);
    this.#count(entry, sizeOf(entry));
    while (this.#size > maxSize) {
      const [largest] = [...this.#sizes].reduce((most, each) => (each[1] > most[1] ? each : most));
      const [dropped] = this.#entries.splice(
        this.#entries.findLastIndex(({ accountId }) => accountId === largest),
        1,
      ) as [Entry];
      this.#count(dropped, -sizeOf(dropped));
    }
    return before - this.#entries.length;
  }

  /** Removes and returns at most `count` entries from the beginning. */
  take(count: number): Entry[] {
    const taken = this.#entries.splice(0, count);
    for (const entry of taken) this.#count(entry, -sizeOf(entry));
    return taken;
  }

  #count({ accountId }: Entry, size: number): void {
    this.#size += size;
    const ofAccount = (this.#sizes.get(accountId) ?? 0) + size;
    if (ofAccount === 0) this.#sizes.delete(accountId);
    else this.#sizes.set(accountId, ofAccount);
  }
}
