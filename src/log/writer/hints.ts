import { messagesOf } from "../../db/failures.ts";
import type { Entry } from "../entry.ts";
import { decodeEntries, encodeEntries } from "../segments/codec.ts";

/** Entries that a log writer keeps for another log writer. */
export interface Hint {
  row: number;
  /** The number of the log writer that owns the entries. */
  owner: number;
  entries: Entry[];
}

/**
 * Keeps entries for other log writers that cannot be reached (hinted handoff). Only the owner of an account's log writes segments. The entries are
 * therefore forwarded later.
 */
export class Hints {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec(
      "CREATE TABLE IF NOT EXISTS hints (row INTEGER PRIMARY KEY, owner INTEGER NOT NULL, count INTEGER NOT NULL, entries BLOB NOT NULL)",
    );
  }

  /** The number of entries that wait to be forwarded. */
  get entries(): number {
    return this.#sql.exec<{ count: number }>("SELECT coalesce(sum(count), 0) AS count FROM hints").one().count;
  }

  add(owner: number, entries: readonly Entry[]): void {
    const bytes = encodeEntries(entries).slice().buffer;
    this.#sql.exec("INSERT INTO hints (owner, count, entries) VALUES (?, ?, ?)", owner, entries.length, bytes);
  }

  /** Returns the oldest hint after `row`, or null if there is none. Skips rows that this release cannot read. They stay for a later release. */
  next(row: number): Hint | null {
    const rows = this.#sql.exec<{ row: number; owner: number; entries: ArrayBuffer }>(
      "SELECT row, owner, entries FROM hints WHERE row > ? ORDER BY row",
      row,
    );
    for (const hint of rows) {
      try {
        return { ...hint, entries: decodeEntries(new Uint8Array(hint.entries)) };
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
      const left = hint.entries.filter((entry) => entry.accountId !== accountId);
      if (left.length === hint.entries.length) continue;
      erased += hint.entries.length - left.length;
      if (left.length > 0) this.add(hint.owner, left);
      this.remove(hint.row);
    }
    return erased;
  }
}
