import { DurableObject } from "cloudflare:workers";
import { connect } from "../db/client.ts";
import { messagesOf } from "../db/failures.ts";
import type { Event } from "../events/event.ts";
import { type AddressRange, parseIpList } from "../net/ip-list.ts";
import { hourStart, secondMs } from "../time/clock.ts";
import { withDeadline } from "../time/deadline.ts";
import { enqueueVia } from "../webhooks/enqueue.ts";
import { commitEvents } from "../webhooks/write-events.ts";
import { type Admission, type AdmissionRequest, denialOf, factsOf, type KeyConfig, type KeyFacts, type RateLimit } from "./admission.ts";
import { EventJournal } from "./event-journal.ts";
import { dueLimitEvents, lowestThreshold } from "./events.ts";
import { readConfig } from "./read-config.ts";
import { afterQuiet, countOne, openWindow, recoveredWindow, releaseReservation, resetsAt, type Window, windowAt } from "./window.ts";

const quietMs = 5 * secondMs;
const loadTimeoutMs = 5 * secondMs;
const drainTimeoutMs = 5 * secondMs;
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
  #window: Window;
  /** The types of the rate limit events that already exist for the window. `startsAt` is the start of this window. */
  #notified: { startsAt: number; types: string[] };
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
    this.#notified = this.#storage.kv.get("notified") ?? { startsAt: 0, types: [] };
    const stored = this.#storage.kv.get<{ startsAt: number; reserved: number }>("window");
    this.#window = stored ? recoveredWindow(stored.startsAt, stored.reserved) : openWindow(hourStart(Date.now()));
  }

  /**
   * Decides on one request. The decision and the counting of the request happen in one synchronous step. Returns null if no such key
   * exists.
   */
  async admit(request: AdmissionRequest): Promise<Admission | null> {
    const key = this.#key ?? (await this.#load());
    return key && this.#decide(key, request);
  }

  /**
   * Applies a configuration, unless the same or a newer version is already in force. Every `admit` call that starts after this method has
   * returned uses the new configuration. Returns the configuration in force. If a later change was applied first or D1 was restored to an
   * earlier state, the returned revision differs from the given revision. A revoked key stays revoked, even if the given configuration is
   * not revoked.
   */
  configure(config: KeyConfig): KeyConfig {
    if (this.#isErased) return { ...config, ...revoked };
    const known = this.#key?.config;
    if (known && config.version <= known.version) return known;
    return this.#apply(known?.state === "revoked" ? { ...config, ...revoked } : config);
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
    this.#window = openWindow(hourStart(this.#now()));
    this.#notified = { startsAt: 0, types: [] };
  }

  /** Does nothing. If a call returns, the object can be reached. */
  ping(): void {}

  /** Returns the state of the key's current rate limit window. Does not count a request. Returns null if no such key exists. */
  async rateLimit(): Promise<RateLimit | null> {
    const key = this.#key ?? (await this.#load());
    return key && this.#rateLimit(key.config, this.#now());
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
    return config;
  }

  async #load(): Promise<LoadedKey | null> {
    if (this.#isErased) return null;
    const config = await withDeadline(readConfig(connect(this.env.DB), this.ctx.id.name ?? ""), loadTimeoutMs, "Reading a key from D1");
    if (config) this.configure(config);
    return this.#key;
  }

  #decide({ config, facts, allowed }: LoadedKey, request: AdmissionRequest): Admission {
    const now = this.#now();
    let refusal = denialOf(config, allowed, request, now);
    if (refusal === null && request.counted && !this.#count(config, now)) refusal = "rate_limit_exceeded";
    const secret = request.secretHash === config.secretHash ? "current" : "previous";
    return { refusal, key: facts, rateLimit: this.#rateLimit(config, now), secret };
  }

  #count(config: KeyConfig, now: number): boolean {
    const current = windowAt(this.#window, now);
    const before = now >= this.#lastCountedAt + quietMs ? afterQuiet(current) : current;
    const after = countOne(before, config.hourlyLimit);
    if (after === null) {
      // After a crash, the whole reservation counts as used. The window may therefore be full although its events do not exist yet.
      this.#notify(config, now);
      return false;
    }
    this.#window = after;
    // The platform sends the response only after this write is on disk.
    if (after.reserved > before.reserved) this.#persistWindow();
    this.#lastCountedAt = now;
    if (after.used >= lowestThreshold * config.hourlyLimit) this.#notify(config, now);
    if (after.reserved > after.used) this.#setAlarmBy(now + quietMs);
    return true;
  }

  /**
   * For each threshold that the window has reached, stores one event per window. When a request makes the count reach a threshold, the
   * event is stored in the same synchronous step.
   */
  #notify(config: KeyConfig, now: number): void {
    const { startsAt } = windowAt(this.#window, now);
    const notified = this.#notified.startsAt === startsAt ? this.#notified.types : [];
    const due = dueLimitEvents(this.ctx.id.name ?? "", config, this.#window, notified, now);
    if (due.length === 0) return;
    this.#events.add(due);
    this.#notified = { startsAt, types: [...notified, ...due.map(({ type }) => type)] };
    this.#storage.kv.put("notified", this.#notified);
    this.#setAlarmBy(now);
  }

  #rateLimit(config: KeyConfig, now: number): RateLimit {
    const window = windowAt(this.#window, now);
    return { limit: config.hourlyLimit, used: window.used, resetsAt: resetsAt(window) };
  }

  /** If no request was counted in the last 5 s, releases the unused part of the reservation. Otherwise sets an alarm to try again later. */
  #giveBackUnused(now: number): void {
    if (this.#window.reserved <= this.#window.used) return;
    const quietAt = this.#lastCountedAt + quietMs;
    if (now < quietAt) {
      this.#setAlarmBy(quietAt);
      return;
    }
    this.#window = releaseReservation(this.#window);
    this.#persistWindow();
  }

  #persistWindow(): void {
    this.#storage.kv.put("window", { startsAt: this.#window.startsAt, reserved: this.#window.reserved });
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
}

const loadedKey = (config: KeyConfig): LoadedKey => ({ config, facts: factsOf(config), allowed: parseIpList(config.allowedIps) });

const revoked = { state: "revoked", previousSecretHash: null, overlapEndsAt: null } as const;
