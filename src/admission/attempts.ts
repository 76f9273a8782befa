import { secondMs } from "../time/clock.ts";

/** The time for which requests with the same id count once, in milliseconds. */
export const attemptsMs = 10 * secondMs;
const maxAttempts = 10_000;

interface Attempt {
  about: string;
  entryId: string;
  countedAt: number;
}

/**
 * The ids of the requests that a guard has counted in the last ten seconds. The team's API makes the ids, and repeats a request with the same id if the answer was
 * lost. A guard remembers 10,000 ids. If more come within ten seconds, the oldest are forgotten, and their repetitions count again.
 */
export class Attempts {
  readonly #counted = new Map<string, Attempt>();

  /** Returns the request with this id that was counted, or undefined. */
  find(id: string, now: number): Attempt | undefined {
    const attempt = this.#counted.get(id);
    return attempt && now < attempt.countedAt + attemptsMs ? attempt : undefined;
  }

  add(id: string, attempt: Attempt): void {
    // The entries are in the order of their times, because a guard's time never goes back.
    for (const [oldest, { countedAt }] of this.#counted) {
      if (this.#counted.size < maxAttempts && attempt.countedAt < countedAt + attemptsMs) break;
      this.#counted.delete(oldest);
    }
    this.#counted.delete(id);
    this.#counted.set(id, attempt);
  }
}
