import { sql } from "drizzle-orm";
import { hourStart, secondMs } from "../clock.ts";
import { type Db, raw } from "../db/client.ts";
import { timeOfId } from "../ids.ts";
import type { Entry } from "./entry.ts";

/** Entries in one statement. The longest has 2.5 KB, and D1 takes 2 MB for a bound value. */
const batchSize = 500;
const writeTimeoutMs = 5 * secondMs;

const row = (entry: Entry) => [
  entry.accountId,
  entry.id,
  entry.keyId,
  entry.method,
  entry.path,
  entry.route,
  entry.status,
  entry.durationMs,
  entry.ip,
  entry.country,
  entry.userAgent,
  entry.errorCode,
  Number(entry.admitted),
  Number(entry.counted),
  entry.count,
];

const column = (index: number) => sql.raw(`value ->> ${index}`);
const columns = sql.join(
  row({} as Entry).map((_, index) => column(index)),
  sql.raw(", "),
);

/**
 * Writes entries to the log and marks their hours for folding into usage, in one transaction for each 500. An entry that is
 * there already is left alone, so a batch may be repeated. Throws where D1 has not confirmed within 5 s; it may still have written.
 */
export async function writeEntries(db: Db, entries: readonly Entry[]): Promise<void> {
  for (let from = 0; from < entries.length; from += batchSize) {
    await withTimeout(writeBatch(db, entries.slice(from, from + batchSize)));
  }
}

function writeBatch(db: Db, entries: readonly Entry[]): Promise<unknown> {
  const marks = new Map(
    entries.map((entry) => [`${entry.accountId} ${hourStart(timeOfId(entry.id))}`, [entry.accountId, hourStart(timeOfId(entry.id))]]),
  );
  return db.batch([
    raw(db, sql`INSERT OR IGNORE INTO activity SELECT ${columns} FROM json_each(${JSON.stringify(entries.map(row))})`),
    raw(db, sql`INSERT OR IGNORE INTO usage_marks SELECT value ->> 0, value ->> 1 FROM json_each(${JSON.stringify([...marks.values()])})`),
  ]);
}

async function withTimeout(write: Promise<unknown>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error("D1 has not confirmed the activity entries in time")), writeTimeoutMs);
  });
  try {
    await Promise.race([write, late]);
  } finally {
    clearTimeout(timer);
  }
}
