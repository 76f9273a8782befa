import type { Budgets } from "../budget/budgets.ts";
import type { Holding, LeaseReturn } from "../budget/holding.ts";
import type { FixedPeriod, Limit, LimitUsage, Period, SharedUsage } from "../budget/limits.ts";
import { secondMs } from "../lib/time/clock.ts";
import { AccountUnits } from "./account-units.ts";
import { type Admission, type AdmissionRequest, type KeyConfig, type Lease, limitsOf } from "./decision.ts";
import { isNearLimit } from "./events.ts";
import {
  addLease,
  type Counted,
  type Leases,
  lastEnd,
  leaseTerms,
  outdate,
  recoveredLeases,
  type StoredLeases,
  settle,
  unitsOut,
  withLaterMark,
} from "./lease.ts";
import type { LimitEvents } from "./limit-events.ts";
import type { LoadedKey } from "./loaded-key.ts";
import {
  afterQuiet,
  countUnits,
  isAhead,
  largestBlock,
  leftIn,
  recoveredWindows,
  releaseReservation,
  roomFrom,
  type StoredWindows,
  storedForm,
  takeBack,
  unusedWindows,
  usageOf,
  violatedBy,
  type Windows,
  windowsAt,
} from "./window.ts";

const quietMs = 5 * secondMs;
/** A lease has to come back as soon as it ends if less than this share of a limit is left. */
const urgentShare = 10;

/** What belongs to the object of the guard. `now` never goes back. `setAlarmBy`: makes sure that the alarm fires no later than at a time. */
export interface Own {
  keyId: string;
  kv: Pick<SyncKvStorage, "get" | "put">;
  budgets: Budgets;
  events: Pick<LimitEvents, "addDue">;
  /** How long a lease lasts, in milliseconds. 0 if there are none. */
  leaseMs: number;
  now: () => number;
  setAlarmBy: (at: number) => void;
  inBackground: (work: Promise<unknown>) => void;
}

type LeaseWish = Pick<AdmissionRequest, "want" | "leaseMs">;

interface Stored extends StoredWindows {
  holding?: Holding;
  leases?: StoredLeases;
}

/** Counts the units that a key uses of its limits and of its account's, and those that are out with holders of leases. All methods are synchronous. */
export class KeyCounts {
  /** The units that the guard holds of its account's budget. */
  units: AccountUnits;
  readonly #own: Own;
  #windows: Windows;
  #leases: Leases;
  /** The units of leases that were lost, and that no lease has told yet. */
  #wasted = 0;
  #lastCountedAt = 0;
  #isErased: boolean;
  /** Whether the counts have to be stored before the next answer. */
  #isUnstored = false;

  constructor(own: Own, config: KeyConfig | undefined) {
    this.#own = own;
    this.#isErased = own.kv.get("erased") === true;
    const stored = own.kv.get<Stored>("window");
    this.units = this.#unitsFrom(stored?.holding);
    this.#leases = recoveredLeases(stored?.leases, own.now());
    this.#windows = stored && config ? recoveredWindows(stored, limitsOf(config), own.now()) : unusedWindows;
  }

