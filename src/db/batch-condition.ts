import { type SQL, sql } from "drizzle-orm";
import { type Db, raw } from "./client.ts";
import { messagesOf } from "./failures.ts";

/** Returns whether a condition of a write is true now. Callers use the result to explain why a write did nothing. */
export async function holdsNow(db: Db, condition: SQL): Promise<boolean> {
  const [found] = await db.all<{ holds: number }>(sql`SELECT ${condition} AS holds`);
  return found?.holds === 1;
}

/** A condition that must be true for a batch to be written. `name` identifies the condition in the error of a failed batch. */
export interface BatchCondition {
  holds: SQL;
  name: string;
}

/**
 * Returns a statement that fails its batch, and so rolls back the whole batch, unless all conditions are true. SQLite has no assert statement. If a
 * condition is false, the statement passes a malformed JSON path to SQLite, which includes the path in its error. The malformed path contains the
 * name of the first condition that is false.
 */
export const requireInBatch = (db: Db, ...conditions: readonly BatchCondition[]) =>
  raw(
    db,
    sql`SELECT json_extract('{}', CASE ${sql.join(
      conditions.map(({ holds, name }) => sql`WHEN NOT (${holds}) THEN ${pathOf(name)}`),
      sql.raw(" "),
    )} ELSE '$' END)`,
  );

/** Returns whether a batch failed because of the condition with this name. */
export const isFailedCondition = (error: unknown, name: string): boolean => messagesOf(error).includes(pathOf(name));

const pathOf = (name: string) => `condition failed: ${name}`;
