import type { Budgets } from "../budget/budgets.ts";
import {
  accept,
  askOf,
  type BudgetAnswer,
  endLease,
  firstPace,
  type GuardReport,
  giveBack,
  type Holding,
  heldBy,
  isLow,
  isReservedAhead,
  leftOf,
  paceAt,
  type Recall,
  recalled,
  recoveredHolding,
  releaseReservations,
  reportBy,
  spend,
} from "../budget/holding.ts";
import { type AccountLimit, endOf, type FixedPeriod, type SharedUsage, startOf } from "../budget/limits.ts";
import type { StoredLimits } from "../budget/shared-limits.ts";
import { secondMs } from "../lib/time/clock.ts";
import { withDeadline } from "../lib/time/deadline.ts";
import type { Counted, Settled } from "./lease.ts";
import { largestBlock } from "./window.ts";

const askTimeoutMs = 4 * secondMs;
/** The time for which a guard remembers that the budget had no units, in milliseconds. */
const refusedMs = secondMs;

/** The account of a key, and the limits that its keys share. */
export interface SharedLimits {
  accountId: string;
  limits: readonly AccountLimit[];
  /** The periods of the limits. */
  periods: readonly FixedPeriod[];
  version: number;
}

/** An answer of the budget. `config`: the limits of the account that the budget knows. `question`: the number of the question. */
interface Answered {
  config: StoredLimits;
  question: number;
}

/** The limits of the account that have no room for a request. `roomFrom`: the time at which new windows begin, in milliseconds since the epoch. */
interface Refusal {
  periods: readonly FixedPeriod[];
  roomFrom: number;
}

/**
 * The units that the guard of a key holds of its account's budget. All methods but `ask` are synchronous. `persist` is called when the holding has to be
 * stored. The platform sends nothing from the object before that write is on disk.
 */
export class AccountUnits {
  readonly #keyId: string;
  readonly #budgets: Budgets;
  readonly #now: () => number;
  readonly #persist: () => void;
  #holding: Holding | null;
  #pace = firstPace;
  #asking: Promise<Answered> | null = null;
  /** The number of questions that were sent. */
  #asked = 0;
  /** The units of all requests that wait for an answer. */
  #waiting = 0;
  /** The number of units that the budget did not have, and the time until which the guard does not ask again. */
  #refused: { need: number; until: number } | null = null;
  /** Whether the last answer of the budget brought no more than a request needed. The guard then asks only when a request needs units. */
  #isScarce = false;
  /** Whether the budget has enough units left for leases. */
  #mayLease = false;

