import { DurableObject } from "cloudflare:workers";
import { budgetsOf } from "../budget/budgets.ts";
import type { GuardReport, LeaseReturn, Recall } from "../budget/holding.ts";
import type { LimitUsage } from "../budget/limits.ts";
import { connect } from "../db/client.ts";
import { messagesOf } from "../db/failures.ts";
import { secondMs } from "../lib/time/clock.ts";
import { withDeadline } from "../lib/time/deadline.ts";
import { enqueueVia } from "../outbox/enqueue.ts";
import type { Admission, AdmissionRequest, Busy, KeyConfig, RateLimit } from "./decision.ts";
import { type Configured, KeyAdmission, revoked } from "./key-admission.ts";
import { leaseMsOf } from "./lease-setting.ts";
import { LimitEvents } from "./limit-events.ts";
import { readConfig } from "./read-config.ts";
import type { TemporarySecret } from "./temporary-secrets.ts";

const loadTimeoutMs = 5 * secondMs;

/**
 * The guard of one API key: the only authority that decides which requests with the key may run. An exact limit needs a single place that
 * counts requests, so each key has its own Durable Object. One object per key is enough, because requests of different keys never need to
 * be counted together. If the object crashes during a burst, it resumes counting from the stored reservation. A crash can therefore waste
 * up to 63 requests of the hourly limit, and the units of leases that are out. The key never exceeds the limit.
 */
export class KeyGuard extends DurableObject<Env> {
  readonly #storage: DurableObjectStorage;
  readonly #events: LimitEvents;
  readonly #admission: KeyAdmission;
  /** The latest time that `#now()` has returned, in milliseconds since the epoch. Later calls never return an earlier time. */
  #latest = 0;
  #alarmAt: number | null = null;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#storage = ctx.storage;
    this.#events = new LimitEvents(ctx.storage);
    this.#admission = new KeyAdmission({
      keyId: ctx.id.name ?? "",
      kv: ctx.storage.kv,
      budgets: budgetsOf(env),
      events: this.#events,
      leaseMs: leaseMsOf(env),
      now: () => this.#now(),
      sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
      load: () => this.#load(),
      setAlarmBy: (at) => this.#setAlarmBy(at),
      inBackground: (work) => this.ctx.waitUntil(work),
    });
  }

  /**
   * Decides on one request. Returns null if no such key exists, and `Busy` if the guard cannot decide now. It never throws, so an error always means that the
   * call itself has failed.
   */
  async admit(request: AdmissionRequest): Promise<Admission | Busy | null> {
    try {
      return await this.#admission.admit(request);
    } catch (error) {
      console.error("a guard cannot decide:", messagesOf(error));
      return { busy: true };
    }
  }

  /** Takes back what a holder did not use of its leases. */
  settle(returns: readonly LeaseReturn[]): void {
    this.#admission.settle(returns);
  }

  /**
   * Applies a configuration, unless the same or a newer version is already active. The limits of the account have a version of their own. Every `admit` call
   * that starts after this method has returned uses the new configuration. Leases of an earlier configuration may admit requests until `outdatedForMs` have
   * passed, in milliseconds. Returns the active configuration. If a later change was applied first or D1 was restored to an earlier state, a returned revision
   * differs from the given revision. A revoked key stays revoked, even if the given configuration is not revoked.
   */
  configure(config: KeyConfig): Configured {
    return this.#admission.configure(config);
  }

  /** Returns all unused units of the account. The account's budget calls this method when other keys need them, or when a limit was lowered. */
  recall(recall: Recall): GuardReport & { leasedForMs: number } {
    const { counts, isErased } = this.#admission;
    this.settle([]);
    const leasedForMs = counts.leasedForMs(this.#now());
    return { ...(isErased ? nothingHeld : counts.units.recall(recall)), leasedForMs };
  }

  /** Returns what the key has used of the limits of its account. `returns`: what is left of the caller's leases. */
  unitsUsed(returns: readonly LeaseReturn[] = []): GuardReport {
    this.settle(returns);
    return this.#admission.isErased ? nothingHeld : this.#admission.counts.units.report();
  }

  /** Returns the active configuration, or null if no such key exists. */
  async configuration(): Promise<KeyConfig | null> {
    return (await this.#admission.key())?.config ?? null;
  }

  /** Lets another secret stand for the key's present one. */
  addTemporarySecret(secret: Omit<TemporarySecret, "standsFor">): Promise<void> {
    return this.#admission.addTemporarySecret(secret);
  }

  /** Ends temporary secrets: the one with a hash, or all of a member. */
  endTemporarySecrets(which: string): void {
    this.#admission.endTemporarySecrets(which);
  }

  /** Revokes a key whose row is missing in D1. Returns the time until the last lease of before has ended, in milliseconds. */
  revoke(): number {
    return this.#admission.change(({ state }) => (state === "revoked" ? null : revoked));
  }

  /** Ends the overlap of a key whose row is missing in D1, if a hash is that of its previous secret. Returns the same time. */
  endOverlap(secretHash: string): number {
    return this.#admission.change(({ previousSecretHash }) =>
      previousSecretHash === secretHash ? { previousSecretHash: null, overlapEndsAt: null } : null,
    );
  }

  /**
   * Permanently deletes all data about the key. The guard never admits the key again, even if D1 is restored to a state that contains the key. Returns the time
   * until the last lease has ended, in milliseconds.
   */
  async erase(): Promise<number> {
    const left = this.#admission.erase();
    await this.#storage.deleteAlarm();
    await this.#storage.deleteAll();
    this.#storage.kv.put("erased", true);
    // If the object restarts, a repeated call still waits for the leases.
    if (this.#admission.outdatedForMs() > 0) this.#storage.kv.put("window", left);
    this.#alarmAt = null;
    this.#events.open();
    return this.#admission.outdatedForMs();
  }

  /** Does nothing. If a call returns, the object can be reached. */
  ping(): void {}

  /**
   * Returns what is used of the hour, and of each limit. Does not count a request. Returns null if no such key exists. `returns`: what is left of the caller's
   * leases. Units that are out with other holders do not count as used.
   */
  async rateLimit(returns: readonly LeaseReturn[] = []): Promise<(RateLimit & { limits: LimitUsage[]; shared: LimitUsage[] }) | null> {
    this.settle(returns);
    return this.#admission.usage();
  }

  override async alarm(): Promise<void> {
    this.#alarmAt = null;
    try {
      const events = this.#events.oldest();
      // The platform stops retrying an alarm after six failures. This method therefore catches all errors, and sets the next alarm before
      // any step that can fail.
      if (events.length > 0) this.#setAlarmBy(this.#now() + this.#events.retryMs);
      this.#admission.counts.releaseUnused(this.#now());
      if (events.length === 0) return;
      const outbox = { db: connect(this.env.DB), enqueue: enqueueVia(this.env.DELIVERIES, (work) => this.ctx.waitUntil(work)) };
      if (await this.#events.drain(outbox, events)) this.#setAlarmBy(this.#now());
    } catch (error) {
      console.error("an alarm of a guard failed:", messagesOf(error));
      this.#setAlarmBy(this.#now() + this.#events.retryMs);
    }
  }

  async #load(): Promise<void> {
    const config = await withDeadline(readConfig(connect(this.env.DB), this.ctx.id.name ?? ""), loadTimeoutMs, "Reading a key from D1");
    if (config) this.configure(config);
  }

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

const nothingHeld: GuardReport = { nonce: "erased", shares: [] };
