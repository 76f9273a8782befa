import { and, eq, exists, type SQL } from "drizzle-orm";
import type { SQLiteColumn, SQLiteTable } from "drizzle-orm/sqlite-core";
import { Failure } from "../lib/errors/failure.ts";
import { type Db, newRevision } from "./client.ts";

// Optimistic locking: a change reads a row, and then writes only if the row has not changed since the read. If the row has changed, the
// change starts again with the new row. Each write gives the row a new `revision`. The `revision` is also the ETag of the row.

/** A row with a revision for optimistic locking. */
export interface Versioned {
  accountId: string;
  id: string;
  revision: string;
  updatedAt: number;
}

type VersionedTable = SQLiteTable & Record<"accountId" | "id" | "revision", SQLiteColumn>;

/** Returns whether a revision meets the precondition of the caller (`If-Match` or `If-None-Match`). */
export type Precondition = (revision: string) => boolean;

export const always: Precondition = () => true;

/** The value that a write returns if another write has changed the row since the row was read. */
export const retry = Symbol("another write came between");

const maxAttempts = 100;

/**
 * Reads a row, checks the caller's precondition, and passes the row to `write`. Starts over if `write` returns `retry`. `name`: the
 * name of the row in error messages. Throws `precondition_failed` if the check fails, and `conflict` after 100 attempts.
 */
export function withOptimisticLock<Row extends Versioned, Result>(
  { read, precondition, name }: { read: () => Promise<Row>; precondition: Precondition; name: string },
  write: (before: Row) => Promise<Result | typeof retry>,
): Promise<Result> {
  return retryOnConflict(async () => {
    const before = await read();
    requirePrecondition(before, precondition, name);
    return write(before);
  });
}

/** Throws `precondition_failed` if the row's revision does not meet the caller's precondition. */
export function requirePrecondition({ revision }: Pick<Versioned, "revision">, precondition: Precondition, name: string): void {
  if (!precondition(revision))
    throw new Failure(
      "precondition_failed",
      `The current version of the ${name} does not match If-Match, or it matches If-None-Match. Read the ${name} again.`,
    );
}

/** Repeats an attempt until it no longer returns `retry`. Throws `conflict` after 100 attempts. */
export async function retryOnConflict<Result>(attempt: () => Promise<Result | typeof retry>): Promise<Result> {
  for (let made = 0; made < maxAttempts; made++) {
    const result = await attempt();
    if (result !== retry) return result;
    // Random delays spread out the retries of writes that failed together.
    await new Promise((resolve) => setTimeout(resolve, Math.random() * Math.min(5 * made, 100)));
  }
  throw new Failure("conflict", "Other requests are changing the same data. Try again.");
}

/**
 * Returns the new `updatedAt` of a changed row. The new time is always later than the previous one. Otherwise, a client that lists rows
 * changed after a given time could miss the change.
 */
export const nextUpdate = (before: Pick<Versioned, "updatedAt">, now: number): number => Math.max(now, before.updatedAt + 1);

/** Returns the new `revision` and `updatedAt` that every change of a row sets. */
export const nextVersion = (before: Versioned, now: number) => ({ revision: newRevision(), updatedAt: nextUpdate(before, now) });

/** Returns an SQL condition that matches a row only if its revision has not changed since the row was read. */
export const asRead = (table: VersionedTable, { accountId, id, revision }: Versioned): SQL | undefined =>
  and(eq(table.accountId, accountId), eq(table.id, id), eq(table.revision, revision));

/** Returns an SQL condition that is true if a row has not changed since it was read. */
export const isUnchanged = (db: Db, table: VersionedTable, row: Versioned): SQL =>
  exists(db.select({ id: table.id }).from(table).where(asRead(table, row)));

/** Returns whether a statement with RETURNING wrote at least one row. */
export const wrote = (rows: unknown): boolean => Array.isArray(rows) && rows.length > 0;
