import { type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn, SQLiteTable } from "drizzle-orm/sqlite-core";
import type { Db } from "./client.ts";

/**
 * The maximum number of rows that one statement deletes from the log or from an erased account. D1 runs no other statement during a
 * deletion.
 */
export const rowsAtOnce = 5000;
/** The maximum number of rows that one statement deletes from a table in which a row may contain many kilobytes. */
const wideRowsAtOnce = 1000;

/**
 * Repeats a deletion until no more rows match or `atMost` rows are deleted. The last repetition may exceed `atMost`. Returns the number of
 * deleted rows.
 */
export async function deleteInChunks(db: Db, atMost: number, deletion: (limit: number) => SQL): Promise<number> {
  let deleted = 0;
  while (deleted < atMost) {
    // Count the returned rows, because D1's own count also includes rows that triggers changed.
    const rows = await db.all(sql`${deletion(wideRowsAtOnce)} RETURNING 1`);
    deleted += rows.length;
    if (rows.length < wideRowsAtOnce) break;
  }
  return deleted;
}

/** Deletes up to `atMost` rows of accounts whose ids sort before `bound`. Returns the number of deleted rows. */
export const deleteOlder = (
  db: Db,
  table: SQLiteTable & Record<"accountId" | "id", SQLiteColumn>,
  { accountIds, bound, atMost }: { accountIds: readonly string[]; bound: string; atMost: number },
): Promise<number> =>
  deleteInChunks(
    db,
    atMost,
    (
      limit,
    ) => sql`DELETE FROM ${table} WHERE (account_id, id) IN (SELECT ${table.accountId}, ${table.id} FROM json_each(${JSON.stringify(accountIds)}) AS due
      CROSS JOIN ${table} ON ${table.accountId} = due.value AND ${table.id} < ${bound} LIMIT ${limit})`,
  );

/** Deletes up to `atMost` links of the given accounts that expired before a time. Returns the number of deleted rows. `table`: a table of links. */
export const deleteExpiredLinks = (
  db: Db,
  table: "invitations" | "portal_links",
  accountIds: readonly string[],
  { before, atMost }: { before: number; atMost: number },
): Promise<number> =>
  deleteInChunks(
    db,
    atMost,
    (
      limit,
    ) => sql`DELETE FROM ${sql.identifier(table)} WHERE token_hash IN (SELECT token_hash FROM json_each(${JSON.stringify(accountIds)}) AS due
      CROSS JOIN ${sql.identifier(table)} AS link ON link.account_id = due.value AND link.expires_at < ${before} LIMIT ${limit})`,
  );
