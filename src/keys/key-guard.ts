import { DurableObject } from "cloudflare:workers";
import type { Entry } from "../activity/entry.ts";
import { Journal } from "../activity/journal.ts";
import { writeEntries } from "../activity/write-entries.ts";
import { hourStart, secondMs } from "../clock.ts";
import { connect } from "../db/client.ts";
import { withDeadline } from "../deadline.ts";
import type { Wake } from "../webhooks/commit.ts";
import type { Event } from "../webhooks/event.ts";
import { wakeDeliveries } from "../webhooks/wake.ts";
import { writeEvents } from "../webhooks/write-events.ts";
import { type AdmissionRequest, factsOf, type KeyConfig, type RateLimit, refusalOf } from "./admission.ts";
import { admissionText, readRequest } from "./admission-text.ts";
import { dueLimitEvents, lowestLine } from "./limit-events.ts";
import { readConfig } from "./read-config.ts";
import { countOne, giveBack, openWindow, recoveredWindow, resetsAt, type Window, windowAt } from "./window.ts";

const quietMs = 5 * secondMs;
const loadTimeoutMs = 5 * secondMs;
const drainTimeoutMs = 5 * secondMs;
const journalBatch = 500;
const firstRetryMs = secondMs;
const longestRetryMs = 60 * secondMs;

/**
 * The only authority on one API key. One object for each key, since an exact limit needs one place that counts, and a key
 * is the largest thing that never needs to be counted together with another. An object that dies in the middle of a burst
 * counts on from what it had reserved: at most 63 requests of the hour are lost to the client, and none is given twice.
 */
