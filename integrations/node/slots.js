/** A bound on what runs at the same time. What exceeds it waits in a line, which has a bound too. */
export class Slots {
  #free;
  #maxWaiting;
  #waiting = new Set();

  constructor(count, maxWaiting) {
    this.#free = count;
    this.#maxWaiting = maxWaiting;
  }

  /** Runs `work` in a slot, and returns its result. Returns null if no slot is free before `deadline` (of `performance.now()`), or the line is full. */
  async run(deadline, work) {
    if (this.#free > 0) this.#free--;
    else if (this.#waiting.size >= this.#maxWaiting || !(await this.#next(deadline))) return null;
    try {
      return await work();
    } finally {
      const [next] = this.#waiting;
      if (next) next(true);
      else this.#free++;
    }
  }

  #next(deadline) {
    return new Promise((resolve) => {
      const end = (isFree) => {
        clearTimeout(timer);
        this.#waiting.delete(end);
        resolve(isFree);
      };
      const timer = setTimeout(() => end(false), Math.max(0, deadline - performance.now()));
      this.#waiting.add(end);
    });
  }
}
