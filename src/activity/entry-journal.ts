import type { Entry } from "./entry.ts";

/**
 * Entries from the journal. `rows`: the journal rows that hold these entries. The rows can be removed after D1 has confirmed the entries.
 */
export interface Journalled {
  rows: number[];
  entries: Entry[];
}

/** Stores entries in a log writer until D1 has confirmed the entries. Each row holds one batch. */
export class EntryJournal {
  readonly #sql: SqlStorage;
  #count: number;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec("CREATE TABLE IF NOT EXISTS batches (row INTEGER PRIMARY KEY, entries TEXT NOT NULL, count INTEGER NOT NULL)");
    this.#count = sql.exec<{ count: number }>("SELECT coalesce(sum(count), 0) AS count FROM batches").one().count;
  }

  /** The number of entries in the journal. */
  get count(): number {
    return this.#count;
  }

  /** The size of the log writer's storage, in bytes. */
  get bytes(): number {
    return this.#sql.databaseSize;
  }

  /** Stores a batch of entries in a new row. Returns the number of the row. */
  add(entries: readonly Entry[]): number {
    const insert = "INSERT INTO batches (entries, count) VALUES (?, ?) RETURNING row";
    const { row } = this.#sql.exec<{ row: number }>(insert, JSON.stringify(entries), entries.length).one();
    this.#count += entries.length;
    return row;
  }

  /**
   * Returns the oldest batches and does not remove them from the journal. If the journal is not empty, returns at least one batch. Adds
   * further batches only while the total number of entries is at most `limit`.
   */
  oldest(limit: number): Journalled {
    const found: Journalled = { rows: [], entries: [] };
    for (const { row, entries } of this.#sql.exec<{ row: number; entries: string }>("SELECT row, entries FROM batches ORDER BY row")) {
      const batch = JSON.parse(entries) as Entry[];
      if (found.rows.length > 0 && found.entries.length + batch.length > limit) break;
      found.rows.push(row);
      found.entries.push(...batch);
    }
    return found;
  }

  /** Removes the entries of an account. Returns how many entries were removed. */
  erase(accountId: string): number {
    let erased = 0;
    const next = "SELECT row, entries, count FROM batches WHERE row > ? AND instr(entries, ?) > 0 ORDER BY row LIMIT 1";
    // Batches are read one at a time, because all batches together may be too large for memory.
    for (let after = 0; ; ) {
      const [found] = this.#sql.exec<{ row: number; entries: string; count: number }>(next, after, accountId).toArray();
      if (!found) break;
      const left = (JSON.parse(found.entries) as Entry[]).filter((entry) => entry.accountId !== accountId);
      if (left.length === 0) this.#sql.exec("DELETE FROM batches WHERE row = ?", found.row);
      else this.#sql.exec("UPDATE batches SET entries = ?, count = ? WHERE row = ?", JSON.stringify(left), left.length, found.row);
      erased += found.count - left.length;
      after = found.row;
    }
    this.#count -= erased;
    return erased;
  }

  remove(rows: readonly number[]): void {
    for (const row of rows)
      for (const { count } of this.#sql.exec<{ count: number }>("DELETE FROM batches WHERE row = ? RETURNING count", row))
        this.#count -= count;
  }
}
