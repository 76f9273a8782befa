import { bytesToHex } from "@noble/hashes/utils.js";
import { sql } from "drizzle-orm";
import type { activityLogs } from "../../db/areas/log/log-tables.ts";
import { type Db, jsonRows, newRevision, raw } from "../../db/client.ts";
import { type StoredTotals, totalsQueries, totalsStatements } from "../../usage/store-totals.ts";
import type { Segment } from "../segments/segment.ts";
import { idOfSegment } from "../segments/segment-ids.ts";
import type { NewFlush } from "./recorded-flushes.ts";

// A log writer stores flushes in D1. The batch is fenced: its first statement gives each log a new revision if the log still has the revision that
// the log writer has read. All other statements require the new revision. If D1 runs a batch late, after the log writer
// has given it up, the batch therefore does nothing.

/** A flush to store. `startId`: entries whose id sorts before this id are past their retention, and are not shown. */
export interface FlushToStore extends NewFlush {
  startId: string;
}

/** The row of a log in D1. */
type StoredLog = Pick<typeof activityLogs.$inferSelect, "accountId" | "owner" | "flush" | "flushId" | "segments" | "revision">;

/** The outcome for one flush. `lost`: D1 was set back, and this number of earlier flushes is missing there. */
export type Stored =
  | { outcome: "stored"; lost: number }
  /** The log belongs to another log writer. */
  | { outcome: "foreign"; owner: number }
  /** D1 has flushes that this log writer does not know, because its disk was lost. `last`: the number of the last flush in D1. */
  | { outcome: "behind"; last: number }
  /** Another batch has changed the log in the meantime. The log writer tries again. */
  | { outcome: "overtaken" };

/**
 * Stores one flush of each of some accounts: its segments and the new totals. Returns one outcome for each flush, in their order. Throws if D1 does not respond.
 * D1 may still store the flushes later.
 */
export async function storeFlushes({ db, owner }: { db: Db; owner: number }, flushes: readonly FlushToStore[]): Promise<Stored[]> {
  const accounts = JSON.stringify(flushes.map(({ accountId }) => accountId));
  const [, logs, ...totals] = await db.batch([
    raw(
      db,
      sql`INSERT INTO activity_logs (account_id, owner, flush, flush_id, segments, as_of, start_id, revision)
        SELECT value, ${owner}, 0, '', 0, 0, '', '' FROM json_each(${accounts}) WHERE true ON CONFLICT (account_id) DO NOTHING`,
    ),
    raw<StoredLog>(
      db,
      sql`SELECT account_id AS accountId, owner, flush, flush_id AS flushId, segments, revision FROM activity_logs
        WHERE account_id IN (SELECT value FROM json_each(${accounts}))`,
    ),
    ...totalsQueries(db, flushes),
  ]);
  const logOf = new Map(logs.map((log) => [log.accountId, log]));
  const plans = flushes.map((flush) => planOf(flush, logOf.get(flush.accountId), owner));
  const toWrite = plans.flatMap((plan) => ("log" in plan ? [plan] : []));
  const written = await write(db, toWrite, totals as unknown as StoredTotals);
  return plans.map((plan): Stored => {
    if ("outcome" in plan) return plan;
    if (!written.has(plan.flush.accountId)) return { outcome: "overtaken" };
    return { outcome: "stored", lost: Math.max(0, plan.flush.number - 1 - plan.log.flush) };
  });
}

interface Plan {
  flush: FlushToStore;
  log: StoredLog;
}

function planOf(flush: FlushToStore, log: StoredLog | undefined, owner: number): Plan | Stored {
  if (!log) return { outcome: "overtaken" };
  if (log.owner !== owner) return { outcome: "foreign", owner: log.owner };
  if (log.flush === flush.number && log.flushId === flush.id) return { outcome: "stored", lost: 0 };
  if (log.flush >= flush.number) return { outcome: "behind", last: log.flush };
  return { flush, log };
}

async function write(db: Db, plans: readonly Plan[], totals: StoredTotals): Promise<Set<string>> {
  if (plans.length === 0) return new Set();
  const revision = newRevision();
  const changes = JSON.stringify(
    plans.map(({ flush, log }) => [
      ...[log.accountId, log.revision, flush.number, log.segments + flush.segments.length],
      ...[flush.id, flush.startId, flush.completeTo],
    ]),
  );
  const segments = plans.flatMap(({ flush, log }) =>
    flush.segments.map((segment, at) => segmentRow(log.accountId, log.segments + at + 1, segment)),
  );
  const isFenced = sql`EXISTS (SELECT 1 FROM activity_logs AS log WHERE log.account_id = row.value ->> 0 AND log.revision = ${revision})`;
  const [changed] = await db.batch([
    raw<{ accountId: string }>(
      db,
      sql`UPDATE activity_logs SET revision = ${revision}, flush = change.value ->> 2, segments = change.value ->> 3, flush_id = change.value ->> 4,
          as_of = change.value ->> 6, start_id = max(start_id, change.value ->> 5)
        FROM json_each(${changes}) AS change
        WHERE activity_logs.account_id = change.value ->> 0 AND activity_logs.revision = change.value ->> 1
        RETURNING activity_logs.account_id AS accountId`,
    ),
    ...insertSegments(db, segments, revision),
    ...totalsStatements(
      db,
      plans.map(({ flush }) => flush),
      totals,
      isFenced,
    ),
  ]);
  return new Set(changed.map(({ accountId }) => accountId));
}

type SegmentRow = ReturnType<typeof segmentRow>;

/** Returns a segment in the form for `insertSegments`. `number`: the number of the segment in its log. */
export const segmentRow = (accountId: string, number: number, { firstId, lastId, entries, requests, summary, body }: Segment) =>
  [accountId, number, firstId, lastId, entries, requests, bytesToHex(summary), bytesToHex(body)] as const;

/** Returns the statements that insert segments into logs with this revision. */
export const insertSegments = (db: Db, rows: readonly SegmentRow[], revision: string) =>
  jsonRows(rows).map((text) =>
    raw(
      db,
      sql`INSERT INTO activity_segments (id, account_id, first_id, last_id, entries, requests, summary, body)
        SELECT ${idOfSegment("row.value ->> 1")}, log.account_id, row.value ->> 2, row.value ->> 3, row.value ->> 4, row.value ->> 5,
          unhex(row.value ->> 6), unhex(row.value ->> 7)
        FROM json_each(${text}) AS row
        CROSS JOIN activity_logs AS log ON log.account_id = row.value ->> 0 AND log.revision = ${revision}`,
    ),
  );
