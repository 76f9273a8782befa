import type { Event } from "../outbox/event.ts";

/** Stores the rate limit events of a key in the key's guard until D1 has accepted the events. */
export class EventJournal {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec("CREATE TABLE IF NOT EXISTS events (id TEXT PRIMARY KEY, item TEXT NOT NULL) WITHOUT ROWID");
  }

  add(events: readonly Event[]): void {
    for (const event of events) this.#sql.exec("INSERT OR IGNORE INTO events VALUES (?, ?)", event.id, JSON.stringify(event));
  }

  /** Returns the oldest events, but at most `limit` events. Does not remove the returned events. */
  oldest(limit: number): Event[] {
    const rows = this.#sql.exec<{ item: string }>("SELECT item FROM events ORDER BY id LIMIT ?", limit);
    return [...rows].map((row) => JSON.parse(row.item) as Event);
  }

  get isEmpty(): boolean {
    return this.oldest(1).length === 0;
  }

  remove(events: readonly Event[]): void {
    for (const event of events) this.#sql.exec("DELETE FROM events WHERE id = ?", event.id);
  }
}
