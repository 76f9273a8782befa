import { secondMs } from "../../lib/time/clock.ts";
import type { Batch } from "../batch.ts";
import { sizeOf } from "../entry.ts";

/** The time between two group commits, in milliseconds. The first call after a quiet period is committed immediately. */
const commitEveryMs = secondMs;
/**
 * The maximum size of the entries that wait for a commit (`sizeOf`). If a log writer has reached this maximum, the sender keeps its entries or uses the
 * next log writer.
 */
const maxWaiting = 20_000;

/** A batch with the id of the version that its sender runs, or an empty text. */
export interface Sent {
  batch: Batch;
  version: string;
}

/** A call that waits for the next commit. */
interface Waiting extends Sent {
  committed: () => void;
  failed: (error: unknown) => void;
}

/** Commits the batches of all calls of a second together. A commit costs the same for one entry and for thousands. */
export class GroupCommit {
  readonly #store: (sent: readonly Sent[]) => void;
  #waiting: Waiting[] = [];
  #size = 0;
  #isPlanned = false;
  #committedAt = 0;

  /** `store` puts batches on disk. It runs synchronously. */
  constructor(store: (sent: readonly Sent[]) => void) {
    this.#store = store;
  }

  /** Adds a batch to the next commit. Resolves after the commit. Throws if too many entries wait already. */
  add(sent: Sent): Promise<void> {
    const size = sent.batch.entries.reduce((sum, entry) => sum + sizeOf(entry), this.#size);
    if (size > maxWaiting) throw new Error("too many entries wait for a commit already");
    this.#size = size;
    return new Promise((committed, failed) => {
      this.#waiting.push({ ...sent, committed, failed });
      if (!this.#isPlanned) this.#plan();
    });
  }

  /** Commits everything that waits. */
  commit(): void {
    this.#isPlanned = false;
    const waiting = this.#waiting;
    if (waiting.length === 0) return;
    [this.#waiting, this.#size, this.#committedAt] = [[], 0, Date.now()];
    try {
      this.#store(waiting);
      for (const { committed } of waiting) committed();
    } catch (error) {
      for (const { failed } of waiting) failed(error);
    }
  }

  #plan(): void {
    // The clock may step back.
    const waitMs = Math.min(commitEveryMs, this.#committedAt + commitEveryMs - Date.now());
    if (waitMs <= 0) this.commit();
    else {
      this.#isPlanned = true;
      setTimeout(() => this.commit(), waitMs);
    }
  }
}
