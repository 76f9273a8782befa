import type { Db } from "../db/client.ts";
import { rowsAtOnce } from "../db/delete-in-chunks.ts";
import { bucketStart } from "../time/clock.ts";
import { dirtyBuckets } from "./log-tables.ts";

// SQL statements for buckets. Each statement runs in the same batch as a write or a deletion of log entries.

/**
 * Marks buckets as dirty. `?1` is a JSON list of pairs of an account id and the start of a bucket. `?2` is the number of the log writer,
 * and `?3` is the current time in milliseconds.
 */
export const markBuckets = `INSERT OR IGNORE INTO stale_slices (account_id, start, writer, since)
  SELECT value ->> 0, value ->> 1, ?2, ?3 FROM json_each(?1)
  WHERE value ->> 1 >= coalesce((SELECT starts_at FROM log_starts WHERE account_id = value ->> 0), 0)`;

const due = "json_each(?) AS due CROSS JOIN";

/**
 * Deletes the dirty marks of buckets that start before the start of their account's log. The parameter is a JSON list with one array per
 * account. The first item of an array is the account id, and the second item is the start of the log.
 */
export const deleteOldMarks = `DELETE FROM stale_slices WHERE (account_id, start) IN
  (SELECT dirty.account_id, dirty.start FROM ${due} stale_slices AS dirty ON dirty.account_id = due.value ->> 0 AND dirty.start < due.value ->> 1)`;

/**
 * Deletes the roll-ups of buckets that start before a given time. The parameter is a JSON list with one array per account. The first item
 * of an array is the account id, and the fourth item is the time.
 */
export const deleteOldBuckets = `DELETE FROM usage_slices WHERE (account_id, start, key_id, route, status) IN
  (SELECT old.account_id, old.start, key_id, route, status FROM ${due} usage_slices AS old
    ON old.account_id = due.value ->> 0 AND old.start < due.value ->> 3 LIMIT ${rowsAtOnce})`;

/** Returns the statement that marks the bucket that contains `time` as dirty. */
export const markBucket = (activity: Db, accountId: string, time: number) =>
  activity
    .insert(dirtyBuckets)
    .values({ accountId, start: bucketStart(time), writer: 0, since: time })
    .onConflictDoNothing();
