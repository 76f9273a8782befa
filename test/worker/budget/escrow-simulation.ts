import { randomFrom } from "../../../scripts/seed-random.ts";
import { type Budget, budgetAt, grant, grantOf, holdersOf, mergeReport, recallOf } from "../../../src/budget/escrow.ts";
import {
  type Ask,
  accept,
  askOf,
  firstPace,
  type Grant,
  giveBack,
  type Holding,
  isLow,
  isReservedAhead,
  paceAt,
  type Recall,
  recalled,
  recoveredHolding,
  releaseReservations,
  reportBy,
  spend,
} from "../../../src/budget/holding.ts";
import { endOf, type FixedPeriod, type Limit } from "../../../src/budget/limits.ts";

// Simulates the guards of an account's keys and the account's budget, with the functions of `escrow.ts` and `holding.ts`. Messages are lost, repeated and
// late, objects crash at any write and fall asleep, and clocks step. The simulator has its own time, and everything random comes from one seed.

/** Mistakes that can be planted. The checks must find each of them. */
export type Mistake =
  | "grant leaves before it is on disk"
  | "return is told before it is on disk"
  | "grants are added up"
  | "a recall forgets the grant on its way"
  | "unused reservation is free after a crash"
  | "a new incarnation starts with a clean row"
  | "no margin at the end of a window"
  | "lowering does not recall"
  | "spending ignores one window"
  | "a removed limit forgets its units";

export interface Setup {
  guards: number;
  limits: readonly (Limit & { per: FixedPeriod })[];
  /** The share of messages that are lost, repeated or late by seconds. */
  loss: number;
  repeats: number;
  late: number;
  /** The chance that an object crashes at a write. */
  crashes: number;
  /** The chance that a crash also loses the storage of a guard. */
  lostDisks: number;
  /** How far the clock of an object may be off, in milliseconds. */
  clockError: number;
  mistake?: Mistake;
}

/** What happened in a run. */
export interface Outcome {
  admitted: number;
  refused: number;
  unavailable: number;
  violations: string[];
  calls: number;
  requests: number;
}

const startMs = Date.UTC(2026, 10, 30, 23, 58);

/** The time of the simulation, and everything that happens in it. */
class Time {
  now = 0;
  readonly random: () => number;
  #next = 0;
  #queue: { at: number; order: number; run: () => void }[] = [];

  constructor(seed: number) {
    this.random = randomFrom(seed);
  }

  after(ms: number, run: () => void): void {
    const item = { at: this.now + Math.max(0, ms), order: this.#next++, run };
    // A binary search keeps the queue sorted, latest first.
    let [low, high] = [0, this.#queue.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const other = this.#queue[middle];
      if (other && (other.at > item.at || (other.at === item.at && other.order > item.order))) low = middle + 1;
      else high = middle;
    }
    this.#queue.splice(low, 0, item);
  }

  runUntil(end: number): void {
    for (let item = this.#queue.at(-1); item && item.at <= end; item = this.#queue.at(-1)) {
      this.#queue.pop();
      this.now = item.at;
      item.run();
    }
    this.now = end;
  }
}

/** An object with memory, a disk and an output gate: what it sends leaves only after its writes are on disk. */
abstract class SimulatedObject<Stored> {
  protected readonly time: Time;
  protected readonly setup: Setup;
  protected onDisk: Stored | undefined;
  #incarnation = 0;
  #written = 0;
  #durable = 0;
  #gated: { after: number; run: () => void }[] = [];
  #skew: number;
  #latest = 0;

  constructor(time: Time, setup: Setup) {
    this.time = time;
    this.setup = setup;
    this.#skew = this.#newSkew();
  }

  /** Rebuilds the memory from the disk. */
  protected abstract wake(): void;

  /** The clock of the object. It never goes back while the object incarnations. */
  protected clock(): number {
    this.#latest = Math.max(this.#latest, startMs + this.time.now + this.#skew);
    return this.#latest;
  }

  /** The clock steps. */
  step(): void {
    this.#skew = this.#newSkew();
  }