  constructor(keyId: string, { budgets, now }: { budgets: Budgets; now: () => number }, stored: Holding | undefined, persist: () => void) {
    [this.#keyId, this.#budgets, this.#now, this.#persist] = [keyId, budgets, now, persist];
    this.#holding = stored ? recoveredHolding(stored) : null;
  }

  /** The holding in its stored form. Absent if the guard has never asked the budget. */
  get stored(): Holding | undefined {
    return this.#holding ?? undefined;
  }

  /**
   * Uses units for a request. Returns "short" if the guard has to ask the budget first. Returns "reserved" if the holding has to be stored before the request
   * may run. `ahead`: see `spend`.
   */
  spend(shared: SharedLimits, options: { cost: number; now: number; isAnswered: boolean; ahead: number }): "short" | "used" | "reserved" {
    const next = this.#holding && spend(this.#holding, { ...options, periods: shared.periods });
    if (!next) return "short";
    const isNew = next.shares.some(({ reserved }, at) => reserved !== this.#holding?.shares[at]?.reserved);
    this.#holding = next;
    return isNew ? "reserved" : "used";
  }

  /** Returns how many units the guard holds that it may give to holders of leases. */
  leasable({ periods }: SharedLimits): number {
    return this.#holding && this.#mayLease ? heldBy(this.#holding, periods) : 0;
  }

  /** Gives units to a holder of a lease. Returns the windows in which they count, or null if the guard holds too few units. The caller stores the holding. */
  lease({ periods }: SharedLimits, units: number, now: number): Counted[] | null {
    const next =
      this.#holding && spend(this.#holding, { periods, cost: units, now, isAnswered: false, ahead: largestBlock, isLease: true });
    if (!next) return null;
    this.#holding = next;
    const counted = next.shares.filter(({ per }) => periods.includes(per));
    return counted.map(({ per, startsAt }) => ({ per, startsAt, nonce: next.nonce }));
  }

  /** Takes back the unused units of a lease. */
  endLease({ counted, units, unused }: Settled): void {
    const own = counted.filter(({ nonce }) => nonce === this.#holding?.nonce);
    if (this.#holding && own.length > 0) this.#holding = endLease(this.#holding, own, units, unused);
  }

  /** If the guard runs low, asks the budget for more units while requests go on. */
  refill(shared: SharedLimits, now: number, inBackground: (work: Promise<unknown>) => void): void {
    if (!this.#holding || this.#isScarce || this.#asking !== null || !isLow(this.#holding, shared.periods, this.#pace)) return;
    inBackground(this.ask(shared, 0, now).catch(() => {}));
  }

  /**
   * The number of questions to the budget so far. An answer only counts for requests that arrived before the
   * question was sent.
   */
  get asked(): number {
    return this.#asked;
  }

  /**
   * Asks the budget for units, or waits for the question in flight. A request that waits asks for at least `need`. The caller then decides again.
   * Throws if the budget does not answer.
   */
  async ask(shared: SharedLimits, need: number, now: number): Promise<Answered> {
    this.#waiting += need;
    try {
      this.#asking ??= this.#askNow(shared, need, now).finally(() => {
        this.#asking = null;
      });
      return await this.#asking;
    } finally {
      this.#waiting -= need;
    }
  }

  /** Returns whether the guard holds enough units for a request. Does not use them. */
  holds(shared: SharedLimits, options: { cost: number; now: number; isAnswered: boolean }): boolean {
    return this.#holding !== null && spend(this.#holding, { ...options, ahead: 0, periods: shared.periods }) !== null;
  }

  /** Returns why a request cannot get units, or null if the guard has to ask. */
  refusalOf({ periods }: SharedLimits, cost: number, now: number): Refusal | null {
    if (!this.#refused || cost < this.#refused.need || now >= this.#refused.until) return null;
    const shares = (this.#holding?.shares ?? []).filter(({ per }) => periods.includes(per));
    const short = shares.filter((share) => leftOf(share) + Math.max(0, share.remaining) < cost);
    const violated = short.length > 0 ? short : shares;
    return { periods: violated.map(({ per }) => per), roomFrom: Math.max(...violated.map(endOf)) };
  }

  /** Forgets that the budget had no units. Called when the limits of the account have changed. */
  forgetRefusal(): void {
    this.#refused = null;
  }

  /** Returns all unused units to the budget. Returns what the budget has to be told after the holding is stored. */
  recall(recall: Recall): GuardReport {
    this.#holding = recalled(this.#newHolding(), recall);
    this.#persist();
    return reportBy(this.#holding);
  }

  /** Returns all unused units, because the key cannot be used anymore. If the message is lost, the budget recalls the units when it needs them. */
  giveBack(accountId: string): void {
    if (!this.#holding) return;
    this.#holding = giveBack(this.#holding);
    this.#persist();
    this.#budgets
      .getByName(accountId)
      .mergeReport(this.#keyId, reportBy(this.#holding))
      .catch(() => {});
  }

  /** Says what the guard has used. */
  report(): GuardReport {
    return reportBy(this.#newHolding());
  }

  get isReservedAhead(): boolean {
    return this.#holding !== null && isReservedAhead(this.#holding);
  }

  /** Releases the unused part of the reservation. */
  releaseReservations(): void {
    if (this.#holding) this.#holding = releaseReservations(this.#holding);
  }

  /**
   * Returns what is used of each limit of the account. The guard knows its own units, and what the budget had left when it last answered. The figure is
   * therefore an estimate. `isLeasedUsed`: whether units that are out with holders of leases count as used.
   */
  usage({ limits }: SharedLimits, now: number, isLeasedUsed = true): SharedUsage[] {
    return limits.map(({ per, limit }) => {
      const share = this.#holding?.shares.find((each) => each.per === per);
      if (!share || now >= endOf(share)) return { per, limit, used: 0, resetsAt: endOf({ per, startsAt: startOf[per](now) }) };
      // What is left is left of the limit that the budget knew. The limit may have changed since.
      const used = share.limit - leftOf(share) - share.remaining - (isLeasedUsed ? 0 : share.leased);
      return { per, limit, used: Math.max(0, used), resetsAt: endOf(share) };
    });
  }

  async #askNow(shared: SharedLimits, need: number, now: number): Promise<Answered> {
    const holding = this.#newHolding();
    if (isLow(holding, shared.periods, this.#pace)) this.#pace = paceAt(this.#pace, now);
    const number = ++this.#asked;
    // Units that are out with holders of leases are no use to a request that waits.
    const leased = Math.max(0, ...holding.shares.filter(({ per }) => shared.periods.includes(per)).map((share) => share.leased));
    const beside = (units: number) => (units === 0 ? 0 : units + leased);
    const asked = { need: beside(need), want: beside(this.#pace.want), waiting: beside(this.#waiting) };
    const question = askOf(holding, { ...asked, version: shared.version });
    const answer = await withDeadline(
      this.#budgets.getByName(shared.accountId).ask(this.#keyId, question),
      askTimeoutMs,
      "Asking a budget",
    );
    if (answer === null) throw new Error("the budget of the account does not accept this guard");
    this.#take(answer, need);
    return { config: answer.config, question: number };
  }

  #take({ grant, isEnough, mayLease, isLeasedOut }: BudgetAnswer, need: number): void {
    const now = this.#now();
    const before = this.#newHolding();
    const gotBefore = (per: FixedPeriod, startsAt: number) =>
      before.shares.find((share) => share.per === per && share.startsAt === startsAt)?.got ?? 0;
    this.#isScarce = grant.some(({ per, startsAt, granted }) => granted - gotBefore(per, startsAt) <= need);
    this.#holding = accept(before, grant);
    this.#persist();
    this.#mayLease = mayLease;
    // Units that are out with holders of leases may come back in a moment.
    if (!isEnough && !isLeasedOut) this.#refused = { need, until: Math.min(now + refusedMs, ...grant.map(endOf)) };
  }

  /** Returns the holding. A guard without one begins a new incarnation, whose nonce is on disk before the budget learns of it. */
  #newHolding(): Holding {
    if (this.#holding) return this.#holding;
    this.#holding = { nonce: crypto.randomUUID(), shares: [] };
    this.#persist();
    return this.#holding;
  }
}
