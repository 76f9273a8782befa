import { rollupsFrom, storedKeys } from "../../usage/rollups.ts";
import type { LastUses, NewTotals } from "../../usage/store-totals.ts";
import type { Segment } from "../segments/segment.ts";

// The flushes that D1 has not confirmed, in the log writer's own database. Each function runs synchronously.

/** A flush with everything that it adds to D1. */
export interface NewFlush extends NewTotals {
  /** One higher than the number of the account's flush before it. */
  number: number;
  /** A random id. It shows whether D1 has this flush, or another flush with the same number. */
  id: string;
  /** The time when the flush was recorded, in milliseconds since the epoch. */
  at: number;
  /** Every entry of the log writer from before this time is in this flush or an earlier one. In milliseconds since the epoch. */
  completeTo: number;
  segments: readonly Segment[];
}

/**
 * What the memory holds of a recorded flush that D1 has not confirmed yet. Its contents stay on disk, because a log writer has thousands of pending flushes
 * after an outage of D1.
 */
export interface PendingFlush extends Pick<NewFlush, "accountId" | "number" | "id" | "at" | "completeTo"> {
  /** The row on disk. */
  row: number;
  segments: readonly Pick<Segment, "firstId" | "lastId" | "entries">[];
  /** The size of the bodies of its segments, in bytes. */
  bytes: number;
}

type OnDisk<Kept> = Kept & Record<string, SqlStorageValue>;
type SegmentRef = Pick<Segment, "firstId" | "lastId" | "entries">;
type StoredSegment = SegmentRef & { requests: number; summary: ArrayBuffer; body: ArrayBuffer };

const tables = `
  CREATE TABLE IF NOT EXISTS flushes (row INTEGER PRIMARY KEY, account_id TEXT NOT NULL, number INTEGER NOT NULL, id TEXT NOT NULL, at INTEGER NOT NULL, complete_to INTEGER NOT NULL,
    rollups TEXT NOT NULL, last_uses TEXT NOT NULL);
  CREATE TABLE IF NOT EXISTS flush_segments (row INTEGER PRIMARY KEY, flush INTEGER NOT NULL, part INTEGER NOT NULL, first_id TEXT NOT NULL, last_id TEXT NOT NULL,
    entries INTEGER NOT NULL, requests INTEGER NOT NULL, summary BLOB NOT NULL, body BLOB NOT NULL);
  CREATE INDEX IF NOT EXISTS flush_segments_by_flush ON flush_segments (flush, part);
`;

export class RecordedFlushes {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec(tables);
  }

  /** Returns the recorded flushes that were not removed, oldest first. */
  all(): PendingFlush[] {
    const segments = this.#sql.exec<OnDisk<SegmentRef & { flush: number; bytes: number }>>(
      "SELECT flush, first_id AS firstId, last_id AS lastId, entries, length(body) AS bytes FROM flush_segments ORDER BY flush, part",
    );
    const segmentsOf = Map.groupBy(segments, ({ flush }) => flush);
    const rows = this.#sql.exec<OnDisk<Omit<PendingFlush, "segments" | "bytes">>>(
      "SELECT row, account_id AS accountId, number, id, at, complete_to AS completeTo FROM flushes ORDER BY row",
    );
    return [...rows].map((flush) => {
      const own = segmentsOf.get(flush.row) ?? [];
      return { ...flush, segments: own.map(refOf), bytes: own.reduce((sum, { bytes }) => sum + bytes, 0) };
    });
  }

  /** Returns the totals that a recorded flush adds to D1. */
  totalsOf({ row, accountId }: PendingFlush): NewTotals {
    const flush = this.#sql
      .exec<{ rollups: string; lastUses: string }>("SELECT rollups, last_uses AS lastUses FROM flushes WHERE row = ?", row)
      .one();
    const hours = JSON.parse(flush.rollups) as [number, ReturnType<typeof storedKeys>][];
    return {
      accountId,
      rollups: new Map(hours.map(([start, keys]) => [start, rollupsFrom(keys)])),
      lastUses: new Map(JSON.parse(flush.lastUses)) as LastUses,
    };
  }

  segmentsOf({ row }: PendingFlush): Segment[] {
    const rows = this.#sql.exec<OnDisk<StoredSegment>>(
      "SELECT first_id AS firstId, last_id AS lastId, entries, requests, summary, body FROM flush_segments WHERE flush = ? ORDER BY part",
      row,
    );
    return [...rows].map((segment) => ({ ...segment, summary: new Uint8Array(segment.summary), body: new Uint8Array(segment.body) }));
  }

  summariesOf({ row }: PendingFlush): Uint8Array[] {
    const rows = this.#sql.exec<{ summary: ArrayBuffer }>("SELECT summary FROM flush_segments WHERE flush = ? ORDER BY part", row);
    return [...rows].map(({ summary }) => new Uint8Array(summary));
  }

  /** Returns the body of a segment of a recorded flush. `part`: the position of the segment in the flush. */
  bodyOf({ row }: PendingFlush, part: number): Uint8Array {
    const rows = this.#sql.exec<{ body: ArrayBuffer }>("SELECT body FROM flush_segments WHERE flush = ? AND part = ?", row, part);
    return new Uint8Array(rows.one().body);
  }

  insert({ accountId, number, id, at, completeTo, rollups, lastUses, segments }: NewFlush): PendingFlush {
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
    return { row, accountId, number, id, at, completeTo, segments: segments.map(refOf), bytes };
  }

  renumber(accountId: string, by: number): void {
    this.#sql.exec("UPDATE flushes SET number = number + ? WHERE account_id = ?", by, accountId);
  }

  remove({ row }: PendingFlush): void {
    this.#sql.exec("DELETE FROM flush_segments WHERE flush = ?", row);
    this.#sql.exec("DELETE FROM flushes WHERE row = ?", row);
  }

  /** Removes all flushes of an account. */
  erase(accountId: string): void {
    this.#sql.exec("DELETE FROM flush_segments WHERE flush IN (SELECT row FROM flushes WHERE account_id = ?)", accountId);
    this.#sql.exec("DELETE FROM flushes WHERE account_id = ?", accountId);
  }
}

const refOf = ({ firstId, lastId, entries }: SegmentRef): SegmentRef => ({ firstId, lastId, entries });

export const bufferOf = (bytes: Uint8Array): ArrayBuffer => bytes.slice().buffer as ArrayBuffer;
