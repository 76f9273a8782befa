import { getTableColumns } from "drizzle-orm";
import { isRefusedContent, messagesOf } from "../db/failures.ts";
import { timeOfId } from "../ids/ids.ts";
import { bucketStart, dayMs, secondMs } from "../time/clock.ts";
import { withDeadline } from "../time/deadline.ts";
import { markBuckets } from "../usage/dirty-buckets.ts";
import { type Entry, entriesAtOnce } from "./entry.ts";
import { activity } from "./log-tables.ts";

const writeTimeoutMs = 5 * secondMs;
/** A lower bound for the retention of every log, in milliseconds. Entries younger than this bound are never too old to be written. */
const minRetentionMs = dayMs;

/**
 * Maps each column of the log to the property of an entry. The INSERT names its columns, so that a Worker of an earlier release keeps working after a
 * migration.
 */
const columns = Object.entries(getTableColumns(activity)).map(([member, { name, notNull }]) => ({
  member: member as keyof Entry,
  name,
  isNeeded: notNull,
}));

const row = (entry: Entry) => columns.map(({ member }) => entry[member]);

/** The target of a write. `writer`: the number of the log writer that rolls up the buckets of the entries. */
export interface LogWriteContext {
  d1: D1Database;
  writer: number;
  now: number;
}

/**
 * Writes entries to the log and marks their five-minute buckets as dirty, in one transaction per 500 entries. Leaves existing entries unchanged, so a
 * batch can be repeated. Entries from before the start of their account's log are rejected and reported, because their bucket is incomplete. Returns
 * the size of the database in bytes, as reported by D1. Throws if D1 does not confirm a batch within 5 s. D1 may still commit an unconfirmed batch.
 */
export async function writeEntries(context: LogWriteContext, entries: readonly Entry[]): Promise<number> {
  let bytes = 0;
  for (let from = 0; from < entries.length; from += entriesAtOnce)
    bytes = await writeWhatIsTaken(context, entries.slice(from, from + entriesAtOnce));
  return bytes;
}

/** Writes entries. Skips and reports entries whose content D1 rejects, so that the other entries are still written. */
async function writeWhatIsTaken(context: LogWriteContext, entries: readonly Entry[]): Promise<number> {
  try {
    return await withDeadline(writeBatch(context, entries), writeTimeoutMs, "Writing activity entries to D1");
  } catch (error) {
    if (!isRefusedContent(error)) throw error;
    const whole = entries.filter(isWhole);
    if (whole.length < entries.length) {
      setAside(
        entries.filter((entry) => !isWhole(entry)),
        error,
      );
      return whole.length === 0 ? 0 : writeWhatIsTaken(context, whole);
    }
    if (entries.length === 1) {
      setAside(entries, error);
      return 0;
    }
    const half = Math.ceil(entries.length / 2);
    await writeWhatIsTaken(context, entries.slice(0, half));
    return writeWhatIsTaken(context, entries.slice(half));
  }
}

/** Whether an entry has a value for every required column. NaN counts as missing, because JSON cannot represent it. */
const isWhole = (entry: Entry): boolean =>
  columns.every(({ member, isNeeded }) => !isNeeded || (entry[member] != null && !Number.isNaN(entry[member])));

const setAside = (entries: readonly Entry[], error: unknown): void =>
  console.error(`D1 refuses activity entries, which are set aside: ${entries.map(({ id }) => id).join(", ")}:`, messagesOf(error));

/** The SQL condition for an entry that is older than the log of its account. `value` is the entry as JSON. */
const isTooOld = "value ->> 1 < coalesce((SELECT first_id FROM log_starts WHERE account_id = value ->> 0), '')";

// An entry that already exists is left unchanged. Any other constraint violation fails the batch, because `OR IGNORE` would drop the entry silently.
const insertEntries = `INSERT INTO activity (${columns.map(({ name }) => name).join(", ")})
  SELECT ${columns.map((_, index) => `value ->> ${index}`).join(", ")} FROM json_each(?)
  WHERE NOT ${isTooOld} ON CONFLICT (account_id, id) DO NOTHING`;
const countTooOld = `SELECT count(*) AS tooOld FROM json_each(?) WHERE ${isTooOld}`;

async function writeBatch({ d1, writer, now }: LogWriteContext, entries: readonly Entry[]): Promise<number> {
  const rows = JSON.stringify(entries.map(row));
  const marks = entries.map(({ accountId, id }) => [accountId, bucketStart(timeOfId(id))] as const);
  const stale = [...new Map(marks.map((mark) => [mark.join(" "), mark])).values()];
  const mayBeTooOld = entries.some(({ id }) => timeOfId(id) < now - minRetentionMs);
  const outcomes = await d1.batch<{ tooOld: number }>([
    d1.prepare(insertEntries).bind(rows),
    d1.prepare(markBuckets).bind(JSON.stringify(stale), writer, now),
    ...(mayBeTooOld ? [d1.prepare(countTooOld).bind(rows)] : []),
  ]);
  const tooOld = mayBeTooOld ? (outcomes.at(-1)?.results[0]?.tooOld ?? 0) : 0;
  if (tooOld > 0) console.error(`${tooOld} activity entries are older than their account's log and were rejected`);
  return outcomes.at(-1)?.meta.size_after ?? 0;
}
