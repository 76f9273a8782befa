import type { Db } from "../db/client.ts";
import { rowsAtOnce } from "../db/delete-in-chunks.ts";
import { sliceStart } from "../time/clock.ts";
import { staleSlices } from "./log-tables.ts";

// The statements about slices for the batches of the log.

/** Marks slices of accounts as stale. ?1: accounts and starts as JSON; ?2: the number of the writer that folds them; ?3: the time. */
export const markSlices = `INSERT OR IGNORE INTO stale_slices (account_id, start, writer, since)
  SELECT value ->> 0, value ->> 1, ?2, ?3 FROM json_each(?1)
  WHERE value ->> 1 >= coalesce((SELECT starts_at FROM log_starts WHERE account_id = value ->> 0), 0)`;

const due = "json_each(?) AS due CROSS JOIN";

/** Deletes marks from before the start of a log. ?1: accounts, as their second member the start of the log, as JSON. */
export const deleteOldMarks = `DELETE FROM stale_slices WHERE (account_id, start) IN
  (SELECT stale.account_id, stale.start FROM ${due} stale_slices AS stale ON stale.account_id = due.value ->> 0 AND stale.start < due.value ->> 1)`;

/** Deletes slices from before a time. ?1: accounts, as their fourth member the time, as JSON. */
export const deleteOldSlices = `DELETE FROM usage_slices WHERE (account_id, start, key_id, route, status) IN
  (SELECT old.account_id, old.start, key_id, route, status FROM ${due} usage_slices AS old
    ON old.account_id = due.value ->> 0 AND old.start < due.value ->> 3 LIMIT ${rowsAtOnce})`;

/** The statement that marks the slice of a time as stale. */
export const markSlice = (activity: Db, accountId: string, time: number) =>
  activity
    .insert(staleSlices)
    .values({ accountId, start: sliceStart(time), writer: 0, since: time })
    .onConflictDoNothing();
