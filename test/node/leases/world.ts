import { type Random, randomFrom } from "../../../scripts/seed-random.ts";

/** Time and chance of a simulation. Nothing happens in it by itself: each event runs at its time, and then the promises that wait for it. */
export class World {
  now: number;
  readonly random: Random;
  readonly #events: { at: number; run: () => void }[] = [];

  constructor(seed: number, now: number) {
    this.random = randomFrom(seed);
    this.now = now;
  }

  chance(share: number): boolean {
    return this.random() < share;
  }

  between(from: number, to: number): number {
    return from + this.random() * (to - from);
  }

  pick<Value>(values: readonly Value[]): Value {
    return values[Math.floor(this.random() * values.length)] as Value;
  }

  /** Runs something after a time, in milliseconds. */
  after(ms: number, run: () => void): void {
    const at = this.now + Math.max(0, ms);
    let low = 0;
    for (let high = this.#events.length; low < high; ) {
      const middle = (low + high) >> 1;
      if ((this.#events[middle]?.at ?? 0) <= at) low = middle + 1;
      else high = middle;
    }
    this.#events.splice(low, 0, { at, run });
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.after(ms, resolve));
  }

  /** Runs all events until nothing happens anymore. */
  async run(): Promise<void> {
    for (let event = this.#events.shift(); event; event = this.#events.shift()) {
      this.now = Math.max(this.now, event.at);
      event.run();
      // The promises that wait for the event run before the next event.
      await new Promise(setImmediate);
    }
  }
}
