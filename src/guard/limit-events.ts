import type { LimitUsage } from "../budget/limits.ts";
import { messagesOf } from "../db/failures.ts";
import { secondMs } from "../lib/time/clock.ts";
import { withDeadline } from "../lib/time/deadline.ts";
import type { Event } from "../outbox/event.ts";
import type { Outbox } from "../outbox/outbox.ts";
import { commitEvents } from "../outbox/write-events.ts";
import type { KeyConfig } from "./decision.ts";
import { dueLimitEvents, type Notified } from "./events.ts";

const drainTimeoutMs = 5 * secondMs;
const eventsAtOnce = 500;
const firstRetryMs = secondMs;
const maxRetryMs = 60 * secondMs;

/** Stores the rate limit events of a key in the key's guard until D1 has accepted them. */
export class LimitEvents {
  readonly #storage: DurableObjectStorage;
  /** The events that already exist for the windows. */
  #notified: Notified = {};
  #retryMs = firstRetryMs;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    this.open();
  }

  /** Reads what is stored. Called again after everything was deleted. */
  open(): void {
    this.#storage.sql.exec("CREATE TABLE IF NOT EXISTS events (id TEXT PRIMARY KEY, item TEXT NOT NULL) WITHOUT ROWID");
    this.#notified = this.#storage.kv.get<Notified>("notified") ?? {};
  }

  /** The delay before D1 is tried again, in milliseconds. */
  get retryMs(): number {
    return this.#retryMs;
  }

  /** For each threshold that a fixed window has reached, stores one event per window. Returns whether there are new events. */
  addDue(keyId: string, config: KeyConfig, used: readonly LimitUsage[], now: number): boolean {
    const { events, notified } = dueLimitEvents(keyId, config, used, this.#notified, now);
    if (events.length === 0) return false;
    for (const event of events) this.#storage.sql.exec("INSERT OR IGNORE INTO events VALUES (?, ?)", event.id, JSON.stringify(event));
    this.#notified = notified;
    this.#storage.kv.put("notified", notified);
    return true;
  }

  /** Returns the oldest events. Does not remove them. */
  oldest(limit = eventsAtOnce): Event[] {
    const rows = this.#storage.sql.exec<{ item: string }>("SELECT item FROM events ORDER BY id LIMIT ?", limit);
    return [...rows].map((row) => JSON.parse(row.item) as Event);
  }

  /** Writes events to D1, and removes them. Returns whether more events are left to write now, without a backoff pause. */
  async drain(outbox: Outbox, events: readonly Event[]): Promise<boolean> {
    try {
      await withDeadline(commitEvents(outbox, events), drainTimeoutMs, "Writing events to D1");
      for (const event of events) this.#storage.sql.exec("DELETE FROM events WHERE id = ?", event.id);
      this.#retryMs = firstRetryMs;
      return this.oldest(1).length > 0;
    } catch (error) {
      console.error("a guard cannot write its events to D1:", messagesOf(error));
      this.#retryMs = Math.min(this.#retryMs * 2, maxRetryMs);
      return false;
    }
  }
}
