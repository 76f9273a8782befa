import { messagesOf } from "../../db/failures.ts";
import { dayMs } from "../../lib/time/clock.ts";
import { rollupsFrom, storedKeys } from "../../usage/rollups.ts";
import type { LastUses, NewTotals } from "../../usage/store-totals.ts";
import type { Entry } from "../entry.ts";
import { decodeEntries, encodeEntries } from "../segments/codec.ts";
import type { Segment } from "../segments/segment.ts";
import { Counters } from "./counters.ts";
import type { KnownIsolate } from "./known-batches.ts";
import type { Completion } from "./memtable.ts";

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

/** A flush with everything that it adds to D1. */
export interface NewFlush extends NewTotals {
  /** One higher than the number of the account's flush before it. */
  number: number;
  /** A random id. It shows whether D1 has this flush, or another flush with the same number. */
  id: string;
  /** The time when the flush was recorded, in milliseconds since the epoch. */
  at: number;
  /** The log writer has no entry from before this time that is not in this flush or an earlier one. In milliseconds since the epoch. */
  completeTo: number;
  segments: readonly Segment[];
}

/**
 * A recorded flush that D1 has not confirmed yet, as far as it is in memory. Its contents stay on disk, because a log writer has thousands of waiting
 * flushes after an outage of D1.
 */
