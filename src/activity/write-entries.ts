import { getTableColumns, sql } from "drizzle-orm";
import { dayMs, hourStart, secondMs } from "../clock.ts";
import { type Db, raw } from "../db/client.ts";
import { isRefusedContent, messagesOf } from "../db/failures.ts";
import { activity } from "../db/schema.ts";
import { withDeadline } from "../deadline.ts";
import { idBound, timeOfId } from "../ids.ts";
import { addressesKeptMs, type Entry } from "./entry.ts";

/** Entries in one statement. The longest, by the bounds of what is recorded, has some 2.5 KB, and D1 takes 2 MB for a bound value. */
const batchSize = 500;
const writeTimeoutMs = 5 * secondMs;
const acceptedMs = 30 * dayMs;

/** The columns that an entry is written to, by its members. Named, so that a Worker from before a migration goes on writing after it. */
const columns = Object.entries(getTableColumns(activity)).map(([member, { name }]) => ({ member: member as keyof Entry, name }));
const list = (parts: string[]) => sql.raw(parts.join(", "));

const row = (entry: Entry) => columns.map(({ member }) => entry[member]);

/**
 * Writes entries to the log and marks their hours as stale, in one transaction for each 500. An entry that is
 * there already is left alone, so a batch may be repeated. One that comes so late that its address would have been cleared is
 * written without it; one that is older than 30 days is refused and reported: the rest of its hour may be deleted already.
 * Throws where D1 has not confirmed all within 5 s; it may still have written.
 */
export async function writeEntries(db: Db, entries: readonly Entry[], now: number): Promise<void> {
  const oldest = idBound("req", now - acceptedMs);
  const withAddress = idBound("req", now - addressesKeptMs);
  const accepted = entries.filter(({ id }) => id >= oldest).map((entry) => (entry.id < withAddress ? { ...entry, ip: null } : entry));
  if (accepted.length < entries.length)
    console.error(`${entries.length - accepted.length} activity entries are older than 30 days and were refused`);
  const write = async () => {
    for (let from = 0; from < accepted.length; from += batchSize) await writeWhatIsTaken(db, accepted.slice(from, from + batchSize));
  };
  await withDeadline(write(), writeTimeoutMs, "Writing activity entries to D1");
}

/** Writes entries of which some may be refused for their content: those are set aside and reported, and hold up no other. */
async function writeWhatIsTaken(db: Db, entries: readonly Entry[]): Promise<void> {
  try {
    await writeBatch(db, entries);
  } catch (error) {
    if (!isRefusedContent(error)) throw error;
    const [only, ...others] = entries;
    if (only && others.length === 0) {
      console.error(`D1 refuses the activity entry ${only.id}, which is set aside:`, messagesOf(error));
      return;
    }
    const half = Math.ceil(entries.length / 2);
    await writeWhatIsTaken(db, entries.slice(0, half));
    await writeWhatIsTaken(db, entries.slice(half));
  }
}

/** An entry that is there already is left alone. Any other that no row can be made of fails the batch: OR IGNORE would drop it in silence. */
function writeBatch(db: Db, entries: readonly Entry[]): Promise<unknown> {
  const hours = entries.map(({ accountId, id }) => [accountId, hourStart(timeOfId(id))] as const);
  const stale = new Map(hours.map((hour) => [hour.join(" "), hour]));
  return db.batch([
    raw(
      db,
      sql`INSERT INTO activity (${list(columns.map(({ name }) => name))})
      SELECT ${list(columns.map((_, index) => `value ->> ${index}`))} FROM json_each(${JSON.stringify(entries.map(row))})
      WHERE true ON CONFLICT (account_id, id) DO NOTHING`,
    ),
    raw(
      db,
      sql`INSERT OR IGNORE INTO stale_hours (account_id, hour) SELECT value ->> 0, value ->> 1 FROM json_each(${JSON.stringify([...stale.values()])})`,
    ),
  ]);
}
