import { secondMs } from "../time/clock.ts";
import { withDeadline } from "../time/deadline.ts";
import type { AccountConfig, BudgetAnswer, Budgets } from "./account-budget.ts";
import {
  type AccountLimit,
  accept,
  askOf,
  firstPace,
  giveBack,
  type Holding,
  isLow,
  isReservedAhead,
  paceAt,
  type Recall,
  recalled,
  recoveredHolding,
  type Said,
  saidBy,
  settled,
  spend,
} from "./rights.ts";
import { endOf, type FixedPeriod, type LimitUsage, startOf } from "./window.ts";

const askTimeoutMs = 4 * secondMs;
/** The time for which a guard remembers that the budget had no units, in milliseconds. */
const refusedMs = secondMs;

/** The account of a key, and the limits that its keys share. */
export interface SharedLimits {
  accountId: string;
  limits: readonly AccountLimit[];
}

/** A refusal by the limits of the account. `need`: the cost that the budget had no units for. `roomFrom`: the time at which new windows begin. */
interface Refusal {
  need: number;
  periods: readonly FixedPeriod[];
  roomFrom: number;
  until: number;
}

/**
 * The units that the guard of a key holds of its account's budget. All methods but `ask` are synchronous. `persist` is called when the holding has to be
 * stored. The platform sends nothing from the object before that write is on disk.
 */
export class AccountUnits {
  readonly #keyId: string;
  readonly #budgets: Budgets;
  readonly #persist: () => void;
  #holding: Holding | null;
  #pace = firstPace;
  #asking: Promise<AccountConfig> | null = null;
  #refusal: Refusal | null = null;
  /** The last answer of the budget, and the time of the answer. */
  #answer: { grant: BudgetAnswer["grant"]; at: number } | null = null;

  constructor(keyId: string, budgets: Budgets, stored: Holding | undefined, persist: () => void) {
    [this.#keyId, this.#budgets, this.#persist] = [keyId, budgets, persist];
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
  spend(
    { limits }: SharedLimits,
    options: { cost: number; now: number; isAnswered: boolean; ahead: number },
  ): "short" | "used" | "reserved" {
    const next = this.#holding && spend(this.#holding, { ...options, periods: limits.map(({ per }) => per) });
    if (!next) return "short";
    const isNew = next.shares.some(({ reserved }, at) => reserved !== this.#holding?.shares[at]?.reserved);
    this.#holding = next;
    return isNew ? "reserved" : "used";
  }

  /** If the guard runs low, asks the budget for more units while requests go on. */
  refill({ accountId }: SharedLimits, now: number, inBackground: (work: Promise<unknown>) => void): void {
    if (!this.#holding || this.#asking !== null || !isLow(this.#holding, this.#pace)) return;
    const hasRest = this.#answer?.grant.every(({ rest }) => rest > 0) ?? true;
    if (!hasRest && now < (this.#answer?.at ?? 0) + refusedMs) return;
    inBackground(this.ask(accountId, 0, now).catch(() => {}));
  }

  /**
   * Asks the budget for units. A request that waits asks for at least `need`. Returns the limits of the account that the budget knows. The caller then decides
   * again. Throws if the budget does not answer.
   */
  ask(accountId: string, need: number, now: number): Promise<AccountConfig> {
    this.#asking ??= this.#askNow(accountId, need, now).finally(() => {
      this.#asking = null;
    });
    return this.#asking;
  }

  /** Returns why a request cannot get units, or null if the guard does not know. */
  refusalOf(cost: number, now: number): Refusal | null {
    return this.#refusal && cost >= this.#refusal.need && now < this.#refusal.until ? this.#refusal : null;
  }

  /** Forgets that the budget had no units. Called when the limits of the account have changed. */
  forgetRefusal(): void {
    this.#refusal = null;
  }

  /** Returns all unused units to the budget. Returns what the budget has to be told after the holding is stored. */
  recall(recall: Recall): Said {
    this.#holding = recalled(this.#newHolding(), recall);
    this.#persist();
    return saidBy(this.#holding);
  }

  /** Returns all unused units, because the key cannot be used anymore. If the message is lost, the budget recalls the units when it needs them. */
  giveBack(accountId: string): void {
    if (!this.#holding) return;
    this.#holding = giveBack(this.#holding);
    this.#persist();
    this.#budgets
      .getByName(accountId)
      .hear(this.#keyId, saidBy(this.#holding))
      .catch(() => {});
  }

  /** Says what the guard has used. */
  said(): Said {
    return saidBy(this.#newHolding());
  }

  get isReservedAhead(): boolean {
    return this.#holding !== null && isReservedAhead(this.#holding);
  }

  /** Releases the unused part of the reservation. */
  settle(): void {
    if (this.#holding) this.#holding = settled(this.#holding);
  }

  /**
   * Returns what is used of each limit of the account. The guard knows its own units, and what the budget had left when it last answered. The figure is
   * therefore an estimate.
   */
  usage({ limits }: SharedLimits, now: number): (LimitUsage & { per: FixedPeriod })[] {
    return limits.map(({ per, limit }) => {
      const share = this.#holding?.shares.find((each) => each.per === per);
      if (!share || now >= endOf(share)) return { per, limit, used: 0, resetsAt: endOf({ per, startsAt: startOf[per](now) }) };
      const known = this.#answer?.grant.find((each) => each.per === per && each.startsAt === share.startsAt);
      const left = share.got - share.returned - share.used + (known?.rest ?? 0);
      return { per, limit, used: Math.min(limit, Math.max(0, limit - left)), resetsAt: endOf(share) };
    });
  }

  async #askNow(accountId: string, need: number, now: number): Promise<AccountConfig> {
    const holding = this.#newHolding();
    if (isLow(holding, this.#pace)) this.#pace = paceAt(this.#pace, now);
    const question = askOf(holding, need, this.#pace.want);
    const answer = await withDeadline(this.#budgets.getByName(accountId).ask(this.#keyId, question), askTimeoutMs, "Asking a budget");
    if (answer === null) throw new Error("the budget of the account does not accept this guard");
    this.#take(answer, need);
    return answer.config;
  }

  #take({ grant, isEnough }: BudgetAnswer, need: number): void {
    const now = Date.now();
    this.#holding = accept(this.#newHolding(), grant);
    this.#answer = { grant, at: now };
    this.#persist();
    if (isEnough) return;
    const { shares } = this.#holding;
    const isShort = ({ per, startsAt, rest }: BudgetAnswer["grant"][number]) => {
      const share = shares.find((each) => each.per === per && each.startsAt === startsAt);
      return (share ? share.got - share.returned - share.used : 0) + rest < need;
    };
    const short = grant.filter(isShort);
    const violated = short.length > 0 ? short : grant;
    this.#refusal = {
      need,
      periods: violated.map(({ per }) => per),
      roomFrom: Math.max(...violated.map(endOf)),
      until: Math.min(now + refusedMs, ...violated.map(endOf)),
    };
  }

  /** Returns the holding. A guard without one begins a new life. */
  #newHolding(): Holding {
    this.#holding ??= { nonce: crypto.randomUUID(), shares: [] };
    return this.#holding;
  }
}
