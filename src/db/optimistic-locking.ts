import { and, eq, exists, type SQL } from "drizzle-orm";
import type { SQLiteColumn, SQLiteTable } from "drizzle-orm/sqlite-core";
import { Failure } from "../errors/failure.ts";
import { type Db, newRevision } from "./client.ts";

// Optimistic locking: a change reads a row and then writes only if nobody else has changed the row since. If the row has changed, the change is
// repeated with the new row. Each write gives the row a new `revision`, which is also its ETag.

/** A row with a revision for optimistic locking. */
export interface Versioned {
  accountId: string;
  id: string;
  revision: string;
  updatedAt: number;
}

type VersionedTable = SQLiteTable & Record<"accountId" | "id" | "revision", SQLiteColumn>;

/** Returns the name of the current version of a row. Each change gives the row a new version name. */
export const versionName = ({ id, revision }: Pick<Versioned, "id" | "revision">): string => `${id}.${revision}`;

/** Returns whether a revision meets the precondition of the caller (`If-Match` or `If-None-Match`). */
export type Precondition = (revision: string) => boolean;

export const always: Precondition = () => true;

/** The result of a write if another write changed the row after it was read. */
export const conflicted = Symbol("another write came between");

const maxAttempts = 100;

/**
 * Reads a row, checks the caller's precondition, and passes the row to `write`. Starts over if `write` returns `conflicted`. `name`: the name of the
 * row in error messages. Throws `precondition_failed`, or `conflict` after 100 attempts.
 */
export function withOptimisticLock<Row extends Versioned, Result>(
  { read, precondition, name }: { read: () => Promise<Row>; precondition: Precondition; name: string },
  write: (before: Row) => Promise<Result | typeof conflicted>,
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

/** Repeats an attempt until no other write conflicts with the attempt. Throws `conflict` after 100 attempts. */
export async function retryOnConflict<Result>(attempt: () => Promise<Result | typeof conflicted>): Promise<Result> {
  for (let made = 0; made < maxAttempts; made++) {
    const result = await attempt();
    if (result !== conflicted) return result;
    // Random delays spread out the retries of writes that failed together.
    await new Promise((resolve) => setTimeout(resolve, Math.random() * Math.min(5 * made, 100)));
  }
  throw new Failure("conflict", "Other requests are changing the same data. Try again.");
}

/**
 * Returns the update time of a change. This time is always later than the previous `updatedAt`, because clients ask for rows that changed after a
 * given time.
 */
export const nextUpdate = (before: Pick<Versioned, "updatedAt">, now: number): number => Math.max(now, before.updatedAt + 1);

/** Returns the values that every change of a row sets. */
export const nextVersion = (before: Versioned, now: number) => ({ revision: newRevision(), updatedAt: nextUpdate(before, now) });

/** Returns the condition that matches `row` only if its revision has not changed since it was read. */
export const asRead = (table: VersionedTable, { accountId, id, revision }: Versioned): SQL | undefined =>
  and(eq(table.accountId, accountId), eq(table.id, id), eq(table.revision, revision));

/** Returns the condition that a row has not changed since it was read. */
export const isUnchanged = (db: Db, table: VersionedTable, row: Versioned): SQL =>
  exists(db.select({ id: table.id }).from(table).where(asRead(table, row)));

/** Returns whether a statement with RETURNING wrote at least one row. */
export const wrote = (rows: unknown): boolean => Array.isArray(rows) && rows.length > 0;
