import type { Entry } from "./entry.ts";

/** Entries that D1 did not take, kept in the storage of a Durable Object until it does. */
export class Journal {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec("CREATE TABLE IF NOT EXISTS journal (id TEXT PRIMARY KEY, entry TEXT NOT NULL) WITHOUT ROWID");
  }

  add(entries: readonly Entry[]): void {
    for (const entry of entries) this.#sql.exec("INSERT OR IGNORE INTO journal VALUES (?, ?)", entry.id, JSON.stringify(entry));
  }

  /** The oldest entries, at most `limit`. They stay until they are removed. */
  oldest(limit: number): Entry[] {
    const rows = this.#sql.exec<{ entry: string }>("SELECT entry FROM journal ORDER BY id LIMIT ?", limit);
    return [...rows].map((row) => JSON.parse(row.entry) as Entry);
  }

  remove(entries: readonly Entry[]): void {
    for (const entry of entries) this.#sql.exec("DELETE FROM journal WHERE id = ?", entry.id);
  }
}
