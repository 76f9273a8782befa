import { secondMs } from "../../time/clock.ts";
import type { Entry } from "../entry.ts";
import { bytesOf } from "./head.ts";

/** The time between two group commits, in milliseconds. The first call after a quiet period is committed at once. */
const commitEveryMs = secondMs;
/**
 * The maximum number of entries that wait for a commit, and of their bytes in memory. If a log writer has reached a maximum, the sender keeps its
 * entries or uses the next log writer.
 */
const maxWaiting = { entries: 20_000, bytes: 16 * 1024 * 1024 };

const none = { entries: 0, bytes: 0 };

/** A call that waits for the next commit. */
interface Waiting {
  entries: readonly Entry[];
  bytes: number;
  committed: () => void;
  failed: (error: unknown) => void;
}

/** Commits the entries of all calls of a second together. A commit costs the same for one entry and for thousands. */
export class GroupCommit {
  readonly #store: (entries: readonly Entry[]) => void;
  #waiting: Waiting[] = [];
  #isPlanned = false;
  #committedAt = 0;

  /** `store` puts entries on disk. It runs synchronously. */
  constructor(store: (entries: readonly Entry[]) => void) {
    this.#store = store;
  }

  /** Adds entries to the next commit. Resolves after the commit. Throws if too many entries wait already. */
  add(entries: readonly Entry[]): Promise<void> {
    const bytes = entries.reduce((sum, entry) => sum + bytesOf(entry), 0);
    const waiting = this.#waiting.reduce(
      (sum, each) => ({ entries: sum.entries + each.entries.length, bytes: sum.bytes + each.bytes }),
      none,
    );
    if (waiting.entries + entries.length > maxWaiting.entries || waiting.bytes + bytes > maxWaiting.bytes)
      throw new Error(`${waiting.entries} entries wait for a commit already`);
    return new Promise((committed, failed) => {
      this.#waiting.push({ entries, bytes, committed, failed });
      if (!this.#isPlanned) this.#plan();
    });
  }

  /** Commits everything that waits. */
  commit(): void {
    this.#isPlanned = false;
    const waiting = this.#waiting;
    if (waiting.length === 0) return;
    [this.#waiting, this.#committedAt] = [[], Date.now()];
    try {
      this.#store(waiting.flatMap((each) => each.entries));
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