export interface PendingFlush {
  /** The row on disk. */
  row: number;
  accountId: string;
  number: number;
  id: string;
  at: number;
  completeTo: number;
  segments: readonly { firstId: string; lastId: string; entries: number }[];
  /** The size of the bodies of its segments, in bytes. */
  bytes: number;
}

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
  CREATE TABLE IF NOT EXISTS flushes (row INTEGER PRIMARY KEY, account_id TEXT NOT NULL, number INTEGER NOT NULL, id TEXT NOT NULL, at INTEGER NOT NULL, complete_to INTEGER NOT NULL,
    rollups TEXT NOT NULL, last_uses TEXT NOT NULL);
  CREATE TABLE IF NOT EXISTS flush_segments (row INTEGER PRIMARY KEY, flush INTEGER NOT NULL, part INTEGER NOT NULL, first_id TEXT NOT NULL, last_id TEXT NOT NULL,
    entries INTEGER NOT NULL, requests INTEGER NOT NULL, summary BLOB NOT NULL, body BLOB NOT NULL);
  CREATE TABLE IF NOT EXISTS erased (account_id TEXT PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS flush_segments_by_flush ON flush_segments (flush, part);
`;

interface FlushRow extends Record<string, SqlStorageValue> {
  row: number;
  account_id: string;
  number: number;
  id: string;
  at: number;
  complete_to: number;
  rollups: string;
  last_uses: string;
}

interface SegmentRow extends Record<string, SqlStorageValue> {
  first_id: string;
  last_id: string;
  entries: number;
  requests: number;
  summary: ArrayBuffer;
  body: ArrayBuffer;
}

interface SegmentRefRow extends Record<string, SqlStorageValue> {
  flush: number;
  first_id: string;
  last_id: string;
  entries: number;
  bytes: number;
}

export class WriteAheadLog {
  readonly #storage: DurableObjectStorage;
  readonly #sql: SqlStorage;
  readonly counters: Counters;
  /** The rows that this release cannot read. They stay for a later release. */
  readonly #unreadable: number[] = [];

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    this.#sql = storage.sql;
    this.#sql.exec(tables);
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
      const recorded = flushes.map((flush) => this.#insertFlush(flush));
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
      this.#sql.exec("DELETE FROM flush_segments WHERE flush IN (SELECT row FROM flushes WHERE account_id = ?)", accountId);
      this.#sql.exec("DELETE FROM flushes WHERE account_id = ?", accountId);
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
    const rows = this.#sql.exec<{ account_id: string; flush: number; highest_id: string; start_id: string }>("SELECT * FROM logs");
    return [...rows].map((row) => ({ accountId: row.account_id, flush: row.flush, highestId: row.highest_id, startId: row.start_id }));
  }

  /** Records that the small segments of an account before a time are merged. */
  storeMerged(accountId: string, until: number): void {
    this.#sql.exec("INSERT OR REPLACE INTO merged (account_id, until) VALUES (?, ?)", accountId, until);
  }

  /** Returns until when the small segments of each account are merged. */
  merged(): { accountId: string; until: number }[] {
    return [...this.#sql.exec<{ accountId: string; until: number }>("SELECT account_id AS accountId, until FROM merged")];
  }

  /** Returns the recorded flushes that were not removed, oldest first. */
  pendingFlushes(): PendingFlush[] {
    const segments = [
      ...this.#sql.exec<SegmentRefRow>(
        "SELECT flush, first_id, last_id, entries, length(body) AS bytes FROM flush_segments ORDER BY flush, part",
      ),
    ];
    const segmentsOf = Map.groupBy(segments, ({ flush }) => flush);
    const rows = this.#sql.exec<Pick<FlushRow, "row" | "account_id" | "number" | "id" | "at" | "complete_to">>(
      "SELECT row, account_id, number, id, at, complete_to FROM flushes ORDER BY row",
    );
    return [...rows].map(({ row, account_id, number, id, at, complete_to }) => {
      const own = segmentsOf.get(row) ?? [];
      return {
        ...{ row, accountId: account_id, number, id, at, completeTo: complete_to },
        segments: own.map(({ first_id, last_id, entries }) => ({ firstId: first_id, lastId: last_id, entries })),
        bytes: own.reduce((sum, { bytes }) => sum + bytes, 0),
      };
    });
  }

  /** Returns the totals that a recorded flush adds to D1. */
  totalsOf({ row, accountId }: PendingFlush): NewTotals {
    const flush = this.#sql
      .exec<Pick<FlushRow, "rollups" | "last_uses">>("SELECT rollups, last_uses FROM flushes WHERE row = ?", row)
      .one();
    const hours = JSON.parse(flush.rollups) as [number, ReturnType<typeof storedKeys>][];
    return {
      accountId,
      rollups: new Map(hours.map(([start, keys]) => [start, rollupsFrom(keys)])),
      lastUses: new Map(JSON.parse(flush.last_uses)) as LastUses,
    };
  }

  /** Returns the segments of a recorded flush. */
  segmentsOf({ row }: PendingFlush): Segment[] {
    const rows = this.#sql.exec<SegmentRow>(
      "SELECT first_id, last_id, entries, requests, summary, body FROM flush_segments WHERE flush = ? ORDER BY part",
      row,
    );
    return [...rows].map(({ first_id, last_id, entries, requests, summary, body }) => ({
      ...{ firstId: first_id, lastId: last_id, entries, requests },
      summary: new Uint8Array(summary),
      body: new Uint8Array(body),
    }));
  }

  /** Returns the summaries of the segments of a recorded flush. */
  summariesOf({ row }: PendingFlush): Uint8Array[] {
    const rows = this.#sql.exec<Pick<SegmentRow, "summary">>("SELECT summary FROM flush_segments WHERE flush = ? ORDER BY part", row);
    return [...rows].map(({ summary }) => new Uint8Array(summary));
  }

  /** Returns the body of a segment of a recorded flush. `part`: the position of the segment in the flush. */
  bodyOf({ row }: PendingFlush, part: number): Uint8Array {
    const { body } = this.#sql
      .exec<Pick<SegmentRow, "body">>("SELECT body FROM flush_segments WHERE flush = ? AND part = ?", row, part)
      .one();
    return new Uint8Array(body);
  }

  /** Raises the numbers of an account's recorded flushes. */
  renumberFlushes(state: LogState, by: number): void {
    this.#storage.transactionSync(() => {
      this.#sql.exec("UPDATE flushes SET number = number + ? WHERE account_id = ?", by, state.accountId);
      this.#storeState(state);
    });
  }

  /** Removes recorded flushes after D1 has confirmed them. */
  removeFlushes(flushes: readonly PendingFlush[]): void {
    this.#storage.transactionSync(() => {
      for (const { row } of flushes) {
        this.#sql.exec("DELETE FROM flush_segments WHERE flush = ?", row);
        this.#sql.exec("DELETE FROM flushes WHERE row = ?", row);
      }
    });
  }

  #insertFlush({ accountId, number, id, at, completeTo, rollups, lastUses, segments }: NewFlush): PendingFlush {
    const { row } = this.#sql
      .exec<{ row: number }>(
        "INSERT INTO flushes (account_id, number, id, at, complete_to, rollups, last_uses) VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING row",
        ...[accountId, number, id, at, completeTo],
        JSON.stringify([...rollups].map(([start, ofHour]) => [start, storedKeys(ofHour)])),
        JSON.stringify([...lastUses]),
      )
      .one();
    segments.forEach(({ firstId, lastId, entries, requests, summary, body }, part) => {
      this.#sql.exec(
        "INSERT INTO flush_segments (flush, part, first_id, last_id, entries, requests, summary, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        ...[row, part, firstId, lastId, entries, requests, bufferOf(summary), bufferOf(body)],
      );
    });
    const bytes = segments.reduce((sum, { body }) => sum + body.length, 0);
    return {
      row,
      accountId,
      number,
      id,
      at,
      completeTo,
      segments: segments.map(({ firstId, lastId, entries }) => ({ firstId, lastId, entries })),
      bytes,
    };
  }

  #storeState({ accountId, flush, highestId, startId }: LogState): void {
    this.#sql.exec(
      `INSERT INTO logs (account_id, flush, highest_id, start_id) VALUES (?, ?, ?, ?)
        ON CONFLICT DO UPDATE SET flush = excluded.flush, highest_id = excluded.highest_id, start_id = excluded.start_id`,
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
    if (first.length + completions.length + isolates.length + early.length > 0)
      this.#insertRow(first, { completions, isolates: isolates.slice(0, isolatesInRow), early });
    for (const some of others) this.#insertRow(some, {});
    for (let at = isolatesInRow; at < isolates.length; at += isolatesInRow)
      this.#insertRow([], { isolates: isolates.slice(at, at + isolatesInRow) });
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

const bufferOf = (bytes: Uint8Array): ArrayBuffer => bytes.slice().buffer as ArrayBuffer;
