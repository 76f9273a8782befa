import { getTableColumns } from "drizzle-orm";
import { isRefusedContent, messagesOf } from "../db/failures.ts";
import { timeOfId } from "../ids/ids.ts";
import { dayMs, secondMs, sliceStart } from "../time/clock.ts";
import { withDeadline } from "../time/deadline.ts";
import { markSlices } from "../usage/stale-slices.ts";
import { type Entry, entriesAtOnce } from "./entry.ts";
import { activity } from "./log-tables.ts";

const writeTimeoutMs = 5 * secondMs;
/** No log is kept for less. */
const certainlyKeptMs = dayMs;

/** The columns that an entry is written to, by its members. Named, so that a Worker from before a migration goes on writing after it. */
const columns = Object.entries(getTableColumns(activity)).map(([member, { name, notNull }]) => ({
  member: member as keyof Entry,
  name,
  isNeeded: notNull,
}));

const row = (entry: Entry) => columns.map(({ member }) => entry[member]);

/** Where entries are written. `writer`: the number of the one that is to fold their slices. */
export interface LogWriteContext {
  d1: D1Database;
  writer: number;
  now: number;
}

/**
 * Writes entries to the log and marks their slices as stale, in one transaction for each 500. An entry that is there already is left
 * alone, so a batch may be repeated. One from before the start of its account's log is refused and reported: the rest of its slice has
 * been deleted. Answers the size of the database in bytes, as D1 says it. Throws where D1 has not confirmed a batch within 5 s; it may still have written.
 */
export async function writeEntries(writing: LogWriteContext, entries: readonly Entry[]): Promise<number> {
  let bytes = 0;
  for (let from = 0; from < entries.length; from += entriesAtOnce)
    bytes = await writeWhatIsTaken(writing, entries.slice(from, from + entriesAtOnce));
  return bytes;
}

/** Writes entries. Entries that D1 refuses for their content are set aside and reported, and do not hold up the others. */
async function writeWhatIsTaken(writing: LogWriteContext, entries: readonly Entry[]): Promise<number> {
  try {
    return await withDeadline(writeBatch(writing, entries), writeTimeoutMs, "Writing activity entries to D1");
  } catch (error) {
    if (!isRefusedContent(error)) throw error;
    const whole = entries.filter(isWhole);
    if (whole.length < entries.length) {
      setAside(
        entries.filter((entry) => !isWhole(entry)),
        error,
      );
      return whole.length === 0 ? 0 : writeWhatIsTaken(writing, whole);
    }
    if (entries.length === 1) {
      setAside(entries, error);
      return 0;
    }
    const half = Math.ceil(entries.length / 2);
    await writeWhatIsTaken(writing, entries.slice(0, half));
    return writeWhatIsTaken(writing, entries.slice(half));
  }
}

/** Whether an entry has what no row can be without. NaN is no number in JSON. */
const isWhole = (entry: Entry): boolean =>
  columns.every(({ member, isNeeded }) => !isNeeded || (entry[member] != null && !Number.isNaN(entry[member])));

const setAside = (entries: readonly Entry[], error: unknown): void =>
  console.error(`D1 refuses activity entries, which are set aside: ${entries.map(({ id }) => id).join(", ")}:`, messagesOf(error));

/** Of `value`, a row as JSON: whether its account's log had not begun yet. */
const isTooOld = "value ->> 1 < coalesce((SELECT first_id FROM log_starts WHERE account_id = value ->> 0), '')";

// An entry that is there already is left alone. Any other that no row can be made of fails the batch: OR IGNORE would drop it in silence.
const insertEntries = `INSERT INTO activity (${columns.map(({ name }) => name).join(", ")})
  SELECT ${columns.map((_, index) => `value ->> ${index}`).join(", ")} FROM json_each(?)
  WHERE NOT ${isTooOld} ON CONFLICT (account_id, id) DO NOTHING`;
const countTooOld = `SELECT count(*) AS refused FROM json_each(?) WHERE ${isTooOld}`;

async function writeBatch({ d1, writer, now }: LogWriteContext, entries: readonly Entry[]): Promise<number> {
  const rows = JSON.stringify(entries.map(row));
  const marks = entries.map(({ accountId, id }) => [accountId, sliceStart(timeOfId(id))] as const);
  const stale = [...new Map(marks.map((mark) => [mark.join(" "), mark])).values()];
  const mayBeTooOld = entries.some(({ id }) => timeOfId(id) < now - certainlyKeptMs);
  const outcomes = await d1.batch<{ refused: number }>([
    d1.prepare(insertEntries).bind(rows),
    d1.prepare(markSlices).bind(JSON.stringify(stale), writer, now),
    ...(mayBeTooOld ? [d1.prepare(countTooOld).bind(rows)] : []),
  ]);
  const refused = mayBeTooOld ? (outcomes.at(-1)?.results[0]?.refused ?? 0) : 0;
  if (refused > 0) console.error(`${refused} activity entries are older than their account's log and were refused`);
  return outcomes.at(-1)?.meta.size_after ?? 0;
}
