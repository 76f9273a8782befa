import { DurableObject } from "cloudflare:workers";
import { connect } from "../db/client.ts";
import { messagesOf } from "../db/failures.ts";
import type { Event } from "../events/event.ts";
import { type AddressRange, parseIpList } from "../net/ip-list.ts";
import { hourStart, secondMs } from "../time/clock.ts";
import { withDeadline } from "../time/deadline.ts";
import { enqueueVia } from "../webhooks/enqueue.ts";
import { writeEvents } from "../webhooks/write-events.ts";
import { type Admission, type AdmissionRequest, denialOf, factsOf, type KeyConfig, type KeyFacts, type RateLimit } from "./admission.ts";
import { EventJournal } from "./event-journal.ts";
import { dueLimitEvents, lowestLine } from "./events.ts";
import { readConfig } from "./read-config.ts";
import { countOne, giveBack, openWindow, recoveredWindow, resetsAt, type Window, windowAt } from "./window.ts";

const quietMs = 5 * secondMs;
const loadTimeoutMs = 5 * secondMs;
const drainTimeoutMs = 5 * secondMs;
const eventsAtOnce = 500;
const firstRetryMs = secondMs;
const maxRetryMs = 60 * secondMs;

/**
 * The only authority on one API key. One object for each key, since an exact limit needs one place that counts, and a key
 * is the largest thing that never needs to be counted together with another. An object that dies in the middle of a burst
 * counts on from what it had reserved. At most 63 requests of the hour are lost to the client, and none is given twice.
 */
export class KeyGuard extends DurableObject<Env> {
  readonly #storage: DurableObjectStorage;
  /** What D1 has not taken yet. */
  #events: EventJournal;
  #key: LoadedKey | null = null;
  #isErased: boolean;
  #window: Window;
  /** Which events of its limit a window has made already. */
  #notified: { startsAt: number; types: string[] };
  /** The latest time seen: this clock never goes back. */
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

  /** Decides one request and counts it, in one synchronous step. Null where no such key exists. */
  async admit(request: AdmissionRequest): Promise<Admission | null> {
    const key = this.#key ?? (await this.#load());
    return key && this.#decide(key, request);
  }

  /**
   * Applies a change of the key, unless a later one has been applied already. Holds for every `admit` that starts after this
   * returned. Answers the configuration that is in force then: one of another revision says that D1 was set back. What is revoked
   * stays so, even if D1 says otherwise.
   */
  configure(config: KeyConfig): KeyConfig {
    if (this.#isErased) return { ...config, ...revoked };
    const known = this.#key?.config;
    if (known && config.version <= known.version) return known;
    return this.#apply(known?.state === "revoked" ? { ...config, ...revoked } : config);
  }

  /** The configuration in force. Null where no such key exists. */
  async configuration(): Promise<KeyConfig | null> {
    const key = this.#key ?? (await this.#load());
    return key ? key.config : null;
  }

  /** Revokes a key whose row is gone from D1, above every version that the row may come back with. Does nothing where no such key exists. */
  revoke(): void {
    const known = this.#key?.config;
    if (known && known.state !== "revoked") this.#apply({ ...known, ...revoked, version: known.version + 1 });
  }

  /** Ends the overlap of a key whose row is gone from D1, above every version that the row may come back with. Does nothing where there is none. */
  endOverlap(): void {
    const known = this.#key?.config;
    if (known && known.previousSecretHash !== null)
      this.#apply({ ...known, previousSecretHash: null, overlapEndsAt: null, version: known.version + 1 });
  }

  /** Forgets everything about its key, for good: no such key exists from then on, though D1 be set back to when it did. */
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

  /** Returns if the object can be reached. */
  ping(): void {}

  /** The window as it stands, counting nothing. Null where no such key exists. */
  async rateLimit(): Promise<RateLimit | null> {
    const key = this.#key ?? (await this.#load());
    return key && this.#rateLimit(key.config, this.#now());
  }

  override async alarm(): Promise<void> {
    this.#alarmAt = null;
    try {
      const events = this.#events.oldest(eventsAtOnce);
      // The successor before what may fail, and no error gets out: the platform gives an alarm up after six.
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
    const before = windowAt(this.#window, now);
    const after = countOne(before, config.hourlyLimit);
    if (after === null) {
      // A crash may have used up the rest unseen.
      this.#notify(config, now);
      return false;
    }
    this.#window = after;
    // The reply is held back by the platform until this write is on disk.
    if (after.reserved > before.reserved) this.#persistWindow();
    this.#lastCountedAt = now;
    if (after.used >= lowestLine * config.hourlyLimit) this.#notify(config, now);
    if (after.reserved > after.used) this.#setAlarmBy(now + quietMs);
    return true;
  }

  /** Keeps the events of lines that the window has crossed, once each a window, in the step that crossed them. */
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

  /** Gives back what the key has reserved and not used, once it has been quiet; else looks again when it may have been. */
  #giveBackUnused(now: number): void {
    if (this.#window.reserved <= this.#window.used) return;
    const quietAt = this.#lastCountedAt + quietMs;
    if (now < quietAt) {
      this.#setAlarmBy(quietAt);
      return;
    }
    this.#window = giveBack(this.#window);
    this.#persistWindow();
  }

  #persistWindow(): void {
    this.#storage.kv.put("window", { startsAt: this.#window.startsAt, reserved: this.#window.reserved });
  }

  async #drain(events: Event[]): Promise<void> {
    const db = connect(this.env.DB);
    const enqueue = enqueueVia(this.env.DELIVERIES, (work) => this.ctx.waitUntil(work));
    try {
      await withDeadline(writeEvents({ db, enqueue }, events), drainTimeoutMs, "Writing events to D1");
      this.#events.remove(events);
      this.#retryMs = firstRetryMs;
      // What is left does not wait as long as D1 was away.
      if (!this.#events.isEmpty) this.#setAlarmBy(this.#now());
    } catch (error) {
      console.error("D1 still does not take what a guard keeps for it:", messagesOf(error));
      this.#retryMs = Math.min(this.#retryMs * 2, maxRetryMs);
    }
  }

  /** Sets the object's one alarm, unless it rings by then already. */
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

/** A configuration with what follows from it, so that a request computes neither. */
interface LoadedKey {
  config: KeyConfig;
  facts: KeyFacts;
  allowed: readonly AddressRange[];
}

const loadedKey = (config: KeyConfig): LoadedKey => ({ config, facts: factsOf(config), allowed: parseIpList(config.allowedIps) });

const revoked = { state: "revoked", previousSecretHash: null, overlapEndsAt: null } as const;