  /** Counts a request in all windows of the key and of its account, or in none of them. Returns null if the guard first has to ask for units. */
  count(
    { config, limits, shared }: LoadedKey,
    cost: number,
    now: number,
    isAnswered: boolean,
  ): Pick<Admission, "refusal" | "violation"> | null {
    if (limits.some(({ limit }) => cost > limit) || shared.limits.some(({ limit }) => cost > limit))
      return { refusal: "cost_exceeds_limit" };
    const current = windowsAt(this.#windows, limits, now);
    const before = now >= this.#lastCountedAt + quietMs ? afterQuiet(current) : current;
    const violated = violatedBy(before, limits, cost, now);
    const isShared = shared.limits.length > 0;
    if (violated.length > 0) {
      // After a crash, the whole reservation counts as used. A window may therefore be full although its events do not exist yet.
      this.#notify(config, limits, now);
      const isShort = isShared && !this.units.holds(shared, { cost, now, isAnswered });
      const ofAccount = isShort ? this.units.refusalOf(shared, cost, now) : noRefusal;
      // The response names all limits without room, so a client that waits as long as it says is not refused by another limit then.
      return ofAccount && refusedBy(violated, roomFrom(before, limits, cost, violated), ofAccount);
    }
    const after = countUnits(before, limits, cost, now);
    const ofAccount = isShared ? this.units.spend(shared, { cost, now, isAnswered, ahead: largestBlock }) : "used";
    if (ofAccount === "short") {
      const refusal = this.units.refusalOf(shared, cost, now);
      return refusal && refusedBy([], now, refusal);
    }
    this.#windows = after;
    this.#isUnstored ||= ofAccount === "reserved" || after.reservations !== before.reservations;
    this.#lastCountedAt = now;
    if (isShared) this.units.refill(shared, now, this.#own.inBackground);
    if (isNearLimit(after, limits)) this.#notify(config, limits, now);
    if (this.#isAhead) this.#own.setAlarmBy(now + quietMs);
    return { refusal: null };
  }

  /** Counts units for a lease. `want`: see `leaseTerms`. `leaseMs`: how long it may last. Returns null if there is no lease. */
  lease({ config, limits, shared }: LoadedKey, { want = 0, leaseMs = this.#own.leaseMs }: LeaseWish, now: number): Lease | null {
    const hasBuckets = limits.some(({ per }) => per === "second" || per === "minute");
    if (want < 1 || this.#own.leaseMs === 0 || this.#isErased || hasBuckets) return null;
    const current = windowsAt(this.#windows, limits, now);
    const isShared = shared.limits.length > 0;
    const left = Math.min(leftIn(current, limits), isShared ? this.units.leasable(shared) : Number.POSITIVE_INFINITY);
    const ends = [...usageOf(current, limits, now), ...(isShared ? this.units.usage(shared, now) : [])].map(({ resetsAt }) => resetsAt);
    const { expiresAt, overlapEndsAt } = config;
    const endsOfKey = [expiresAt, overlapEndsAt !== null && overlapEndsAt > now ? overlapEndsAt : null].filter((end) => end !== null);
    const endsAt = { windows: Math.min(...ends), key: Math.min(...ends, ...endsOfKey) };
    const terms = leaseTerms(this.#leases, { want, left, endsAt, leaseMs }, now);
    const ofAccount = terms && isShared ? this.units.lease(shared, terms.units, now) : [];
    if (!terms || !ofAccount) return null;
    this.#windows = countUnits(current, limits, terms.units, now);
    const counted: Counted[] = [...this.#windows.fixed.map(({ per, startsAt }) => ({ per, startsAt })), ...ofAccount];
    const id = crypto.randomUUID();
    const { leasedUntil } = this.#leases;
    this.#leases = addLease(this.#leases, { id, ...terms, counted }, leaseMs, now);
    this.#isUnstored ||= isShared || this.#windows.reservations !== current.reservations || this.#leases.leasedUntil !== leasedUntil;
    this.#lastCountedAt = now;
    if (this.#isAhead) this.#own.setAlarmBy(now + quietMs);
    const wasted = this.#wasted;
    this.#wasted = 0;
    return { id, ...terms, config, wasted, isUrgent: limits.some(({ limit }) => left < limit / urgentShare) };
  }

  /** Takes back what holders did not use of their leases, and forgets leases that nobody has returned in time. */
  settle(returns: readonly LeaseReturn[], now: number, key: LoadedKey | null = null): void {
    const { leases, settled } = settle(this.#leases, returns, now);
    this.#leases = leases;
    for (const lease of settled) {
      this.#windows = takeBack(this.#windows, lease.counted.filter(isOfKey), lease.unused);
      this.units.endLease(lease);
      if (lease.isLost) this.#wasted += lease.units;
    }
    // Units that were out did not count for the events of a limit.
    if (key && settled.length > 0 && isNearLimit(this.#windows, key.limits)) this.#notify(key.config, key.limits, now);
  }

  /** Returns the time until the last lease has ended, in milliseconds. */
  leasedForMs(now: number): number {
    return Math.max(0, lastEnd(this.#leases) - now);
  }

  /** Returns the time until the last lease of an earlier configuration has ended, in milliseconds. */
  outdatedForMs(now: number): number {
    return Math.max(0, this.#leases.outdatedUntil - now);
  }

  /** Notes that the configuration has changed. */
  outdateLeases(): void {
    this.#leases = outdate(this.#leases);
  }

  /** Returns the refusal of a request by limits of the key, or null if they have room. Counts nothing. */
  refuse({ limits }: LoadedKey, cost: number, now: number): Pick<Admission, "refusal" | "violation"> | null {
    const windows = windowsAt(this.#windows, limits, now);
    const violated = violatedBy(windows, limits, cost, now);
    return violated.length === 0 ? null : refusedBy(violated, roomFrom(windows, limits, cost, violated), noRefusal);
  }

  /** Returns what is used of each limit. Units that are out with holders of leases count as used. */
  used(limits: readonly Limit[], now: number): LimitUsage[] {
    return usageOf(windowsAt(this.#windows, limits, now), limits, now);
  }

  /** Returns what is used of each limit, and of the limits of the account. Units that are out with holders of leases do not count. */
  usage({ limits, shared }: LoadedKey, now: number): { limits: LimitUsage[]; shared: SharedUsage[] } {
    return { limits: this.#reported(limits, now), shared: this.units.usage(shared, now, false) };
  }

  /** If no request was counted in the last 5 s, releases the unused part of the reservation. Otherwise sets an alarm to try again later. */
  releaseUnused(now: number): void {
    if (!this.#isAhead) return;
    const quietAt = this.#lastCountedAt + quietMs;
    if (now < quietAt) this.#own.setAlarmBy(quietAt);
    else {
      this.#windows = releaseReservation(this.#windows);
      this.units.releaseReservations();
      this.#persist();
    }
  }

  /** Forgets all counts, and stores none anymore. Returns what has to stay on disk: when the last lease ends. */
  erase(): Stored {
    this.#isErased = true;
    this.#windows = unusedWindows;
    this.units = this.#unitsFrom(undefined);
    this.outdateLeases();
    const { leasedUntil, leaseMs } = this.#leases;
    return { ...storedForm(unusedWindows), leases: { leasedUntil, leaseMs } };
  }

  /** Stores the counts, if an answer depends on them. The platform sends the answer only after this write is on disk. */
  store(): void {
    if (this.#isUnstored) this.#persist();
  }

  #reported(limits: readonly Limit[], now: number): LimitUsage[] {
    const windows = windowsAt(this.#windows, limits, now);
    return usageOf(windows, limits, now).map((usage) => {
      const window = windows.fixed.find(({ per }) => per === usage.per);
      return window ? { ...usage, used: usage.used - unitsOut(this.#leases, window) } : usage;
    });
  }

  /** When a request makes the count reach a threshold, its event is stored in the same synchronous step. */
  #notify(config: KeyConfig, limits: readonly Limit[], now: number): void {
    if (this.#own.events.addDue(this.#own.keyId, config, this.#reported(limits, now), now)) this.#own.setAlarmBy(now);
  }

  #unitsFrom(stored: Holding | undefined): AccountUnits {
    return new AccountUnits(this.#own.keyId, this.#own, stored, () => this.#persist());
  }

  get #isAhead(): boolean {
    return isAhead(this.#windows) || this.units.isReservedAhead;
  }

  /** Stores the windows, the units of the account and the end of the leases as one value. */
  #persist(): void {
    this.#isUnstored = false;
    if (this.#isErased) return;
    const holding = this.units.stored;
    this.#leases = withLaterMark(this.#leases, this.#own.now());
    const { leasedUntil, leaseMs } = this.#leases;
    const leases = leasedUntil > 0 && { leases: { leasedUntil, leaseMs } };
    this.#own.kv.put("window", { ...storedForm(this.#windows), ...(holding && { holding }), ...leases });
  }
}

const isOfKey = ({ nonce }: Counted): boolean => nonce === undefined;

const noRefusal = { periods: [], roomFrom: 0 };

/** Returns a refusal by limits of the key, and by limits of its account. */
const refusedBy = (periods: readonly Period[], from: number, ofAccount: { periods: readonly FixedPeriod[]; roomFrom: number }) => ({
  refusal: "rate_limit_exceeded" as const,
  violation: {
    periods,
    ...(ofAccount.periods.length > 0 && { shared: ofAccount.periods }),
    roomFrom: Math.max(from, ofAccount.roomFrom),
  },
});
