import { secondMs } from "../../lib/time/clock.ts";

/** The time for which a text that was not found is not looked for again, in milliseconds. */
const missedMs = secondMs;
const maxAtOnce = 500;
/** The maximum number of statements at the same time. D1 can be far away. */
const maxStatements = 4;
/** The maximum number of texts that wait in an isolate. Each has at most 512 characters. */
const maxWaiting = 5000;
const maxKept = 10_000;
/** The time after which a statement of another request counts as interrupted, in milliseconds. The platform can end the request that sent it. */
const interruptedMs = 3 * secondMs;
/** A timer costs CPU time, so a request that waits looks seldom. */
const pollMs = 25;

/** Looks for many texts in one statement. Returns what was found, in the order of the texts. */
export type LookUpAll<Found> = (texts: readonly string[]) => Promise<(Found | null)[]>;

/**
 * The lookups of an isolate. While one statement runs, all further texts wait for the next one, so a flood of made-up text costs few statements and delays nobody
 * for long. Requests share data here, but never promises: a request must not wait for the I/O of another one.
 */
export class LookUps<Found> {
  readonly #found = new Map<string, Found>();
  #missed = new Map<string, number>();
  readonly #failed = new Map<string, unknown>();
  readonly #waiting = new Map<string, string>();
  /** The statements that run, and the texts that each looks for. */
  readonly #running = new Map<number, { since: number; hashes: ReadonlySet<string> }>();
  #started = 0;

  /** Returns what was found for a text before. A result never changes after it has been found. */
  known(hash: string): Found | undefined {
    return this.#found.get(hash);
  }

  /** Takes note of a text that was just imported. */
  note(hash: string, found: Found): void {
    keep(this.#found, hash, found);
  }

  /** Looks for a text. `hash`: its hash. Throws if the statement fails, or if too many texts wait. */
  async find(hash: string, text: string, lookUpAll: LookUpAll<Found>): Promise<Found | null> {
    for (let isFirst = true; ; isFirst = false) {
      const found = this.#found.get(hash);
      if (found) return found;
      if (this.#isMissed(hash)) return null;
      if (!isFirst && this.#failed.has(hash)) throw this.#failed.get(hash);
      if (!this.#isAsked(hash) && !this.#waiting.has(hash)) {
        if (this.#waiting.size >= maxWaiting) throw new Error("too many look-ups are waiting");
        this.#failed.delete(hash);
        this.#waiting.set(hash, text);
      }
      if (this.#waiting.has(hash) && this.#running.size < maxStatements) await this.#ask(lookUpAll);
      else await new Promise((resolve) => setTimeout(resolve, pollMs));
    }
  }

  #isAsked(hash: string): boolean {
    let isAsked = false;
    for (const [id, { since, hashes }] of this.#running) {
      if (Math.abs(Date.now() - since) > interruptedMs) this.#running.delete(id);
      else isAsked ||= hashes.has(hash);
    }
    return isAsked;
  }

  async #ask(lookUpAll: LookUpAll<Found>): Promise<void> {
    const asked = [...this.#waiting].slice(0, maxAtOnce);
    const id = ++this.#started;
    this.#running.set(id, { since: Date.now(), hashes: new Set(asked.map(([hash]) => hash)) });
    for (const [hash] of asked) this.#waiting.delete(hash);
    try {
      const found = await lookUpAll(asked.map(([, text]) => text));
      asked.forEach(([hash], at) => {
        const value = found[at] ?? null;
        if (value === null) keep(this.#missed, hash, Date.now());
        else keep(this.#found, hash, value);
      });
    } catch (error) {
      for (const [hash] of asked) keep(this.#failed, hash, error);
    }
    this.#running.delete(id);
  }

  #isMissed(hash: string): boolean {
    const missedAt = this.#missed.get(hash);
    return missedAt !== undefined && Math.abs(Date.now() - missedAt) < missedMs;
  }
}

/** Adds an entry, and deletes the oldest one if there are too many. */
function keep<Value>(map: Map<string, Value>, hash: string, value: Value): void {
  map.delete(hash);
  if (map.size >= maxKept) map.delete(map.keys().next().value as string);
  map.set(hash, value);
}
