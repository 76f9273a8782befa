import { type SQL, sql } from "drizzle-orm";
import { secondMs } from "../lib/time/clock.ts";
import { withDeadline } from "../lib/time/deadline.ts";
import type { Db } from "./client.ts";

/**
 * The sizes, in bytes, at which a database counts as full and accepts no new rows. D1 allows 10 GB per database. The space above these
 * sizes is reserved for operations that end or delete something, and for writes that have already started.
 */
export const fullBytes = { main: 9e9, activity: 9.5e9 };

/** Returns the size, in bytes, at which the database with this binding counts as full. */
export const fullFrom = (binding: string): number => (binding === "DB" ? fullBytes.main : fullBytes.activity);

/**
 * Stores the size of each database, and whether the database is full. D1 reports the size. `databases`: pairs of a binding and its D1
 * database. The main database has the binding `DB`. Returns the number of databases that were measured.
 */
export async function measureDatabases(db: Db, databases: readonly (readonly [string, D1Database])[], now: number): Promise<number> {
  const measured = await Promise.allSettled(
    databases.map(async ([binding, d1]) => {
      // Because of this deadline, a database that does not respond cannot block the measurement of the other databases.
      const { meta } = await withDeadline(d1.prepare("SELECT 1").run(), 5 * secondMs, `Measuring ${binding}`);
      const bytes = meta.size_after ?? 0;
      return [binding, bytes, Number(bytes >= fullFrom(binding))] as const;
    }),
  );
  const rows = measured.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
  for (const [binding, bytes, isFull] of rows) if (isFull) console.error(`the database ${binding} is full: it has ${bytes} bytes`);
  await db.run(sql`INSERT INTO database_sizes (binding, bytes, is_full, measured_at)
    SELECT value ->> 0, value ->> 1, value ->> 2, ${now} FROM json_each(${JSON.stringify(rows)}) WHERE true
    ON CONFLICT DO UPDATE SET bytes = excluded.bytes, is_full = excluded.is_full, measured_at = excluded.measured_at`);
  return rows.length;
}

/** Returns the bindings of the databases that were full at the last measurement. */
export async function fullDatabases(db: Db): Promise<string[]> {
  const rows = await db.all<{ binding: string }>(sql`SELECT binding FROM database_sizes WHERE is_full`);
  return rows.map(({ binding }) => binding);
}

/** An SQL condition that is true unless the main database was full at the last measurement. */
export const hasRoom: SQL = sql`NOT EXISTS (SELECT 1 FROM database_sizes WHERE binding = 'DB' AND is_full)`;
