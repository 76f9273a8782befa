import { type SQL, sql } from "drizzle-orm";
import { type Db, raw } from "./client.ts";
import { messagesOf } from "./failures.ts";

/** Whether a condition of a write holds just now: to say why it was not made. */
export async function holdsNow(db: Db, condition: SQL): Promise<boolean> {
  const [found] = await db.all<{ holds: number }>(sql`SELECT ${condition} AS holds`);
  return found?.holds === 1;
}

/** What must hold for a batch to be written. `name` tells its failure from others. */
export interface BatchCondition {
  holds: SQL;
  name: string;
}

/**
 * A statement that fails the batch it stands in, and so undoes all of it, unless all conditions hold. SQLite has no statement for
 * that; it does refuse a malformed JSON path, and says which: that of the first condition that fails.
 */
export const requireInBatch = (db: Db, ...conditions: readonly BatchCondition[]) =>
  raw(
    db,
    sql`SELECT json_extract('{}', CASE ${sql.join(
      conditions.map(({ holds, name }) => sql`WHEN NOT (${holds}) THEN ${pathOf(name)}`),
      sql.raw(" "),
    )} ELSE '$' END)`,
  );

/** Whether a batch failed at the condition of that name. */
export const isFailedCondition = (error: unknown, name: string): boolean => messagesOf(error).includes(pathOf(name));

const pathOf = (name: string) => `condition failed: ${name}`;