export class KeyGuard extends DurableObject<Env> {
  readonly #storage: DurableObjectStorage;
  readonly #journal: Journal<Entry>;
  readonly #events: Journal<Event>;
  #config: KeyConfig | null = null;
  /** What answers say of the key. */
  #factsText = "";
  #window: Window;
  /** Which events of its limit a window has been told of. */
  #told: { startsAt: number; types: string[] };
  /** The latest time seen: this clock never goes back. */
  #latest = 0;
  #lastCountedAt = 0;
  #alarmAt: number | null = null;
  #retryMs = firstRetryMs;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#storage = ctx.storage;
    this.#journal = new Journal(ctx.storage.sql, "journal");
    this.#events = new Journal(ctx.storage.sql, "events");
    const config = this.#storage.kv.get<KeyConfig>("config");
    if (config) this.#take(config);
    this.#told = this.#storage.kv.get("told") ?? { startsAt: 0, types: [] };
    const stored = this.#storage.kv.get<{ startsAt: number; reserved: number }>("window");
    this.#window = stored ? recoveredWindow(stored.startsAt, stored.reserved) : openWindow(hourStart(Date.now()));
  }

  /** Decides one request and counts it, in one synchronous step. Takes and answers the text of admission-text.ts, or null where no such key exists. */
  async admit(request: string): Promise<string | null> {
    const config = this.#config ?? (await this.#load());
    return config && this.#decide(config, readRequest(request));
  }

  /** Takes over a change of the key, unless it has a later one already. Holds for every `admit` that starts after this returned. */
  configure(config: KeyConfig): void {
    if (this.#config && config.version <= this.#config.version) return;
    this.#storage.kv.put("config", config);
    this.#take(config);
  }

  /** The window as it stands, counting nothing. Null where no such key exists. */
  async rateLimit(): Promise<RateLimit | null> {
    const config = this.#config ?? (await this.#load());
    return config && this.#rateLimit(config, this.#now());
  }

  /** Keeps entries that D1 did not take and writes them to it as soon as it does. */
  journal(entries: Entry[]): void {
    this.#journal.add(entries);
    this.#wakeBy(this.#now() + this.#retryMs);
  }

  override async alarm(): Promise<void> {
    this.#alarmAt = null;
    try {
      const entries = this.#journal.oldest(journalBatch);
      const events = this.#events.oldest(journalBatch);
      // The successor before what may fail, and no error gets out: the platform gives an alarm up after six.
      if (entries.length + events.length > 0) this.#wakeBy(this.#now() + this.#retryMs);
      this.#settle(this.#now());
      if (entries.length + events.length > 0) await this.#drain(entries, events);
    } catch (error) {
      console.error("an alarm of a guard failed:", String(error));
      this.#wakeBy(this.#now() + this.#retryMs);
    }
  }

  #take(config: KeyConfig): void {
    this.#config = config;
    this.#factsText = JSON.stringify(factsOf(config));
  }

  async #load(): Promise<KeyConfig | null> {
    const config = await withDeadline(readConfig(connect(this.env.DB), this.ctx.id.name ?? ""), loadTimeoutMs, "Reading a key from D1");
    if (config) this.configure(config);
    return this.#config;
  }

  #decide(config: KeyConfig, request: AdmissionRequest): string {
    const now = this.#now();
    let refusal = refusalOf(config, request, now);
    if (refusal === null && request.counted && !this.#count(config, now)) refusal = "rate_limit_exceeded";
    return admissionText(refusal, this.#rateLimit(config, now), this.#factsText);
  }

  #count(config: KeyConfig, now: number): boolean {
    const before = windowAt(this.#window, now);
    const after = countOne(before, config.hourlyLimit);
    if (after === null) {
      // A crash may have used up the rest unseen.
      this.#tell(config, now);
      return false;
    }
    this.#window = after;
    // The reply is held back by the platform until this write is on disk.
    if (after.reserved > before.reserved) this.#persistWindow();
    this.#lastCountedAt = now;
    if (after.used >= lowestLine * config.hourlyLimit) this.#tell(config, now);
    if (after.reserved > after.used) this.#wakeBy(now + quietMs);
    return true;
  }

  /** Keeps the events of lines that the window has crossed, once each a window, in the step that crossed them. */
  #tell(config: KeyConfig, now: number): void {
    const { startsAt } = windowAt(this.#window, now);
    const told = this.#told.startsAt === startsAt ? this.#told.types : [];
    const due = dueLimitEvents(this.ctx.id.name ?? "", config, this.#window, told, now);
    if (due.length === 0) return;
    this.#events.add(due);
    this.#told = { startsAt, types: [...told, ...due.map(({ type }) => type)] };
    this.#storage.kv.put("told", this.#told);
    this.#wakeBy(now);
  }

  #rateLimit(config: KeyConfig, now: number): RateLimit {
    const window = windowAt(this.#window, now);
    return { limit: config.hourlyLimit, used: window.used, resetsAt: resetsAt(window) };
  }

  /** Gives back what the key has reserved and not used, once it has been quiet; else looks again when it may have been. */
  #settle(now: number): void {
    if (this.#window.reserved <= this.#window.used) return;
    const quietAt = this.#lastCountedAt + quietMs;
    if (now < quietAt) {
      this.#wakeBy(quietAt);
      return;
    }
    this.#window = giveBack(this.#window);
    this.#persistWindow();
  }

  #persistWindow(): void {
    this.#storage.kv.put("window", { startsAt: this.#window.startsAt, reserved: this.#window.reserved });
  }

  async #drain(entries: Entry[], events: Event[]): Promise<void> {
    try {
      await writeEntries(connect(this.env.DB), entries, this.#now());
      this.#journal.remove(entries);
      await withDeadline(writeEvents(connect(this.env.DB), this.#wake, events), drainTimeoutMs, "Writing events to D1");
      this.#events.remove(events);
      this.#retryMs = firstRetryMs;
      // What is left does not wait as long as D1 was away.
      if (!this.#journal.isEmpty || !this.#events.isEmpty) this.#wakeBy(this.#now());
    } catch (error) {
      console.error("D1 still does not take what a guard keeps for it:", String(error));
      this.#retryMs = Math.min(this.#retryMs * 2, longestRetryMs);
    }
  }

  /** Sets off the deliveries of events. */
  readonly #wake: Wake = (due) => {
    if (due.length > 0) this.ctx.waitUntil(wakeDeliveries(this.env.DELIVERIES, due));
  };

  /** Sets the object's one alarm, unless it rings by then already. */
  #wakeBy(at: number): void {
    if (this.#alarmAt !== null && this.#alarmAt <= at) return;
    this.#alarmAt = at;
    this.ctx.waitUntil(this.#storage.setAlarm(at));
  }

  #now(): number {
    this.#latest = Math.max(this.#latest, Date.now());
    return this.#latest;
  }
}
