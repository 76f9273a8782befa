import { sql } from "drizzle-orm";
import { type Db, raw } from "../db/client.ts";
import { hasNoSegments, joinSegments } from "./segments/segment-ids.ts";

/** The minimum and maximum retention of a log, in days. */
export const retentionDays = { min: 2, max: 90 };
/** The default retention of the log, in days. The operator can configure another number. */
export const defaultDays = 31;

/**
 * Returns the log retention of accounts that have no retention of their own, in days. Throws if `ACTIVITY_DAYS` is not a whole number from
 * 2 to 90.
 */
export function activityDays({ ACTIVITY_DAYS = String(defaultDays) }: { ACTIVITY_DAYS?: string }): number {
  const days = Number(ACTIVITY_DAYS);
  if (!Number.isInteger(days) || days < retentionDays.min || days > retentionDays.max)
    throw new Error(`ACTIVITY_DAYS must be a whole number from ${retentionDays.min} to ${retentionDays.max}`);
  return days;
}

export interface Retention {
  accountId: string;
  days: number;
}

/** The maximum number of segments that one call deletes. */
export const segmentsAtOnce = 500;

/** Deletes some segments of an erased account, and at last its log. Returns the number of deleted entries, or null if nothing is left. */
export async function eraseSegments(db: Db, accountId: string): Promise<number | null> {
  const [deleted, , gone] = await db.batch([
    raw<{ entries: number }>(
      db,
      sql`DELETE FROM activity_segments WHERE id IN (SELECT segment.id FROM activity_logs AS log
          ${joinSegments}
          WHERE log.account_id = ${accountId} LIMIT ${segmentsAtOnce}) RETURNING entries`,
    ),
    raw(db, sql`DELETE FROM activity_logs AS log WHERE account_id = ${accountId} AND ${hasNoSegments}`),
    raw<{ left: number }>(db, sql`SELECT count(*) AS left FROM activity_logs WHERE account_id = ${accountId}`),
  ]);
  const entries = deleted.reduce((sum, segment) => sum + segment.entries, 0);
  return entries === 0 && gone[0]?.left === 0 ? null : entries;
}
