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

/** The calls at the same time, and the requests that wait for one of them. */
const bounds = { all: [256, 4096], unknown: [128, 2048], account: [16, 496], credential: [16, 112] };
const maxAccounts = 10_000;

/**
 * Shares the slots between customers. The calls of an account have one bound for all its keys. The credentials whose account is not known yet share half
 * of all slots, so made-up credentials leave the other half free.
 */
export class Shares {
  /** The accounts of credentials. The order of the map is the order of use. */
  #accounts = new Map();
  /** The bounds that requests use now. */
  #used = new Map();

  /** Runs `work` with the record of the credential, and returns its result. Returns null if there is no slot before `deadline`. */
  run(id, deadline, work) {
    return this.#within(id, bounds.credential, deadline, (credential) => {
      const account = this.#accounts.get(id);
      const [name, bound] = account === undefined ? ["unknown", bounds.unknown] : [account, bounds.account];
      return this.#within(name, bound, deadline, () => this.#within("all", bounds.all, deadline, () => work(credential)));
    });
  }

  /** Notes the account that an answer names. A 401 removes it, so a revoked key cannot take the slots of its account. */
  note(id, { status, account }) {
    const known = account?.id ?? this.#accounts.get(id);
    this.#accounts.delete(id);
    if (status === 401 || known === undefined) return;
    this.#accounts.set(id, known);
    if (this.#accounts.size > maxAccounts) this.#accounts.delete(this.#accounts.keys().next().value);
  }

  async #within(name, bound, deadline, work) {
    const used = this.#used.get(name) ?? { slots: new Slots(...bound), users: 0, asking: null, deniedAt: Number.NEGATIVE_INFINITY };
    this.#used.set(name, used);
    used.users++;
    try {
      return await used.slots.run(deadline, () => work(used));
    } finally {
      if (--used.users === 0) this.#used.delete(name);
    }
  }
}
