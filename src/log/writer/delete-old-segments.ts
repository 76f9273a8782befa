import { sql } from "drizzle-orm";
import { type Db, newRevision, raw } from "../../db/client.ts";
import { idBound } from "../../lib/ids.ts";
import { dayMs, hourStart } from "../../lib/time/clock.ts";
import { type Retention, segmentsAtOnce } from "../retention.ts";
import { joinSegments } from "../segments/segment-ids.ts";
import type { AccountLogs } from "./account-logs.ts";

/**
 * Raises the starts of logs, and deletes the segments that end before the start. A segment covers at most a day, so an entry is stored for at most a
 * day longer than its retention. Readers do not show entries from before the start. Returns whether there may be more segments to delete.
 */
export async function deleteOldSegments(
  { db, logs, now }: { db: Db; logs: AccountLogs; now: number },
  retentions: readonly Retention[],
): Promise<boolean> {
  const starts = retentions.map(({ accountId, days }) => [accountId, idBound("req", hourStart(now - days * dayMs))] as const);
  for (const [accountId, startId] of starts) logs.raiseStart(accountId, startId);
  const due = JSON.stringify(starts);
  const old = (columns: string) => sql`SELECT ${sql.raw(columns)} FROM json_each(${due}) AS due
    CROSS JOIN activity_logs AS log ON log.account_id = due.value ->> 0
    ${joinSegments}`;
  const [, deleted] = await db.batch([
    // The new revision keeps a merge that has already read the segments from writing them again. A log gets a new revision only if it has something
    // to delete or to hide, because D1 bills each written row.
    raw(
      db,
      sql`UPDATE activity_logs SET revision = ${newRevision()}, start_id = max(start_id, due.value ->> 1) FROM json_each(${due}) AS due
        WHERE activity_logs.account_id = due.value ->> 0 AND activity_logs.number IN (
          ${old("log.number")} WHERE segment.first_id < due.value ->> 1 AND (log.start_id < due.value ->> 1 OR segment.last_id < due.value ->> 1))`,
    ),
    raw<{ id: number }>(
      db,
      sql`DELETE FROM activity_segments WHERE id IN (${old("segment.id")} WHERE segment.last_id < due.value ->> 1 LIMIT ${segmentsAtOnce})
        RETURNING id`,
    ),
  ]);
  return deleted.length === segmentsAtOnce;
}
