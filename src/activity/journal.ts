/** What D1 has not taken yet, kept in the storage of a Durable Object until it does. `table` is a name of our own. */
export class Journal<Item extends { id: string }> {
  readonly #sql: SqlStorage;
  readonly #table: string;

  constructor(sql: SqlStorage, table: string) {
    this.#sql = sql;
    this.#table = table;
    sql.exec(`CREATE TABLE IF NOT EXISTS ${table} (id TEXT PRIMARY KEY, item TEXT NOT NULL) WITHOUT ROWID`);
  }

  add(items: readonly Item[]): void {
    for (const item of items) this.#sql.exec(`INSERT OR IGNORE INTO ${this.#table} VALUES (?, ?)`, item.id, JSON.stringify(item));
  }

  /** The oldest items, at most `limit`. They stay until they are removed. */
  oldest(limit: number): Item[] {
    const rows = this.#sql.exec<{ item: string }>(`SELECT item FROM ${this.#table} ORDER BY id LIMIT ?`, limit);
    return [...rows].map((row) => JSON.parse(row.item) as Item);
  }

  get isEmpty(): boolean {
    return this.oldest(1).length === 0;
  }

  remove(items: readonly Item[]): void {
    for (const item of items) this.#sql.exec(`DELETE FROM ${this.#table} WHERE id = ?`, item.id);
  }
}
