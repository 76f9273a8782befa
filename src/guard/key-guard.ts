import { DurableObject } from "cloudflare:workers";
import { budgetsOf } from "../budget/budgets.ts";
import type { GuardReport, Holding, Recall } from "../budget/escrow.ts";
import type { FixedPeriod, Limit, LimitUsage, Period } from "../budget/limits.ts";
import type { StoredLimits } from "../budget/shared-limits.ts";
import { connect } from "../db/client.ts";
import { messagesOf } from "../db/failures.ts";
import { type AddressRange, parseIpList } from "../lib/net/ip-list.ts";
import { secondMs } from "../lib/time/clock.ts";
import { withDeadline } from "../lib/time/deadline.ts";
import { enqueueVia } from "../outbox/enqueue.ts";
import type { Event } from "../outbox/event.ts";
import { commitEvents } from "../outbox/write-events.ts";
import { AccountUnits, type SharedLimits } from "./account-units.ts";
import { Attempts } from "./attempts.ts";
import {
  type Admission,
  type AdmissionRequest,
  type Busy,
  denialOf,
  factsOf,
  type KeyConfig,
  type KeyFacts,
  limitsOf,
  type RateLimit,
  verifiedFactsOf,
} from "./decision.ts";
import { EventJournal } from "./event-journal.ts";
import { dueLimitEvents, isNearLimit, type Notified } from "./events.ts";
import { readConfig } from "./read-config.ts";
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
const loadTimeoutMs = 5 * secondMs;
const drainTimeoutMs = 5 * secondMs;
/** The time for which a request waits for units of the account, in milliseconds. It is shorter than the time that the Worker waits for the guard. */
const unitsTimeoutMs = 4 * secondMs;
const eventsAtOnce = 500;
const firstRetryMs = secondMs;
const maxRetryMs = 60 * secondMs;

/**
 * The guard of one API key: the only authority that decides which requests with the key may run. An exact limit needs a single place that
 * counts requests, so each key has its own Durable Object. One object per key is enough, because requests of different keys never need to
 * be counted together. If the object crashes during a burst, it resumes counting from the stored reservation. A crash can therefore waste
 * up to 63 requests of the hourly limit, but the key never exceeds the limit.
 */
