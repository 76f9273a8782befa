import { sql } from "drizzle-orm";
import { type Db, newRevision, raw } from "../../db/client.ts";
import { idBound, timeOfId } from "../../lib/ids.ts";
import { dayMs, dayStart, secondMs } from "../../lib/time/clock.ts";
import { withDeadline } from "../../lib/time/deadline.ts";
import { openSegments } from "../segments/read-segments.ts";
import { type Segment, segmentsOf, sorted } from "../segments/segment.ts";
import { joinSegments } from "../segments/segment-ids.ts";
import type { AccountLog, AccountLogs } from "./account-logs.ts";
import { insertSegments, segmentRow } from "./store-flushes.ts";

// A quiet account gets a segment per hour or per hundred entries. A day after the end of a day, its small segments are merged, because large segments
// need less space and are faster to search.

/** Segments with fewer entries than this number are merged. */
const smallEntries = 1000;
/** The maximum number of segments and of entries that are merged together. Their entries are in memory meanwhile. */
const maxSegments = 100;
const maxEntries = 8000;
/** The maximum number of merges of one call. Each of them has about six statements. */
const mergesAtOnce = 40;
/** The time after which a merge is given up. If D1 runs it later, it does nothing, or all of it. */
const timeoutMs = 10 * secondMs;

/** A small segment in D1, with the state of its log. */
interface Small {
  id: number;
  firstId: string;
  entries: number;
  segments: number;
  revision: string;
}

/** Merges the small segments of some accounts whose last days were not merged yet. Returns whether more accounts are due. */
export async function mergeOldSegments({ db, logs }: { db: Db; logs: AccountLogs }, now: number, endsAt: number): Promise<boolean> {
  const before = dayStart(now - dayMs);
  const due = [...logs.accounts.values()].filter(({ mergedTo, state }) => mergedTo < before && state.flush > 0);
  let merges = 0;
  for (const log of due) {
    do {
      if (merges++ === mergesAtOnce || Date.now() > endsAt) return true;
    } while (!(await withDeadline(mergeBefore(db, log, before), timeoutMs, "Merging segments in D1")));
    log.mergedTo = before;
    logs.wal.storeMerged(log.state.accountId, before);
  }
  return false;
}

/**
 * Merges the small segments of an account from before a time, as many as one batch can. Returns false if there may be more to merge. Segments that
 * cannot be read stay as they are.
 */
export async function mergeBefore(db: Db, { state: { accountId } }: Pick<AccountLog, "state">, before: number): Promise<boolean> {
  const small = await raw<Small>(
    db,
    sql`SELECT segment.id, first_id AS firstId, entries, log.segments, revision
      FROM activity_logs AS log
      ${joinSegments}
      WHERE log.account_id = ${accountId} AND entries < ${smallEntries} AND last_id < ${idBound("req", before)}`,
  );
  for (const ofDay of Map.groupBy(small, ({ firstId }) => dayStart(timeOfId(firstId))).values()) {
    if (ofDay.length < 2) continue;
    const group = firstOf(ofDay);
    const bodies = await openSegments(db, accountId, group);
    const readable = group
      .map((segment, at) => ({ segment, entries: bodies[at] ?? [] }))
      .filter((each) => each.entries.length === each.segment.entries);
    const merged = segmentsOf(sorted(readable.flatMap(({ entries }) => entries)));
    // Large entries may need as many segments as before.
    if (merged.length >= readable.length) continue;
    await replace(
      db,
      accountId,
      readable.map(({ segment }) => segment),
      merged,
    );
    // The merge has changed the revision of the log. The other segments are merged the next time.
    return false;
  }
  return true;
}

/** Returns the first segments, as many as are merged together. */
function firstOf(segments: readonly Small[]): Small[] {
  let entries = 0;
  return segments.slice(0, maxSegments).filter((segment, at) => {
    entries += segment.entries;
    return at < 2 || entries <= maxEntries;
  });
}

/** Replaces segments of a log by others, unless another batch has changed the log since they were read. */
async function replace(db: Db, accountId: string, group: readonly Small[], merged: readonly Segment[]): Promise<void> {
  const [first] = group;
  if (!first) return;
  const revision = newRevision();
  const ids = JSON.stringify(group.map(({ id }) => id));
  await db.batch([
    raw(
      db,
      sql`UPDATE activity_logs SET revision = ${revision}, segments = ${first.segments + merged.length}
        WHERE account_id = ${accountId} AND revision = ${first.revision}`,
    ),
    ...insertSegments(
      db,
      merged.map((segment, at) => segmentRow(accountId, first.segments + at + 1, segment)),
      revision,
    ),
    raw(
      db,
      sql`DELETE FROM activity_segments WHERE id IN (SELECT value FROM json_each(${ids}))
        AND EXISTS (SELECT 1 FROM activity_logs WHERE account_id = ${accountId} AND revision = ${revision})`,
    ),
  ]);
}
