import { messagesOf } from "../../db/failures.ts";
import { inBatches } from "../../lib/in-batches.ts";
import { dayMs } from "../../lib/time/clock.ts";
import type { Entry } from "../entry.ts";
import { decodeEntries, encodeEntries } from "../segments/codec.ts";
import { Counters } from "./counters.ts";
import type { KnownIsolate } from "./known-batches.ts";
import type { Completion } from "./memtable.ts";
import { bufferOf, type NewFlush, type PendingFlush, RecordedFlushes } from "./recorded-flushes.ts";

// A log writer keeps everything that it has acknowledged in its own SQLite database, until D1 has confirmed it. Each function runs
// synchronously. The Durable Object acknowledges a call only after its writes are on disk.

/** The maximum size of the entries in a row, in bytes before compression. SQLite stores at most 2 MB in a row. */
const maxRowBytes = 1_000_000;

/** The time for which entries of an erased account are rejected, in milliseconds. */
const erasedMs = 30 * dayMs;

/** The maximum number of isolates in a row. */
const isolatesInRow = 5000;

/** What the log writer has acknowledged and not flushed yet. */
export interface Acknowledged {
  entries: readonly Entry[];
  /** The reports that completed entries after they were added. */
  completions: readonly StoredCompletion[];
  /** The isolates that have sent batches, with the stored batches. The longest silent isolate is first. */
  isolates: readonly KnownIsolate[];
  /** The ids of entries that reports have added, because the entries had not arrived yet. The oldest is first. */
  early: readonly string[];
}

/** `id`: the id of the entry. */
export interface StoredCompletion extends Completion {
  accountId: string;
  id: string;
}

type More = Partial<Omit<Acknowledged, "entries">>;

const nothing: Acknowledged = { entries: [], completions: [], isolates: [], early: [] };

/** What a log writer knows about the log of an account. */
export interface LogState {
  accountId: string;
  /** The number of the account's last flush. */
  flush: number;
  /** The highest id that was ever flushed. */
  highestId: string;
  /** Entries whose id sorts before this id are older than the log. */
  startId: string;
}

const tables = `
  CREATE TABLE IF NOT EXISTS wal (row INTEGER PRIMARY KEY, entries BLOB NOT NULL, more TEXT NOT NULL);
  CREATE TABLE IF NOT EXISTS logs (account_id TEXT PRIMARY KEY, flush INTEGER NOT NULL, highest_id TEXT NOT NULL, start_id TEXT NOT NULL) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS merged (account_id TEXT PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS erased (account_id TEXT PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID;
`;

