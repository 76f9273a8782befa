import { later } from "./request.js";

// Sends reports in batches. One report that the Worker does not accept never holds the others back.

const everyMs = 1000;
const atOnce = 500;
/** Batches on their way at the same time, so that a Worker far away takes 20,000 a second. */
const lanes = 4;
const maxWaiting = 50_000;
/** A response can be reported for ten minutes. */
const openMs = 10 * 60_000;
const maxDurationMs = 86_400_000;
const maxRoute = 200;
/** Statuses that say nothing about the reports themselves. The batch waits. */
const waits = [401, 403, 404, 408, 429];
/** A batch is halved at most this often until the next second. */
const maxHalvings = 100;

const clamped = (value, max) => Math.min(Math.max(0, Number(value) || 0), max);

/** Returns the entry of a request that a lease decided, within the bounds of the Worker. */
const entryOf = ({ receipt, ...response }) => ({ ...receipt, ...reportOf({ ...response, receipt: undefined }) });

/** Returns a report within the bounds of the Worker. */
const reportOf = ({ receipt, status, durationMs, route, streaming }) => ({
  receipt,
  status: Number.isInteger(status) && status >= 100 && status <= 599 ? status : 599,
  duration_ms: clamped(durationMs, maxDurationMs),
  ...(route && { route: String(route).slice(0, maxRoute) }),
  ...(streaming && { streaming }),
});

/** The reports of a process that wait. */
export class Reports {
  #post;
  #say;
  #waiting = [];
  #dropped = 0;
  #timer = null;
  #sending = Promise.resolve();
  /** The flush that begins when the one that runs has ended. */
  #next = null;
  #member;

  /** `member`: what is sent, "reports" or "entries". `post`: sends them, and returns the status and the text of the answer, or throws if the Worker cannot be reached. `say`: writes to the log. */
  constructor(member, post, say) {
    this.#member = member;
    this.#post = post;
    this.#say = say;
  }

  stats() {
    return { waiting: this.#waiting.length, dropped: this.#dropped };
  }

  add(given) {
    if (!given.receipt) return;
    this.#waiting.push({ at: Date.now(), report: this.#member === "reports" ? reportOf(given) : entryOf(given) });
    this.#bound();
    this.#schedule();
  }

  #bound() {
    if (this.#waiting.length > maxWaiting) this.#drop(this.#waiting.splice(0, this.#waiting.length - maxWaiting));
  }

  /** Sends all reports that wait. Returns when they are sent, or when the Worker does not take them now. */
  flush() {
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#next ??= this.#sending.then(() => {
      this.#next = null;
      return this.#send();
    });
    this.#sending = this.#next;
    return this.#sending;
  }

  close() {
    const sent = this.flush();
    return sent.then(() => clearTimeout(this.#timer));
  }

  #schedule() {
    this.#timer ??= later(() => this.flush(), everyMs);
  }

  #drop(reports) {
    this.#dropped += reports.length;
  }

  async #send() {
    const isOpen = ({ at }) => Date.now() < at + openMs;
    this.#drop(this.#waiting.filter((each) => !isOpen(each)));
    this.#waiting = this.#waiting.filter(isOpen);
    // What comes meanwhile goes with the next flush, so that each flush ends.
    const left = { count: this.#waiting.length };
    const later = await Promise.all(Array.from({ length: lanes }, () => this.#sendBatches(left)));
    this.#waiting = [...later.flat(), ...this.#waiting];
    this.#bound();
    if (this.#waiting.length > 0) this.#schedule();
  }

  #take(left) {
    const batch = this.#waiting.splice(0, Math.min(atOnce, left.count));
    // Some of them may have been dropped.
    left.count = batch.length === 0 ? 0 : left.count - batch.length;
    return batch;
  }

  /** Sends batches until none of `left` waits, or until the Worker does not take one now. Returns what has to wait. */
  async #sendBatches(left) {
    const batches = [];
    const later = [];
    let halvings = 0;
    while (batches.length > 0 || left.count > 0) {
      const batch = batches.pop() ?? this.#take(left);
      const results = halvings > maxHalvings ? null : await this.#results(batch);
      if (results === null) {
        later.push(batch, ...batches.reverse());
        break;
      }
      if (results === "refused") {
        halvings++;
        const half = Math.ceil(batch.length / 2);
        if (batch.length === 1) this.#drop(batch);
        else batches.push(batch.slice(half), batch.slice(0, half));
        continue;
      }
      // 503: the log writer of these entries could not be reached. All other results are final.
      later.push(batch.filter((_, index) => results[index]?.status === 503));
      this.#drop(batch.filter((_, index) => ![200, 503].includes(results[index]?.status)));
    }
    return later.flat();
  }

  /** Returns the results of a batch, "refused" if the Worker does not accept it as it is, or null if the batch has to wait. */
  async #results(batch) {
    try {
      const { status, text } = await this.#post({ [this.#member]: batch.map(({ report }) => report) });
      if (status === 200) {
        const { data } = JSON.parse(text);
        return Array.isArray(data) ? data : null;
      }
      this.#say(`the Worker responded to ${batch.length} ${this.#member} with ${status}`);
      return status >= 400 && status < 500 && !waits.includes(status) ? "refused" : null;
    } catch (error) {
      this.#say(`${batch.length} ${this.#member} wait: ${error.message}`);
      return null;
    }
  }
}
