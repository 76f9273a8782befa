import type { Budgets } from "../budget/budgets.ts";
import type { Holding } from "../budget/holding.ts";
import type { FixedPeriod, Limit, LimitUsage, Period, SharedUsage } from "../budget/limits.ts";
import { secondMs } from "../lib/time/clock.ts";
import { AccountUnits } from "./account-units.ts";
import { Attempts } from "./attempts.ts";
import { type Admission, type AdmissionRequest, denialOf, type KeyConfig, limitsOf, type RateLimit, verifiedFactsOf } from "./decision.ts";
import { isNearLimit } from "./events.ts";
import type { LimitEvents } from "./limit-events.ts";
import type { LoadedKey } from "./loaded-key.ts";
import {
  afterQuiet,
  countUnits,
  isAhead,
  largestBlock,
  recoveredWindows,
  releaseReservation,
  roomFrom,
  type StoredWindows,
  storedForm,
  unusedWindows,
  usageOf,
  violatedBy,
  type Windows,
  windowsAt,
} from "./window.ts";

const quietMs = 5 * secondMs;

/** What belongs to the object of the guard. `setAlarmBy`: makes sure that the alarm fires no later than at a time. */
interface Own {
  keyId: string;
  storage: DurableObjectStorage;
  budgets: Budgets;
  events: LimitEvents;
  setAlarmBy: (at: number) => void;
  inBackground: (work: Promise<unknown>) => void;
}

/** Decides on the requests of a key and counts them. All methods are synchronous. */
export class KeyAdmission {
  /** The units that the guard holds of its account's budget. */
  units: AccountUnits;
  readonly #own: Own;
  readonly #attempts = new Attempts();
  #windows: Windows;
  #lastCountedAt = 0;
  #isErased: boolean;

  constructor(own: Own, config: KeyConfig | undefined) {
    this.#own = own;
    this.#isErased = own.storage.kv.get("erased") === true;
    const stored = own.storage.kv.get<StoredWindows & { holding?: Holding }>("window");
    this.units = this.#unitsFrom(stored?.holding);
    this.#windows = stored && config ? recoveredWindows(stored, limitsOf(config), Date.now()) : unusedWindows;
  }

  /** Returns null if the guard first has to ask for units. `isAnswered`: the budget has answered a question that was sent after the request has arrived. */
  decide(key: LoadedKey, request: AdmissionRequest, now: number, isAnswered: boolean): Admission | null {
    const { config, allowed } = key;
    const denied = denialOf(config, allowed, request, now);
    if (denied !== null || !request.counted) return this.#admissionOf(key, request, { refusal: denied }, now);
    if (request.isLook) return this.refuse(key, request, now) ?? this.#admissionOf(key, request, { refusal: null }, now);
    const { attempt, entryId = "" } = request.verification ?? {};
    this.#attempts.expire(now);
    const earlier = attempt && this.#attempts.find(attempt.id, now);
    if (earlier) {
      const refusal = earlier.about === attempt.about ? null : "conflict";
      return this.#admissionOf(key, request, { refusal }, now, refusal === null ? earlier.entryId : entryId);
    }
    const decision = this.#count(key, request.cost, now, isAnswered);
    if (attempt && decision?.refusal === null)
      this.#attempts.add(config.accountId, attempt.id, { about: attempt.about, entryId, countedAt: now });
    return decision && this.#admissionOf(key, request, decision, now);
  }

  /** Returns the refusal of a request by limits of the key, or null if they have room. Counts nothing. */
  refuse(key: LoadedKey, request: AdmissionRequest, now: number): Admission | null {
    const { cost } = request;
    const windows = windowsAt(this.#windows, key.limits, now);
    const violated = violatedBy(windows, key.limits, cost, now);
    if (violated.length === 0) return null;
    return this.#admissionOf(key, request, refusedBy(violated, roomFrom(windows, key.limits, cost, violated), noRefusal), now);
  }

  /** Returns what is used of the hour, and of each limit. */
  usage({ limits, shared }: LoadedKey, now: number): RateLimit & { limits: LimitUsage[]; shared: SharedUsage[] } {
    const used = this.#used(limits, now);
    return { ...hourOf(used), limits: used, shared: this.units.usage(shared, now) };
  }

  /** If no request was counted in the last 5 s, releases the unused part of the reservation. Otherwise sets an alarm to try again later. */
  releaseUnused(now: number): void {
    if (!this.#isAhead) return;
    const quietAt = this.#lastCountedAt + quietMs;
    if (now < quietAt) this.#own.setAlarmBy(quietAt);
    else {
      this.#windows = releaseReservation(this.#windows);
      this.units.releaseReservations();
      this.#persistWindows();
    }
  }

  /** Forgets all counts, and stores none anymore. */
  erase(): void {
    this.#isErased = true;
    this.#windows = unusedWindows;
    this.units = this.#unitsFrom(undefined);
  }

  #admissionOf(
    { config, facts, limits, shared }: LoadedKey,
    { secretHash, verification }: AdmissionRequest,
    decision: Pick<Admission, "refusal" | "violation">,
    now: number,
    entryId = verification?.entryId ?? "",
  ): Admission {
    const secret = secretHash === config.secretHash ? "current" : "previous";
    const used = this.#used(limits, now);
    const admission: Admission = { ...decision, key: facts, rateLimit: hourOf(used), limits: used, secret };
    if (verification) admission.verified = verifiedFactsOf(config, entryId);
    if (shared.limits.length > 0) admission.shared = this.units.usage(shared, now);
    return admission;
  }

  /** Counts a request in all windows of the key and of its account, or in none of them. Returns null if the guard first has to ask for units. */
  #count(
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
    // The platform sends the response only after this write is on disk.
    if (ofAccount === "reserved" || after.reservations !== before.reservations) this.#persistWindows();
    this.#lastCountedAt = now;
    if (isShared) this.units.refill(shared, now, this.#own.inBackground);
    if (isNearLimit(after, limits)) this.#notify(config, limits, now);
    if (this.#isAhead) this.#own.setAlarmBy(now + quietMs);
    return { refusal: null };
  }

  /** When a request makes the count reach a threshold, its event is stored in the same synchronous step. */
  #notify(config: KeyConfig, limits: readonly Limit[], now: number): void {
    if (this.#own.events.addDue(this.#own.keyId, config, this.#used(limits, now), now)) this.#own.setAlarmBy(now);
  }

  #used(limits: readonly Limit[], now: number): LimitUsage[] {
    return usageOf(windowsAt(this.#windows, limits, now), limits, now);
  }

  #unitsFrom(stored: Holding | undefined): AccountUnits {
    return new AccountUnits(this.#own.keyId, this.#own.budgets, stored, () => this.#persistWindows());
  }

  get #isAhead(): boolean {
    return isAhead(this.#windows) || this.units.isReservedAhead;
  }

  /** Stores the windows and the units of the account as one value. */
  #persistWindows(): void {
    if (this.#isErased) return;
    const holding = this.units.stored;
    this.#own.storage.kv.put("window", { ...storedForm(this.#windows), ...(holding && { holding }) });
  }
}

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

/** Returns what is used of the hour. */
function hourOf(limits: readonly LimitUsage[]): RateLimit {
  const hour = limits.find(({ per }) => per === "hour");
  if (!hour) throw new Error("a key has no limit of the hour");
  return { limit: hour.limit, used: hour.used, resetsAt: hour.resetsAt };
}
