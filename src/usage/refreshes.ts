import { secondMs } from "../time/clock.ts";
import { withDeadline } from "../time/deadline.ts";
import { foldAccount } from "./refresh-roll-ups.ts";

/** After one that took D1 a millisecond, fifty pass before the next: an account that is read all the time costs 2 % of D1's time. */
const restOfOthers = 50;
const shortestRestAfterFailureMs = 5 * secondMs;
const answeredWithinMs = 20 * secondMs;

/**
 * Refreshes usage for its readers: one refresh per account at a time, shared by all who wait, and not again too soon. So nobody notices a
 * client that polls the largest account.
 */
export class Refreshes {
  readonly #d1: () => D1Database;
  /** Per account: the running refresh, or the earliest time the next one may start. */
  readonly #latest = new Map<string, { running: Promise<void> | null; notBefore: number }>();

  constructor(d1: () => D1Database) {
    this.#d1 = d1;
  }

  /** Folds what is stale of an account, unless that was done a moment ago. */
  refresh(accountId: string): Promise<void> {
    const latest = this.#latest.get(accountId);
    if (latest?.running) return latest.running;
    const now = Date.now();
    if (latest && now < latest.notBefore) return Promise.resolve();
    for (const [id, { running, notBefore }] of this.#latest) if (!running && notBefore <= now) this.#latest.delete(id);
    // Who waits is answered in time; another refresh begins only once D1 has done with this one.
    const running = withDeadline(this.#run(accountId, now), answeredWithinMs, "Refreshing usage");
    this.#latest.set(accountId, { running, notBefore: 0 });
    return running;
  }

  async #run(accountId: string, startedAt: number): Promise<void> {
    let restMs = 0;
    try {
      restMs = restOfOthers * (await foldAccount(this.#d1(), accountId));
    } catch (error) {
      restMs = Math.max(shortestRestAfterFailureMs, restOfOthers * (Date.now() - startedAt));
      throw error;
    } finally {
      this.#latest.set(accountId, { running: null, notBefore: Date.now() + restMs });
    }
  }
}