  protected write(value: Stored): void {
    const [incarnation, write] = [this.#incarnation, ++this.#written];
    if (this.time.random() < this.setup.crashes)
      this.later(this.time.random() * 8, () => this.crash(this.time.random() < this.setup.lostDisks));
    this.time.after(2 + this.time.random() * 6, () => {
      if (this.#incarnation !== incarnation || write <= this.#durable) return;
      [this.onDisk, this.#durable] = [value, write];
      const ready = this.#gated.filter(({ after }) => after <= write);
      this.#gated = this.#gated.filter(({ after }) => after > write);
      for (const { run } of ready) run();
    });
  }

  /** Runs `run` when all writes until now are on disk. If the object crashes before, it never runs. */
  protected send(run: () => void, isUngated = false): void {
    if (isUngated || this.#durable >= this.#written) run();
    else this.#gated.push({ after: this.#written, run });
  }

  /** Runs `run` after a time, if the object incarnations then. */
  protected later(ms: number, run: () => void): void {
    const incarnation = this.#incarnation;
    this.time.after(ms, () => {
      if (this.#incarnation === incarnation) run();
    });
  }

  get incarnation(): number {
    return this.#incarnation;
  }

  crash(losesDisk = false): void {
    this.#incarnation++;
    [this.#written, this.#durable, this.#gated, this.#latest] = [0, 0, [], 0];
    this.#skew = this.#newSkew();
    if (losesDisk && this.mayLoseDisk) this.onDisk = undefined;
    this.wake();
  }

  protected get mayLoseDisk(): boolean {
    return false;
  }

  #newSkew(): number {
    return (2 * this.time.random() - 1) * this.setup.clockError;
  }
}

const callTimeoutMs = 1500;

/** Sends a message, and its answer back. The message or the answer may be lost, repeated or late. `answer`: gets null if no answer came in time. */
function call<Answer>(
  time: Time,
  { loss, repeats, late }: Setup,
  from: { incarnation: number },
  deliver: (reply: (answer: Answer) => void) => void,
  answer: (given: Answer | null) => void,
): void {
  const incarnation = from.incarnation;
  let isOver = false;
  const end = (given: Answer | null) => {
    if (isOver) return;
    isOver = true;
    if (from.incarnation === incarnation) answer(given);
  };
  const delay = () => 3 + time.random() * 20 + (time.random() < late ? time.random() * 4000 : 0);
  const arrive = () =>
    deliver((given) => {
      if (time.random() >= loss) time.after(delay(), () => end(given));
    });
  time.after(callTimeoutMs, () => end(null));
  if (time.random() >= loss) time.after(delay(), arrive);
  if (time.random() < repeats) time.after(delay() + time.random() * 3000, arrive);
}

type Labels = readonly { per: FixedPeriod; startsAt: number }[];
type Result = "admitted" | "refused" | "unavailable";
interface Answer {
  grant: Grant | null;
  isEnough: boolean;
}

/** The units that a reservation takes beyond its request, if the guard holds enough. */
const ahead = 63;
/** The time for which a request waits for units. */
const unitsTimeoutMs = 4000;
const sleepsAfterMs = 10_000;
const quietMs = 5000;

class Guard extends SimulatedObject<Holding> {
  readonly id: string;
  readonly #budget: Parent;
  #periods: readonly FixedPeriod[];
  #holding: Holding = { nonce: "", shares: [] };
  #waiting: ((answer: Answer | null, need: number) => void)[] | null = null;
  #usedAt = 0;
  #isWatched = false;
  #pace = firstPace;
  calls = 0;
  /** The units that were used too late. */
  readonly late: string[] = [];

  constructor(time: Time, setup: Setup, id: string, budget: Parent) {
    super(time, setup);
    [this.id, this.#budget, this.#periods] = [id, budget, setup.limits.map(({ per }) => per)];
    this.wake();
  }

  protected override get mayLoseDisk(): boolean {
    return true;
  }

  protected override wake(): void {
    const stored = this.onDisk;
    const isFree = this.setup.mistake === "unused reservation is free after a crash";
    if (stored) this.#holding = isFree ? stored : recoveredHolding(stored);
    else {
      this.#holding = { nonce: `${this.id} ${this.time.random()}`, shares: [] };
      this.write(this.#holding);
    }
    [this.#waiting, this.#isWatched] = [null, false];
  }

  request(cost: number, done: (result: Result, labels: Labels) => void): void {
    this.#usedAt = this.time.now;
    this.#watch();
    this.#decide(cost, this.time.now + unitsTimeoutMs, false, done);
  }

  #decide(cost: number, giveUpAt: number, isAnswered: boolean, done: (result: Result, labels: Labels) => void): void {
    const { mistake } = this.setup;
    const periods = mistake === "spending ignores one window" ? this.#periods.slice(0, 1) : this.#periods;
    const noMargin = isAnswered || mistake === "no margin at the end of a window";
    const next = spend(this.#holding, { periods, cost, now: this.clock(), isAnswered: noMargin, ahead });
    if (next) {
      const isNew = next.shares.some(({ reserved }, at) => reserved !== this.#holding.shares[at]?.reserved);
      this.#holding = next;
      if (isNew) this.write(this.#holding);
      // Without asking, a guard uses only units of windows that are open by the clock of the budget.
      if (!isAnswered)
        for (const share of next.shares.filter(({ per }) => periods.includes(per)))
          if (this.#budget.now() >= endOf(share)) this.late.push(`a unit of an ended ${share.per}`);
      const labels = next.shares.filter(({ per }) => this.#periods.includes(per));
      this.send(() => done("admitted", labels));
      if (isLow(this.#holding, this.#periods, this.#pace) && this.#waiting === null) this.#ask(0, () => {});
    } else if (this.time.now > giveUpAt) this.send(() => done("unavailable", []));
    else
      this.#ask(cost, (answer, need) => {
        if (answer === null || answer.grant === null) this.send(() => done("unavailable", []));
        else if (!answer.isEnough && cost >= need && !this.#holds(cost)) this.send(() => done("refused", []));
        else this.#decide(cost, giveUpAt, true, done);
      });
  }

  #holds(cost: number): boolean {
    return spend(this.#holding, { periods: this.#periods, cost, now: this.clock(), isAnswered: true, ahead }) !== null;
  }

  #ask(need: number, then: (answer: Answer | null, need: number) => void): void {
    if (this.#waiting) {
      this.#waiting.push(then);
      return;
    }
    this.#waiting = [then];
    if (isLow(this.#holding, this.#periods, this.#pace)) this.#pace = paceAt(this.#pace, this.time.now);
    const question = askOf(this.#holding, { need, want: this.#pace.want, waiting: need, version: 0 });
    this.calls++;
    this.send(() =>
      call<Answer>(
        this.time,
        this.setup,
        this,
        (reply) => this.#budget.ask(this.id, question, reply),
        (answer) => {
          if (answer?.grant) this.#take(answer.grant);
          const waiting = this.#waiting ?? [];
          this.#waiting = null;
          for (const each of waiting) each(answer, need);
        },
      ),
    );
  }

  #take(given: Grant): void {
    if (this.setup.mistake === "grants are added up") {
      const before = new Map(this.#holding.shares.map((share) => [`${share.per} ${share.startsAt}`, share.got]));
      const sums = given.map((each) => ({ ...each, granted: each.granted + (before.get(`${each.per} ${each.startsAt}`) ?? 0) }));
      this.#holding = accept(this.#holding, sums);
    } else this.#holding = accept(this.#holding, given);
    this.write(this.#holding);
  }

  /** Returns all unused units. */
  recall(given: Recall, reply: (report: Pick<Ask, "nonce" | "shares">) => void): void {
    const { mistake } = this.setup;
    this.#holding = mistake === "a recall forgets the grant on its way" ? giveBack(this.#holding) : recalled(this.#holding, given);
    this.write(this.#holding);
    const report = reportBy(this.#holding);
    this.send(() => reply(report), mistake === "return is told before it is on disk");
  }

  /** The limits of the account have changed. */
  configure(periods: readonly FixedPeriod[]): void {
    this.#periods = periods;
    if (this.setup.mistake === "a removed limit forgets its units")
      this.#holding = { ...this.#holding, shares: this.#holding.shares.filter(({ per }) => periods.includes(per)) };
  }

  /** After a quiet period, the guard releases its reservation. Later, it falls asleep and loses its memory. */
  #watch(): void {
    if (this.#isWatched) return;
    this.#isWatched = true;
    const look = () => {
      const quiet = this.time.now - this.#usedAt;
      if (quiet >= sleepsAfterMs) return this.crash();
      if (quiet >= quietMs && isReservedAhead(this.#holding)) {
        this.#holding = releaseReservations(this.#holding);
        this.write(this.#holding);
      }
      this.later(2500, look);
    };
    this.later(2500, look);
  }
}

class Parent extends SimulatedObject<Budget> {
  guards: Guard[] = [];
  #budget: Budget;

  constructor(time: Time, setup: Setup) {
    super(time, setup);
    this.#budget = { limits: setup.limits, windows: [], holders: new Map() };
    this.onDisk = this.#budget;
  }

  protected override wake(): void {
    if (this.onDisk) this.#budget = this.onDisk;
  }

  ask(id: string, question: Ask, reply: (answer: Answer) => void): void {
    if (!this.#mergeReport(id, question)) {
      this.send(() => reply({ grant: null, isEnough: false }));
      return;
    }
    if (this.#grant(id, question, reply)) return;
    const others = holdersOf(this.#budget, id);
    let left = others.length;
    let isOver = false;
    const tryAgain = () => {
      if (isOver) return;
      isOver = true;
      if (!this.#grant(id, question, reply)) this.send(() => reply({ grant: grantOf(this.#budget, id), isEnough: false }));
    };
    if (left === 0) tryAgain();
    for (const other of others)
      this.#recall(other, () => {
        if (--left === 0) tryAgain();
      });
    this.later(1000, tryAgain);
  }

  #grant(id: string, question: Ask, reply: (answer: Answer) => void): boolean {
    const granted = grant(this.#budget, id, question);
    if (granted === null) return false;
    this.#budget = granted.budget;
    this.write(this.#budget);
    this.send(() => reply({ grant: granted.grant, isEnough: true }), this.setup.mistake === "grant leaves before it is on disk");
    return true;
  }

  #mergeReport(id: string, report: Pick<Ask, "nonce" | "shares">): boolean {
    const { mistake } = this.setup;
    this.#budget = budgetAt(this.#budget, this.clock());
    const known = this.#budget.holders.get(id);
    if (known && mistake === "a new incarnation starts with a clean row" && known.nonce !== report.nonce)
      this.#budget = { ...this.#budget, holders: new Map([...this.#budget.holders].filter(([each]) => each !== id)) };
    const reported = mergeReport(this.#budget, id, report);
    if (reported === null) return false;
    this.#budget = reported;
    this.write(reported);
    return true;
  }

  #recall(id: string, done: (isHeard: boolean) => void): void {
    const guard = this.guards.find((each) => each.id === id);
    const given = recallOf(this.#budget, id);
    if (!guard || !given) {
      done(false);
      return;
    }
    this.send(() =>
      call<Pick<Ask, "nonce" | "shares">>(
        this.time,
        this.setup,
        this,
        (reply) => guard.recall(given, reply),
        (report) => done(report !== null && this.#mergeReport(id, report)),
      ),
    );
  }

  now(): number {
    return this.clock();
  }

  /** Changes the limits. If one is new or lower, recalls the units of all guards. Calls `done` when all guards know the new limits. */
  change(limits: Setup["limits"], done: () => void): void {
    const isRaised = limits.every(({ per, limit }) => this.#budget.limits.some((each) => each.per === per && limit >= each.limit));
    this.#budget = budgetAt({ ...this.#budget, limits }, this.clock());
    this.write(this.#budget);
    const ids = isRaised || this.setup.mistake === "lowering does not recall" ? [] : holdersOf(this.#budget);
    let left = ids.length;
    const finish = () => {
      for (const guard of this.guards) guard.configure(limits.map(({ per }) => per));
      this.send(done);
    };
    if (left === 0) finish();
    for (const id of ids) {
      const recall = () =>
        this.#recall(id, (isHeard) => {
          if (!isHeard) this.later(200, recall);
          else if (--left === 0) finish();
        });
      recall();
    }
  }
}

/** What a run does: `requests` requests at random times, and perhaps a lower limit in the middle, or a limit that is removed and set again. */
export interface Plan {
  seed: number;
  requests: number;
  durationMs: number;
  lowerTo?: Setup["limits"];
  removesLimit?: boolean;
}

/** Plays one run. */
export function simulate(setup: Setup, { seed, requests, durationMs, lowerTo, removesLimit }: Plan): Outcome {
  const time = new Time(seed);
  const budget = new Parent(time, setup);
  const guards = Array.from({ length: setup.guards }, (_, number) => new Guard(time, setup, `key_${number}`, budget));
  budget.guards = guards;
  const outcome: Outcome = { admitted: 0, refused: 0, unavailable: 0, violations: [], calls: 0, requests };
  const counts = new Map<string, number>();
  let loweredAt = Number.POSITIVE_INFINITY;
  const check = (labels: Labels, startedAt: number) => {
    for (const { per, startsAt } of labels) {
      const limit = setup.limits.find((each) => each.per === per)?.limit ?? 0;
      const name = `${per} ${startsAt}`;
      const count = (counts.get(name) ?? 0) + 1;
      counts.set(name, count);
      const lower = lowerTo?.find((each) => each.per === per)?.limit ?? limit;
      if (count > limit) outcome.violations.push(`${count} of ${limit} in the ${name}`);
      if (startedAt > loweredAt && count > lower) outcome.violations.push(`${count} of the lower ${lower} in the ${name}`);
    }
  };
  for (let request = 0; request < requests; request++)
    time.after(time.random() * durationMs, () => {
      const startedAt = time.now;
      // Some guards are busier than others.
      const guard = guards[Math.floor(time.random() ** 2 * guards.length)];
      guard?.request(1, (result, labels) => {
        outcome[result]++;
        if (result === "admitted") check(labels, startedAt);
      });
    });
  if (lowerTo)
    time.after(durationMs * (0.2 + 0.6 * time.random()), () =>
      budget.change(lowerTo, () => {
        loweredAt = time.now;
      }),
    );
  else if (removesLimit)
    time.after(durationMs * 0.3, () =>
      budget.change(setup.limits.slice(1), () => time.after(500, () => budget.change(setup.limits, () => {}))),
    );
  if (setup.clockError > 0)
    for (const each of [budget, ...guards]) for (let n = 0; n < 3; n++) time.after(time.random() * durationMs, () => each.step());
  time.runUntil(durationMs + 20_000);
  outcome.violations.push(...guards.flatMap(({ late }) => late));
  outcome.calls = guards.reduce((sum, guard) => sum + guard.calls, 0);
  return outcome;
}
