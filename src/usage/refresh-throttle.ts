import { secondMs } from "../time/clock.ts";
import { withDeadline } from "../time/deadline.ts";
import { rollUpAccount } from "./roll-up-buckets.ts";

/**
 * The pause after a refresh, as a multiple of the time that D1 spent on the refresh. With a factor of 50, an account uses at most 2 % of
 * D1's time, even if clients constantly read its usage.
 */
const pauseFactor = 50;
const shortestRestAfterFailureMs = 5 * secondMs;
const timeoutMs = 20 * secondMs;

/**
 * Refreshes the usage of an account when the usage is read. Runs at most one refresh per account at a time. All waiting readers share this
 * refresh. After each refresh of an account, the throttle pauses refreshes of this account. A client that polls the largest account
 * therefore does not slow down other accounts.
 */
export class RefreshThrottle {
  readonly #d1: () => D1Database;
  /** For each account: the running refresh, or the earliest time at which the next refresh may start. */
  readonly #latest = new Map<string, { running: Promise<void> | null; notBefore: number }>();

  constructor(d1: () => D1Database) {
    this.#d1 = d1;
  }

  /** Rolls up the dirty buckets of an account, unless the account was rolled up a moment ago. */
  refresh(accountId: string): Promise<void> {
    const latest = this.#latest.get(accountId);
    if (latest?.running) return latest.running;
    const now = Date.now();
    if (latest && now < latest.notBefore) return Promise.resolve();
    for (const [id, { running, notBefore }] of this.#latest) if (!running && notBefore <= now) this.#latest.delete(id);
    // The deadline ends only the wait of the readers. The next refresh starts after D1 has finished the current refresh.
    const running = withDeadline(this.#run(accountId, now), timeoutMs, "Refreshing usage");
    this.#latest.set(accountId, { running, notBefore: 0 });
    return running;
  }

  async #run(accountId: string, startedAt: number): Promise<void> {
    let restMs = 0;
    try {
      restMs = pauseFactor * (await rollUpAccount(this.#d1(), accountId));
    } catch (error) {
      restMs = Math.max(shortestRestAfterFailureMs, pauseFactor * (Date.now() - startedAt));
      throw error;
    } finally {
      this.#latest.set(accountId, { running: null, notBefore: Date.now() + restMs });
    }
  }
}