export class WriteAheadLog {
  readonly #storage: DurableObjectStorage;
  readonly #sql: SqlStorage;
  readonly counters: Counters;
  readonly flushes: RecordedFlushes;
  /** The rows that this release cannot read. They stay for a later release. */
  readonly #unreadable: number[] = [];

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    this.#sql = storage.sql;
    this.#sql.exec(tables);
    this.flushes = new RecordedFlushes(storage.sql);
    this.counters = new Counters(storage.sql);
  }

  /** The number of rows that this release cannot read. */
  get unreadable(): number {
    return this.#unreadable.length;
  }

  /** The size of the log writer's database, in bytes. */
  get bytes(): number {
    return this.#sql.databaseSize;
  }

  /** Adds entries and more in one transaction. */
  append(added: Partial<Acknowledged>): void {
    this.#storage.transactionSync(() => this.#insert({ ...nothing, ...added }));
  }

  /** Returns everything that was added and not flushed since. Reports rows that this release cannot read. */
  readAll(): Acknowledged {
    const entries: Entry[] = [];
    const all: More[] = [];
    for (const row of this.#sql.exec<{ row: number; entries: ArrayBuffer; more: string }>("SELECT * FROM wal ORDER BY row")) {
      try {
        all.push(JSON.parse(row.more) as More);
        entries.push(...decodeEntries(new Uint8Array(row.entries)));
      } catch (error) {
        this.#unreadable.push(row.row);
        console.error(`row ${row.row} of the write-ahead log cannot be read:`, messagesOf(error));
      }
    }
    return {
      entries,
      completions: all.flatMap(({ completions = [] }) => completions),
      isolates: all.flatMap(({ isolates = [] }) => isolates),
      early: all.flatMap(({ early = [] }) => early),
    };
  }

  /** Records flushes, and replaces everything else by what the flushes leave, in one transaction. Returns the recorded flushes. */
  recordFlushes(
    flushes: readonly NewFlush[],
    states: readonly LogState[],
    carriedOver: Acknowledged,
    taken: readonly Entry[],
  ): PendingFlush[] {
    return this.#storage.transactionSync(() => {
      const recorded = flushes.map((flush) => this.flushes.insert(flush));
      this.counters.addFlush(taken);
      for (const state of states) this.#storeState(state);
      this.#checkpoint(carriedOver);
      return recorded;
    });
  }

  /**
   * Removes everything of an account in one transaction. `left`: everything of all other accounts. `erased`: the entries of the account that
   * are in no flush. They stay in the counters, which know no accounts.
   */
  erase(accountId: string, now: number, left: Acknowledged, erased: readonly Entry[]): void {
    this.#storage.transactionSync(() => {
      this.counters.addFlush(erased);
      this.flushes.erase(accountId);
      this.#sql.exec("DELETE FROM logs WHERE account_id = ?", accountId);
      this.#sql.exec("DELETE FROM merged WHERE account_id = ?", accountId);
      this.#sql.exec("DELETE FROM erased WHERE until < ?", now);
      this.#sql.exec("INSERT OR REPLACE INTO erased (account_id, until) VALUES (?, ?)", accountId, now + erasedMs);
      this.#checkpoint(left);
    });
  }

  /** Returns the ids of the accounts that were erased in the last 30 days. */
  erased(now: number): string[] {
    return [...this.#sql.exec<{ id: string }>("SELECT account_id AS id FROM erased WHERE until >= ?", now)].map(({ id }) => id);
  }

  storeState(state: LogState): void {
    this.#storage.transactionSync(() => this.#storeState(state));
  }

  states(): LogState[] {
    return [
      ...this.#sql.exec<LogState & Record<string, SqlStorageValue>>(
        "SELECT account_id AS accountId, flush, highest_id AS highestId, start_id AS startId FROM logs",
      ),
    ];
  }

  /** Records that the small segments of an account before a time are merged. */
  storeMerged(accountId: string, until: number): void {
    this.#sql.exec("INSERT OR REPLACE INTO merged (account_id, until) VALUES (?, ?)", accountId, until);
  }

  /** Returns until when the small segments of each account are merged. */
  merged(): { accountId: string; until: number }[] {
    return [...this.#sql.exec<{ accountId: string; until: number }>("SELECT account_id AS accountId, until FROM merged")];
  }

  /** Raises the numbers of an account's recorded flushes. */
  renumberFlushes(state: LogState, by: number): void {
    this.#storage.transactionSync(() => {
      this.flushes.renumber(state.accountId, by);
      this.#storeState(state);
    });
  }

  /** Removes recorded flushes after D1 has confirmed them. */
  removeFlushes(flushes: readonly PendingFlush[]): void {
    this.#storage.transactionSync(() => {
      for (const flush of flushes) this.flushes.remove(flush);
    });
  }

  #storeState({ accountId, flush, highestId, startId }: LogState): void {
    this.#sql.exec(
      "INSERT OR REPLACE INTO logs (account_id, flush, highest_id, start_id) VALUES (?, ?, ?, ?)",
      ...[accountId, flush, highestId, startId],
    );
  }

  /** Replaces everything that this release can read. */
  #checkpoint(left: Acknowledged): void {
    this.#sql.exec("DELETE FROM wal WHERE row NOT IN (SELECT value FROM json_each(?))", JSON.stringify(this.#unreadable));
    this.#insert(left);
  }

  #insert({ entries, completions, isolates, early }: Acknowledged): void {
    const [first = [], ...others] = rowsOf(entries);
    const [firstIsolates = [], ...otherIsolates] = inBatches(isolates, isolatesInRow);
    if (first.length + completions.length + isolates.length + early.length > 0)
      this.#insertRow(first, { completions, isolates: firstIsolates, early });
    for (const some of others) this.#insertRow(some, {});
    for (const some of otherIsolates) this.#insertRow([], { isolates: some });
  }

  #insertRow(entries: readonly Entry[], more: More): void {
    this.#sql.exec("INSERT INTO wal (entries, more) VALUES (?, ?)", bufferOf(encodeEntries(entries)), JSON.stringify(more));
  }
}

/** Divides entries into groups that fit into a row. */
function rowsOf(entries: readonly Entry[]): Entry[][] {
  const groups: Entry[][] = [];
  let bytes = maxRowBytes;
  for (const entry of entries) {
    // A character takes at most three bytes as UTF-8.
    const size = 200 + 3 * (entry.path.length + entry.route.length + (entry.userAgent?.length ?? 0)) + sizeOfProblem(entry);
    if (bytes + size > maxRowBytes) {
      groups.push([]);
      bytes = 0;
    }
    groups.at(-1)?.push(entry);
    bytes += size;
  }
  return groups;
}

const sizeOfProblem = ({ problem }: Entry): number => (problem === null ? 0 : 3 * JSON.stringify(problem).length);
