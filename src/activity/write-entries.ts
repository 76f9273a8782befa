import { getTableColumns } from "drizzle-orm";
import { isRejectedContent, messagesOf } from "../db/failures.ts";
import { timeOfId } from "../ids/ids.ts";
import { bucketStart, dayMs, secondMs } from "../time/clock.ts";
import { withDeadline } from "../time/deadline.ts";
import { markBuckets } from "../usage/dirty-buckets.ts";
import { type Entry, entriesAtOnce } from "./entry.ts";
import { activity } from "./log-tables.ts";

const writeTimeoutMs = 5 * secondMs;
/**
 * A time that is shorter than the retention of any log, in milliseconds. An entry that is younger than this time is never rejected as too
 * old.
 */
const minRetentionMs = dayMs;

/**
 * The columns of the log, each with the matching property of `Entry`. The INSERT lists its columns by name. Workers of an earlier release
 * therefore keep working after a migration.
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
 * Writes entries to the log and marks their five-minute buckets as dirty. One transaction covers up to 500 entries. Existing entries stay
 * unchanged, so the same batch can safely be written again. Rejects and reports entries that are older than their account's log, because
 * the five-minute buckets of such entries are incomplete. Returns the size of the database in bytes, as reported by D1. If D1 does not
 * confirm a batch within 5 s, throws an error. D1 may still commit that batch later.
 */
export async function writeEntries(context: LogWriteContext, entries: readonly Entry[]): Promise<number> {
  let bytes = 0;
  for (let from = 0; from < entries.length; from += entriesAtOnce)
    bytes = await writeWhatIsTaken(context, entries.slice(from, from + entriesAtOnce));
  return bytes;
}

/** Writes entries. If D1 rejects the content of an entry, reports and skips that entry and writes the others. */
async function writeWhatIsTaken(context: LogWriteContext, entries: readonly Entry[]): Promise<number> {
  try {
    return await withDeadline(writeBatch(context, entries), writeTimeoutMs, "Writing activity entries to D1");
  } catch (error) {
    if (!isRejectedContent(error)) throw error;
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

/** Whether an entry has a value for every required column. NaN counts as missing, because JSON has no such value. */
const isWhole = (entry: Entry): boolean =>
  columns.every(({ member, isNeeded }) => !isNeeded || (entry[member] != null && !Number.isNaN(entry[member])));

const setAside = (entries: readonly Entry[], error: unknown): void =>
  console.error(`D1 rejects activity entries, which are set aside: ${entries.map(({ id }) => id).join(", ")}:`, messagesOf(error));

/**
 * An SQL condition that is true if an entry is older than the start of its account's log. In the condition, `value` is the entry as JSON.
 */
const isTooOld = "value ->> 1 < coalesce((SELECT first_id FROM log_starts WHERE account_id = value ->> 0), '')";

// If an entry already exists, the INSERT leaves the stored entry unchanged. Any other constraint violation makes the batch fail. With `OR
// IGNORE`, D1 would silently drop the entry instead.
const insertEntries = `INSERT INTO activity (${columns.map(({ name }) => name).join(", ")})
  SELECT ${columns.map((_, index) => `value ->> ${index}`).join(", ")} FROM json_each(?)
  WHERE NOT ${isTooOld} ON CONFLICT (account_id, id) DO NOTHING`;
const countTooOld = `SELECT count(*) AS tooOld FROM json_each(?) WHERE ${isTooOld}`;

async function writeBatch({ d1, writer, now }: LogWriteContext, entries: readonly Entry[]): Promise<number> {
  const rows = JSON.stringify(entries.map(row));
  const marks = entries.map(({ accountId, id }) => [accountId, bucketStart(timeOfId(id))] as const);
  const dirty = [...new Map(marks.map((mark) => [mark.join(" "), mark])).values()];
  const mayBeTooOld = entries.some(({ id }) => timeOfId(id) < now - minRetentionMs);
  const outcomes = await d1.batch<{ tooOld: number }>([
    d1.prepare(insertEntries).bind(rows),
    d1.prepare(markBuckets).bind(JSON.stringify(dirty), writer, now),
    ...(mayBeTooOld ? [d1.prepare(countTooOld).bind(rows)] : []),
  ]);
  const tooOld = mayBeTooOld ? (outcomes.at(-1)?.results[0]?.tooOld ?? 0) : 0;
  if (tooOld > 0) console.error(`${tooOld} activity entries are older than their account's log and were rejected`);
  return outcomes.at(-1)?.meta.size_after ?? 0;
}
