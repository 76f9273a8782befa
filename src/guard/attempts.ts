import { secondMs } from "../lib/time/clock.ts";

/** The time for which requests with the same id count once, in milliseconds. */
export const attemptsMs = 10 * secondMs;
const maxAttempts = 10_000;
/** The most attempts that all guards of an account note in one isolate in ten seconds. An attempt takes about 300 bytes of the isolate's 128 MB. */
export const maxOfAccount = 20_000;
const maxAccounts = 1000;

interface Attempt {
  /** What the request is about: a text of at most 64 characters. */
  about: string;
  entryId: string;
  countedAt: number;
}

/** How many attempts the guards of each account in this isolate have noted since a time. */
const noted = new Map<string, { since: number; count: number }>();

/** Notes an attempt of an account. Returns false if the account has had its share of these ten seconds. */
function note(accountId: string, now: number): boolean {
  const known = noted.get(accountId);
  if (known && now >= known.since && now < known.since + attemptsMs) return ++known.count <= maxOfAccount;
  noted.delete(accountId);
  if (noted.size >= maxAccounts) noted.delete(noted.keys().next().value as string);
  noted.set(accountId, { since: now, count: 1 });
  return true;
}

/**
 * The requests that a guard has counted in the last ten seconds, by their id, or by its hash if the id is long. The team's API makes the ids, and repeats a
 * request with the same id if the answer was lost. A guard remembers 10,000 requests. If more come within ten seconds, the oldest are forgotten, and their
 * repetitions count again.
 */
export class Attempts {
  readonly #counted = new Map<string, Attempt>();

  /** Returns the request with this id that was counted, or undefined. */
  find(id: string, now: number): Attempt | undefined {
    const attempt = this.#counted.get(id);
    return attempt && now < attempt.countedAt + attemptsMs ? attempt : undefined;
  }

  add(accountId: string, id: string, attempt: Attempt): void {
    if (this.#counted.size >= maxAttempts) this.#counted.delete(this.#counted.keys().next().value as string);
    this.#counted.delete(id);
    if (note(accountId, attempt.countedAt)) this.#counted.set(id, attempt);
  }

  /** Forgets requests that were counted more than ten seconds ago. */
  expire(now: number): void {
    // The entries are in the order of their times, because a guard's time never goes back.
    for (const [id, { countedAt }] of this.#counted) {
      if (now < countedAt + attemptsMs) break;
      this.#counted.delete(id);
    }
  }
}
