import { sql } from "drizzle-orm";
import { type Db, newRevision, raw } from "../../db/client.ts";
import { idBound, timeOfId } from "../../ids/ids.ts";
import { dayMs, dayStart } from "../../time/clock.ts";
import { openSegments } from "../segments/read-segments.ts";
import { segmentsOf, sorted } from "../segments/segment.ts";
import { joinSegments } from "../segments/segment-ids.ts";
import type { AccountLog, AccountLogs } from "./account-logs.ts";
import { insertSegments, segmentRow } from "./store-cuts.ts";

// A quiet account gets a segment per hour or per hundred entries. When a day is over, its small segments are merged, because large segments need
// less space and are faster to search.

/** Segments with fewer entries than this number are merged. */
const smallEntries = 1000;
const maxSegments = 40;
const accountsAtOnce = 20;

/** A small segment in D1, with the state of its log. */
interface Small {
  id: number;
  firstId: string;
  entries: number;
  segments: number;
  revision: string;
}

/** Merges the small segments of some accounts whose last days were not merged yet. */
export async function mergeOldSegments({
  db,
  logs,
  now,
  endsAt,
}: {
  db: Db;
  logs: AccountLogs;
  now: number;
  endsAt: number;
}): Promise<void> {
  const before = dayStart(now - dayMs);
  const due = [...logs.accounts.values()].filter(({ mergedTo, state }) => mergedTo < before && state.cut > 0);
  for (const log of due.slice(0, accountsAtOnce)) {
    if (Date.now() > endsAt) return;
    if (await mergeBefore(db, log, before)) log.mergedTo = before;
  }
}

/** Merges the small segments of an account from before a time. Returns false if there may be more to merge. */
export async function mergeBefore(db: Db, { state: { accountId } }: Pick<AccountLog, "state">, before: number): Promise<boolean> {
  const small = await raw<Small>(
    db,
    sql`SELECT segment.id, first_id AS firstId, entries, log.segments, revision
      FROM activity_logs AS log
      ${joinSegments}
      WHERE log.account_id = ${accountId} AND entries < ${smallEntries} AND last_id < ${idBound("req", before)}`,
  );
  const groups = Map.groupBy(small, ({ firstId }) => dayStart(timeOfId(firstId)));
  for (const group of groups.values()) {
    if (group.length < 2) continue;
    await merge(db, accountId, group.slice(0, maxSegments));
    // The merge has changed the revision of the log. The other days are merged the next time.
    return false;
  }
  return true;
}

async function merge(db: Db, accountId: string, group: readonly Small[]): Promise<void> {
  const [first] = group;
  if (!first) return;
  const entries = sorted((await openSegments(db, accountId, group)).flat());
  // A segment that cannot be read stays as it is.
  if (entries.length !== group.reduce((sum, segment) => sum + segment.entries, 0)) return;
  const merged = segmentsOf(entries);
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
