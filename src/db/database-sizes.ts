import { type SQL, sql } from "drizzle-orm";
import { secondMs } from "../time/clock.ts";
import { withDeadline } from "../time/deadline.ts";
import type { Db } from "./client.ts";

/** A database of 10 GB that has so much takes no more rows: the rest is for what ends something, and for what is on its way. */
export const fullBytes = { main: 9e9, activity: 9.5e9 };

/** Notes how large each database is, as D1 says it, and whether it is full. `databases`: by binding, the main one as `DB`. Answers how many were measured. */
export async function measureDatabases(db: Db, databases: readonly (readonly [string, D1Database])[], now: number): Promise<number> {
  const measured = await Promise.allSettled(
    databases.map(async ([binding, d1]) => {
      // One that hangs keeps no other from being measured.
      const { meta } = await withDeadline(d1.prepare("SELECT 1").run(), 5 * secondMs, `Measuring ${binding}`);
      const bytes = meta.size_after ?? 0;
      return [binding, bytes, Number(bytes >= (binding === "DB" ? fullBytes.main : fullBytes.activity))] as const;
    }),
  );
  const rows = measured.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
  for (const [binding, bytes, isFull] of rows) if (isFull) console.error(`the database ${binding} is full: it has ${bytes} bytes`);
  await db.run(sql`INSERT INTO database_sizes (binding, bytes, is_full, measured_at)
    SELECT value ->> 0, value ->> 1, value ->> 2, ${now} FROM json_each(${JSON.stringify(rows)}) WHERE true
    ON CONFLICT DO UPDATE SET bytes = excluded.bytes, is_full = excluded.is_full, measured_at = excluded.measured_at`);
  return rows.length;
}

/** The bindings of databases that were full when they were last measured. */
export async function fullDatabases(db: Db): Promise<string[]> {
  const rows = await db.all<{ binding: string }>(sql`SELECT binding FROM database_sizes WHERE is_full`);
  return rows.map(({ binding }) => binding);
}

/** The condition that the main database has room for more rows. */
export const hasRoom: SQL = sql`NOT EXISTS (SELECT 1 FROM database_sizes WHERE binding = 'DB' AND is_full)`;
