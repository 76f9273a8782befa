import { messagesOf } from "../../db/failures.ts";
import type { Batch } from "../batch.ts";
import { decodeEntries, encodeEntries } from "../segments/codec.ts";

/** A batch that a log writer keeps for another log writer. */
export interface Hint {
  row: number;
  /** The number of the log writer that owns the entries. */
  owner: number;
  batch: Batch;
}

type HintRow = { row: number; owner: number; isolate: string; sequence: number; dropped: number; entries: ArrayBuffer };

/**
 * Keeps batches for other log writers that cannot be reached (hinted handoff). Only the owner of an account's log writes segments. The entries are
 * therefore forwarded later.
 */
export class Hints {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec(`
      CREATE TABLE IF NOT EXISTS hints (row INTEGER PRIMARY KEY, owner INTEGER NOT NULL, isolate TEXT NOT NULL, sequence INTEGER NOT NULL,
        dropped INTEGER NOT NULL, count INTEGER NOT NULL, entries BLOB NOT NULL)`);
  }

  /** The number of entries that wait to be forwarded. */
  get entries(): number {
    return this.#sql.exec<{ count: number }>("SELECT coalesce(sum(count), 0) AS count FROM hints").one().count;
  }

  add(owner: number, { id, entries, dropped }: Batch): void {
    this.#sql.exec(
      "INSERT INTO hints (owner, isolate, sequence, dropped, count, entries) VALUES (?, ?, ?, ?, ?, ?)",
      ...[owner, id.isolate, id.sequence, dropped, entries.length, encodeEntries(entries).slice().buffer],
    );
  }

  /** Returns the oldest hint after `row`, or null if there is none. Skips rows that this release cannot read. They stay for a later release. */
  next(row: number): Hint | null {
    const rows = this.#sql.exec<HintRow>(
      "SELECT row, owner, isolate, sequence, dropped, entries FROM hints WHERE row > ? ORDER BY row",
      row,
    );
    for (const hint of rows) {
      const { isolate, sequence, dropped } = hint;
      try {
        const entries = decodeEntries(new Uint8Array(hint.entries));
        return { row: hint.row, owner: hint.owner, batch: { id: { isolate, sequence }, entries, dropped } };
      } catch (error) {
        console.error(`the hint ${hint.row} cannot be read:`, messagesOf(error));
      }
    }
    return null;
  }

  remove(row: number): void {
    this.#sql.exec("DELETE FROM hints WHERE row = ?", row);
  }

  /** Removes the entries of an account. Returns how many entries were removed. */
  erase(accountId: string): number {
    let erased = 0;
    for (let hint = this.next(0); hint; hint = this.next(hint.row)) {
      const { batch } = hint;
      const left = batch.entries.filter((entry) => entry.accountId !== accountId);
      if (left.length === batch.entries.length) continue;
      erased += batch.entries.length - left.length;
      if (left.length > 0) this.add(hint.owner, { ...batch, entries: left });
      this.remove(hint.row);
    }
    return erased;
  }
}
