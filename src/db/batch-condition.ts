import { type SQL, sql } from "drizzle-orm";
import { type Db, raw } from "./client.ts";
import { messagesOf } from "./failures.ts";

/** Returns whether the condition of a write is true now. Callers use the result to explain why a write changed nothing. */
export async function holdsNow(db: Db, condition: SQL): Promise<boolean> {
  const [found] = await db.all<{ holds: number }>(sql`SELECT ${condition} AS holds`);
  return found?.holds === 1;
}

/**
 * A condition of a batch. If the condition is false, D1 does not write the batch. `name` identifies the condition in the error of a failed
 * batch.
 */
export interface BatchCondition {
  holds: SQL;
  name: string;
}

/**
 * Returns a statement that makes D1 roll back the whole batch if a condition is false. SQLite has no assert statement. If a condition is
 * false, the statement therefore passes a malformed JSON path to `json_extract`. The error message of SQLite contains this path. The
 * malformed path contains the name of the first condition that is false.
 */
export const requireInBatch = (db: Db, ...conditions: readonly BatchCondition[]) =>
  raw(
    db,
    sql`SELECT json_extract('{}', CASE ${sql.join(
      conditions.map(({ holds, name }) => sql`WHEN NOT (${holds}) THEN ${pathOf(name)}`),
      sql.raw(" "),
    )} ELSE '$' END)`,
  );

/** Returns whether a batch failed because the condition with this name was false. */
export const isFailedCondition = (error: unknown, name: string): boolean => messagesOf(error).includes(pathOf(name));

const pathOf = (name: string) => `condition failed: ${name}`;