export class KeyGuard extends DurableObject<Env> {
  readonly #storage: DurableObjectStorage;
  /** The events that D1 has not accepted yet. */
  #events: EventJournal;
  #key: LoadedKey | null = null;
  #isErased: boolean;
  #windows: Windows;
  #units: AccountUnits;
  readonly #attempts = new Attempts();
  /** The rate limit events that already exist for the windows. */
  #notified: Notified;
  /** The latest time that `#now()` has returned, in milliseconds since the epoch. Later calls never return an earlier time. */
  #latest = 0;
  #lastCountedAt = 0;
  #alarmAt: number | null = null;
  #retryMs = firstRetryMs;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#storage = ctx.storage;
    this.#events = new EventJournal(ctx.storage.sql);
    this.#isErased = this.#storage.kv.get("erased") === true;
    const config = this.#storage.kv.get<KeyConfig>("config");
    if (config) this.#key = loadedKey(config);
    this.#notified = this.#storage.kv.get<Notified>("notified") ?? {};
    const stored = this.#storage.kv.get<StoredWindows & { holding?: Holding }>("window");
    this.#units = this.#unitsFrom(stored?.holding);
    this.#windows = stored && config ? recoveredWindows(stored, limitsOf(config), Date.now()) : unusedWindows;
  }

  /**
   * Decides on one request. Returns null if no such key exists, and `Busy` if the guard cannot decide now. It never throws, so an error always means that the
   * call itself has failed.
   */
  async admit(request: AdmissionRequest): Promise<Admission | Busy | null> {
    try {
      return await this.#admit(request);
    } catch (error) {
      console.error("a guard cannot decide:", messagesOf(error));
      return { busy: true };
    }
  }

  /**
   * Decides on one request. The decision and the counting of the request happen in one synchronous step. If the guard has too few units of the account, it
   * asks the account's budget, and decides again. Returns null if no such key exists.
   */
  async #admit(request: AdmissionRequest): Promise<Admission | null> {
    let key = this.#key ?? (await this.#load());
    const giveUpAt = Date.now() + unitsTimeoutMs;
    const askedBefore = this.#units.asked;
    let isAnswered = false;
    while (key) {
      const admission = this.#decide(key, request, isAnswered);
      if (admission !== null) return admission;
      if (Date.now() > giveUpAt) throw new Error("the budget of the account has handed all units to other requests");
      try {
        const { config, question } = await this.#units.ask(key.shared, request.cost, this.#now());
        this.#takeOver(config);
        isAnswered = question > askedBefore;
      } catch (error) {
        // Without the budget, a request can still be refused by the limits of its key.
        const refusal = this.#refuse(key, request);
        if (refusal === null) throw error;
        return refusal;
      }
      key = this.#key;
    }
    return null;
  }

  /**
   * Applies a configuration, unless the same or a newer version is already in force. The limits of the account have a version of their own. Every `admit` call
   * that starts after this method has returned uses the new configuration. Returns the configuration in force. If a later change was applied first or D1 was
   * restored to an earlier state, a returned revision differs from the given revision. A revoked key stays revoked, even if the given configuration is not
   * revoked.
   */
  configure(config: KeyConfig): KeyConfig {
    if (this.#isErased) return { ...config, ...revoked };
    const known = this.#key?.config;
    if (!known) return this.#apply(config);
    const isNewer = config.version > known.version;
    const newest = isNewer ? (known.state === "revoked" ? { ...config, ...revoked } : config) : known;
    const ofAccount = config.accountVersion > known.accountVersion ? config : known;
    if (newest === known && ofAccount === known) return known;
    return this.#apply({ ...newest, ...accountPart(ofAccount) });
  }

  /** Returns all unused units of the account. The account's budget calls this method when other keys need them, or when a limit was lowered. */
  recall(recall: Recall): GuardReport {
    return this.#isErased ? { nonce: "erased", shares: [] } : this.#units.recall(recall);
  }

  /** Returns what the key has used of the limits of its account. */
  unitsUsed(): GuardReport {
    return this.#isErased ? { nonce: "erased", shares: [] } : this.#units.report();
  }

  /** Returns the configuration in force, or null if no such key exists. */
  async configuration(): Promise<KeyConfig | null> {
    const key = this.#key ?? (await this.#load());
    return key ? key.config : null;
  }

  /**
   * Revokes a key whose row is missing in D1. Raises the version of the key above any version that a restored row can have. Does nothing if
   * no such key exists.
   */
  revoke(): void {
    const known = this.#key?.config;
    if (known && known.state !== "revoked") this.#apply({ ...known, ...revoked, version: known.version + 1 });
  }

  /**
   * Ends the overlap of a key whose row is missing in D1. Raises the version of the key above any version that a restored row can have.
   * Does nothing if the key has no overlap.
   */
  endOverlap(): void {
    const known = this.#key?.config;
    if (known && known.previousSecretHash !== null)
      this.#apply({ ...known, previousSecretHash: null, overlapEndsAt: null, version: known.version + 1 });
  }

  /** Permanently deletes all data about the key. The guard never admits the key again, even if D1 is restored to a state that contains the key. */
  async erase(): Promise<void> {
    this.#isErased = true;
    this.#key = null;
    await this.#storage.deleteAlarm();
    await this.#storage.deleteAll();
    this.#storage.kv.put("erased", true);
    this.#alarmAt = null;
    this.#events = new EventJournal(this.#storage.sql);
    this.#windows = unusedWindows;
    this.#units = this.#unitsFrom(undefined);
    this.#notified = {};
  }

  /** Does nothing. If a call returns, the object can be reached. */
  ping(): void {}

  /** Returns what is used of the hour, and of each limit. Does not count a request. Returns null if no such key exists. */
  async rateLimit(): Promise<(RateLimit & { limits: LimitUsage[]; shared: LimitUsage[] }) | null> {
    const key = this.#key ?? (await this.#load());
    if (!key) return null;
    const now = this.#now();
    const limits = usageOf(windowsAt(this.#windows, key.limits, now), key.limits, now);
    return { ...hourOf(limits), limits, shared: this.#units.usage(key.shared, now) };
  }

  override async alarm(): Promise<void> {
    this.#alarmAt = null;
    try {
      const events = this.#events.oldest(eventsAtOnce);
      // The platform stops retrying an alarm after six failures. This method therefore catches all errors, and sets the next alarm before
      // any step that can fail.
      if (events.length > 0) this.#setAlarmBy(this.#now() + this.#retryMs);
      this.#giveBackUnused(this.#now());
      if (events.length > 0) await this.#drain(events);
    } catch (error) {
      console.error("an alarm of a guard failed:", messagesOf(error));
      this.#setAlarmBy(this.#now() + this.#retryMs);
    }
  }

  #apply(config: KeyConfig): KeyConfig {
    this.#storage.kv.put("config", config);
    this.#key = loadedKey(config);
    this.#units.forgetRefusal();
    if (config.state !== "active") this.#units.giveBack(config.accountId);
    return config;
  }

  /** Takes over the limits of the account that its budget knows. */
  #takeOver({ version, revision, limits }: StoredLimits): void {
    const known = this.#key?.config;
    if (!known || version === known.accountVersion) return;
    if (version < known.accountVersion) throw new Error("the budget of the account does not know the limits that are in force");
    this.#apply({ ...known, accountVersion: version, accountRevision: revision, accountLimits: limits });
  }

  #unitsFrom(stored: Holding | undefined): AccountUnits {
    return new AccountUnits(this.ctx.id.name ?? "", budgetsOf(this.env), stored, () => this.#persistWindows());
  }

  async #load(): Promise<LoadedKey | null> {
    if (this.#isErased) return null;
    const config = await withDeadline(readConfig(connect(this.env.DB), this.ctx.id.name ?? ""), loadTimeoutMs, "Reading a key from D1");
    if (config) this.configure(config);
    return this.#key;
  }

  /** Returns null if the guard first has to ask for units. `isAnswered`: the budget has answered a question that was sent after the request has arrived. */
  #decide(key: LoadedKey, request: AdmissionRequest, isAnswered: boolean): Admission | null {
    const { config, allowed } = key;
    const now = this.#now();
    const denied = denialOf(config, allowed, request, now);
    if (denied !== null || !request.counted) return this.#admissionOf(key, request, { refusal: denied }, now);
    if (request.isLook) return this.#refuse(key, request) ?? this.#admissionOf(key, request, { refusal: null }, now);
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
  #refuse(key: LoadedKey, request: AdmissionRequest): Admission | null {
    const now = this.#now();
    const cost = request.cost;
    const windows = windowsAt(this.#windows, key.limits, now);
    const violated = violatedBy(windows, key.limits, cost, now);
    if (violated.length === 0) return null;
    return this.#admissionOf(key, request, refusedBy(violated, roomFrom(windows, key.limits, cost, violated), noRefusal), now);
  }

  #admissionOf(
    { config, facts, limits, shared }: LoadedKey,
    { secretHash, verification }: AdmissionRequest,
    decision: Pick<Admission, "refusal" | "violation">,
    now: number,
    entryId = verification?.entryId ?? "",
  ): Admission {
    const secret = secretHash === config.secretHash ? "current" : "previous";
    const used = usageOf(windowsAt(this.#windows, limits, now), limits, now);
    const admission: Admission = { ...decision, key: facts, rateLimit: hourOf(used), limits: used, secret };
    if (verification) admission.verified = verifiedFactsOf(config, entryId);
    if (shared.limits.length > 0) admission.shared = this.#units.usage(shared, now);
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
      const isShort = isShared && !this.#units.holds(shared, { cost, now, isAnswered });
      const ofAccount = isShort ? this.#units.refusalOf(shared, cost, now) : noRefusal;
      // The response names all limits without room, so a client that waits as long as it says is not refused by another limit then.
      return ofAccount && refusedBy(violated, roomFrom(before, limits, cost, violated), ofAccount);
    }
    const after = countUnits(before, limits, cost, now);
    const ofAccount = isShared ? this.#units.spend(shared, { cost, now, isAnswered, ahead: largestBlock }) : "used";
    if (ofAccount === "short") {
      const refusal = this.#units.refusalOf(shared, cost, now);
      return refusal && refusedBy([], now, refusal);
    }
    this.#windows = after;
    // The platform sends the response only after this write is on disk.
    if (ofAccount === "reserved" || after.reservations !== before.reservations) this.#persistWindows();
    this.#lastCountedAt = now;
    if (isShared) this.#units.refill(shared, now, (work) => this.ctx.waitUntil(work));
    if (isNearLimit(after, limits)) this.#notify(config, limits, now);
    if (this.#isAhead) this.#setAlarmBy(now + quietMs);
    return { refusal: null };
  }

  /**
   * For each threshold that a fixed window has reached, stores one event per window. When a request makes the count reach a threshold, the
   * event is stored in the same synchronous step.
   */
  #notify(config: KeyConfig, limits: readonly Limit[], now: number): void {
    const used = usageOf(windowsAt(this.#windows, limits, now), limits, now);
    const due = dueLimitEvents(this.ctx.id.name ?? "", config, used, this.#notified, now);
    if (due.events.length === 0) return;
    this.#events.add(due.events);
    this.#notified = due.notified;
    this.#storage.kv.put("notified", this.#notified);
    this.#setAlarmBy(now);
  }

  /** If no request was counted in the last 5 s, releases the unused part of the reservation. Otherwise sets an alarm to try again later. */
  #giveBackUnused(now: number): void {
    if (!this.#isAhead) return;
    const quietAt = this.#lastCountedAt + quietMs;
    if (now < quietAt) {
      this.#setAlarmBy(quietAt);
      return;
    }
    this.#windows = releaseReservation(this.#windows);
    this.#units.releaseReservations();
    this.#persistWindows();
  }

  get #isAhead(): boolean {
    return isAhead(this.#windows) || this.#units.isReservedAhead;
  }

  /** Stores the windows and the units of the account as one value. */
  #persistWindows(): void {
    if (this.#isErased) return;
    const holding = this.#units.stored;
    this.#storage.kv.put("window", { ...storedForm(this.#windows), ...(holding && { holding }) });
  }

  async #drain(events: Event[]): Promise<void> {
    const db = connect(this.env.DB);
    const enqueue = enqueueVia(this.env.DELIVERIES, (work) => this.ctx.waitUntil(work));
    try {
      await withDeadline(commitEvents({ db, enqueue }, events), drainTimeoutMs, "Writing events to D1");
      this.#events.remove(events);
      this.#retryMs = firstRetryMs;
      // The remaining events are written immediately, without a backoff pause.
      if (!this.#events.isEmpty) this.#setAlarmBy(this.#now());
    } catch (error) {
      console.error("a guard cannot write its events to D1:", messagesOf(error));
      this.#retryMs = Math.min(this.#retryMs * 2, maxRetryMs);
    }
  }

  /** Makes sure that the object's alarm fires no later than `at`. */
  #setAlarmBy(at: number): void {
    if (this.#alarmAt !== null && this.#alarmAt <= at) return;
    this.#alarmAt = at;
    this.ctx.waitUntil(this.#storage.setAlarm(at));
  }

  #now(): number {
    this.#latest = Math.max(this.#latest, Date.now());
    return this.#latest;
  }
}

/**
 * A configuration, and values that are derived from the configuration. The values are computed once per configuration, not once per
 * request.
 */
interface LoadedKey {
  config: KeyConfig;
  facts: KeyFacts;
  allowed: readonly AddressRange[];
  limits: readonly Limit[];
  shared: SharedLimits;
}

const loadedKey = (config: KeyConfig): LoadedKey => ({
  config,
  facts: factsOf(config),
  allowed: parseIpList(config.allowedIps),
  limits: limitsOf(config),
  shared: {
    accountId: config.accountId,
    limits: config.accountLimits,
    periods: config.accountLimits.map(({ per }) => per),
    version: config.accountVersion,
  },
});

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

const accountPart = ({ accountVersion, accountRevision, accountLimits }: KeyConfig) => ({ accountVersion, accountRevision, accountLimits });

/** Returns what is used of the hour. */
function hourOf(limits: readonly LimitUsage[]): RateLimit {
  const hour = limits.find(({ per }) => per === "hour");
  if (!hour) throw new Error("a key has no limit of the hour");
  return { limit: hour.limit, used: hour.used, resetsAt: hour.resetsAt };
}

const revoked = { state: "revoked", previousSecretHash: null, overlapEndsAt: null } as const;
