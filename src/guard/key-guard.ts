import { DurableObject } from "cloudflare:workers";
import { budgetsOf } from "../budget/budgets.ts";
import type { GuardReport, Recall } from "../budget/holding.ts";
import type { LimitUsage } from "../budget/limits.ts";
import type { StoredLimits } from "../budget/shared-limits.ts";
import { connect } from "../db/client.ts";
import { messagesOf } from "../db/failures.ts";
import { secondMs } from "../lib/time/clock.ts";
import { withDeadline } from "../lib/time/deadline.ts";
import { enqueueVia } from "../outbox/enqueue.ts";
import type { Admission, AdmissionRequest, Busy, KeyConfig, RateLimit } from "./decision.ts";
import { KeyAdmission } from "./key-admission.ts";
import { LimitEvents } from "./limit-events.ts";
import { type LoadedKey, loadedKey } from "./loaded-key.ts";
import { readConfig } from "./read-config.ts";

const loadTimeoutMs = 5 * secondMs;
/** The time for which a request waits for units of the account, in milliseconds. It is shorter than the time that the Worker waits for the guard. */
const unitsTimeoutMs = 4 * secondMs;

/**
 * The guard of one API key: the only authority that decides which requests with the key may run. An exact limit needs a single place that
 * counts requests, so each key has its own Durable Object. One object per key is enough, because requests of different keys never need to
 * be counted together. If the object crashes during a burst, it resumes counting from the stored reservation. A crash can therefore waste
 * up to 63 requests of the hourly limit, but the key never exceeds the limit.
 */
export class KeyGuard extends DurableObject<Env> {
  readonly #storage: DurableObjectStorage;
  readonly #events: LimitEvents;
  readonly #admission: KeyAdmission;
  #key: LoadedKey | null = null;
  #isErased: boolean;
  /** The latest time that `#now()` has returned, in milliseconds since the epoch. Later calls never return an earlier time. */
  #latest = 0;
  #alarmAt: number | null = null;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#storage = ctx.storage;
    this.#events = new LimitEvents(ctx.storage);
    this.#isErased = this.#storage.kv.get("erased") === true;
    const config = this.#storage.kv.get<KeyConfig>("config");
    if (config) this.#key = loadedKey(config);
    const own = { keyId: ctx.id.name ?? "", storage: ctx.storage, budgets: budgetsOf(env), events: this.#events };
    const effects = {
      setAlarmBy: (at: number) => this.#setAlarmBy(at),
      inBackground: (work: Promise<unknown>) => this.ctx.waitUntil(work),
    };
    this.#admission = new KeyAdmission({ ...own, ...effects }, config);
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
    const askedBefore = this.#admission.units.asked;
    let isAnswered = false;
    while (key) {
      const admission = this.#admission.decide(key, request, this.#now(), isAnswered);
      if (admission !== null) return admission;
      if (Date.now() > giveUpAt) throw new Error("the budget of the account has handed all units to other requests");
      try {
        const { config, question } = await this.#admission.units.ask(key.shared, request.cost, this.#now());
        this.#takeOver(config);
        isAnswered = question > askedBefore;
      } catch (error) {
        // Without the budget, a request can still be refused by the limits of its key.
        const refusal = this.#admission.refuse(key, request, this.#now());
        if (refusal === null) throw error;
        return refusal;
      }
      key = this.#key;
    }
    return null;
  }

  /**
   * Applies a configuration, unless the same or a newer version is already active. The limits of the account have a version of their own. Every `admit` call
   * that starts after this method has returned uses the new configuration. Returns the active configuration. If a later change was applied first or D1 was
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
    return this.#isErased ? { nonce: "erased", shares: [] } : this.#admission.units.recall(recall);
  }

  /** Returns what the key has used of the limits of its account. */
  unitsUsed(): GuardReport {
    return this.#isErased ? { nonce: "erased", shares: [] } : this.#admission.units.report();
  }

  /** Returns the active configuration, or null if no such key exists. */
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
    this.#admission.erase();
    await this.#storage.deleteAlarm();
    await this.#storage.deleteAll();
    this.#storage.kv.put("erased", true);
    this.#alarmAt = null;
    this.#events.open();
  }

  /** Does nothing. If a call returns, the object can be reached. */
  ping(): void {}

  /** Returns what is used of the hour, and of each limit. Does not count a request. Returns null if no such key exists. */
  async rateLimit(): Promise<(RateLimit & { limits: LimitUsage[]; shared: LimitUsage[] }) | null> {
    const key = this.#key ?? (await this.#load());
    return key && this.#admission.usage(key, this.#now());
  }

  override async alarm(): Promise<void> {
    this.#alarmAt = null;
    try {
      const events = this.#events.oldest();
      // The platform stops retrying an alarm after six failures. This method therefore catches all errors, and sets the next alarm before
      // any step that can fail.
      if (events.length > 0) this.#setAlarmBy(this.#now() + this.#events.retryMs);
      this.#admission.releaseUnused(this.#now());
      if (events.length === 0) return;
      const outbox = { db: connect(this.env.DB), enqueue: enqueueVia(this.env.DELIVERIES, (work) => this.ctx.waitUntil(work)) };
      if (await this.#events.drain(outbox, events)) this.#setAlarmBy(this.#now());
    } catch (error) {
      console.error("an alarm of a guard failed:", messagesOf(error));
      this.#setAlarmBy(this.#now() + this.#events.retryMs);
    }
  }

  #apply(config: KeyConfig): KeyConfig {
    this.#storage.kv.put("config", config);
    this.#key = loadedKey(config);
    this.#admission.units.forgetRefusal();
    if (config.state !== "active") this.#admission.units.giveBack(config.accountId);
    return config;
  }

  /** Takes over the limits of the account that its budget knows. */
  #takeOver({ version, revision, limits }: StoredLimits): void {
    const known = this.#key?.config;
    if (!known || version === known.accountVersion) return;
    if (version < known.accountVersion) throw new Error("the budget of the account does not know the active limits");
    this.#apply({ ...known, accountVersion: version, accountRevision: revision, accountLimits: limits });
  }

  async #load(): Promise<LoadedKey | null> {
    if (this.#isErased) return null;
    const config = await withDeadline(readConfig(connect(this.env.DB), this.ctx.id.name ?? ""), loadTimeoutMs, "Reading a key from D1");
    if (config) this.configure(config);
    return this.#key;
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

const accountPart = ({ accountVersion, accountRevision, accountLimits }: KeyConfig) => ({ accountVersion, accountRevision, accountLimits });

const revoked = { state: "revoked", previousSecretHash: null, overlapEndsAt: null } as const;
