import { sql } from "drizzle-orm";
import { type Db, newRevision, raw } from "../../db/client.ts";
import { idBound, timeOfId } from "../../ids/ids.ts";
import { dayMs, dayStart, hourMs, hourStart } from "../../time/clock.ts";
import { replaceTotals } from "../../usage/replace-totals.ts";
import type { Entry } from "../entry.ts";
import { openSegments, searchSegments } from "../segments/read-segments.ts";
import { segmentsOf, sorted } from "../segments/segment.ts";
import { joinSegments } from "../segments/segment-ids.ts";
import { insertSegments, segmentRow } from "./store-cuts.ts";

/** Returns the entries of an account from `from` to before `to`, in milliseconds since the epoch. */
async function readEntries(db: Db, accountId: string, from: number, to: number): Promise<Entry[]> {
  const entries: Entry[] = [];
  for (let before: string | null = idBound("req", to); before !== null; ) {
    const page = await searchSegments(db, accountId, { filter: {}, before, from: idBound("req", from), limit: 4000 });
    entries.push(...page.entries);
    before = page.completeFrom;
  }
  return entries;
}

/**
 * Deletes the entries of an account from before `until`, and their share of the usage figures. `until` is in milliseconds since the epoch. If another
 * batch changes the log in the meantime, tries again.
 */
export async function deleteSampleSegments(db: Db, accountId: string, until: number): Promise<void> {
  while (!(await deleteOnce(db, accountId, until)));
}

async function deleteOnce(db: Db, accountId: string, until: number): Promise<boolean> {
  const bound = idBound("req", until);
  const [[log], all] = await db.batch([
    raw<{ segments: number; revision: string; startId: string }>(
      db,
      sql`SELECT segments, revision, start_id AS startId FROM activity_logs WHERE account_id = ${accountId}`,
    ),
    raw<{ id: number; lastId: string; entries: number }>(
      db,
      sql`SELECT segment.id, last_id AS lastId, entries FROM activity_logs AS log
        ${joinSegments}
        WHERE log.account_id = ${accountId} AND first_id < ${bound}`,
    ),
  ]);
  if (!log) return true;
  // A segment may have other entries too. They are stored again. A segment that cannot be read stays as it is.
  const mixed = all.filter(({ lastId }) => lastId >= bound);
  const opened = await openSegments(db, accountId, mixed);
  const isDamaged = ({ entries }: { entries: number }, at: number) => opened[at]?.length !== entries;
  const damaged = mixed.filter(isDamaged);
  const old = all.filter((segment) => !damaged.includes(segment));
  const kept = mixed.flatMap((segment, at) => (isDamaged(segment, at) ? [] : (opened[at] ?? []))).filter(({ id }) => id >= bound);
  const left = segmentsOf(sorted(kept));
  // The hour and the day of `until` may have other requests too. If these are past their retention or damaged, nothing shows which they were.
  const day = dayStart(until);
  const rest = log.startId > bound || damaged.length > 0 ? null : await readEntries(db, accountId, until, day + dayMs);
  const revision = newRevision();
  const isFenced = sql`EXISTS (SELECT 1 FROM activity_logs WHERE account_id = ${accountId} AND revision = ${revision})`;
  const ids = JSON.stringify(old.map(({ id }) => id));
  const [changed] = await db.batch([
    raw<{ number: number }>(
      db,
      sql`UPDATE activity_logs SET revision = ${revision}, segments = ${log.segments + left.length}
        WHERE account_id = ${accountId} AND revision = ${log.revision} RETURNING number`,
    ),
    raw(db, sql`DELETE FROM activity_segments WHERE id IN (SELECT value FROM json_each(${ids})) AND ${isFenced}`),
    ...insertSegments(
      db,
      left.map((segment, at) => segmentRow(accountId, log.segments + at + 1, segment)),
      revision,
    ),
    ...replaceTotals(
      db,
      accountId,
      {
        hour: { start: hourStart(until), entries: rest?.filter(({ id }) => timeOfId(id) < hourStart(until) + hourMs) ?? null },
        day: { start: day, entries: rest },
        usesBefore: bound,
      },
      isFenced,
    ),
  ]);
  return changed.length > 0;
}
