import { and, eq, exists, type SQL } from "drizzle-orm";
import type { SQLiteColumn, SQLiteTable } from "drizzle-orm/sqlite-core";
import { Failure } from "../errors/failure.ts";
import { type Db, newRevision } from "./client.ts";

// Read, decide, write where nobody else has written meanwhile, else begin again. Each write of a row gives it a new `revision`,
// which is also its ETag.

/** A row that is changed by its revision. */
export interface Versioned {
  accountId: string;
  id: string;
  revision: string;
  updatedAt: number;
}

type VersionedTable = SQLiteTable & Record<"accountId" | "id" | "revision", SQLiteColumn>;

/** Names a version of a row: a row that was changed has another name. */
export const versionName = ({ id, revision }: Pick<Versioned, "id" | "revision">): string => `${id}.${revision}`;

/** Returns whether what the caller requires (`If-Match`, `If-None-Match`) holds for the revision of what it is about to change. */
export type Precondition = (revision: string) => boolean;

export const always: Precondition = () => true;

/** What a write answers where somebody else wrote between its read and itself. */
export const conflicted = Symbol("another write came between");

const maxAttempts = 100;

/**
 * Reads a row, checks the caller's precondition and hands the row to `write`; all of it again where that answers `conflicted`.
 * `name`: what the row is called in a sentence. Throws `precondition_failed`, and `conflict` where it takes unreasonably long.
 */
export function withOptimisticLock<Row extends Versioned, Result>(
  { read, holds, name }: { read: () => Promise<Row>; holds: Precondition; name: string },
  write: (before: Row) => Promise<Result | typeof conflicted>,
): Promise<Result> {
  return retryOnConflict(async () => {
    const before = await read();
    requireHolds(before, holds, name);
    return write(before);
  });
}

/** Throws `precondition_failed` if what the caller requires does not hold for this version. */
export function requireHolds({ revision }: Pick<Versioned, "revision">, holds: Precondition, name: string): void {
  if (!holds(revision))
    throw new Failure("precondition_failed", `The ${name} is not in a version that If-Match or If-None-Match allows. Read it again.`);
}

/** Repeats an attempt until nobody came between its read and its write. Throws `conflict` where that takes unreasonably long. */
export async function retryOnConflict<Result>(attempt: () => Promise<Result | typeof conflicted>): Promise<Result> {
  for (let made = 0; made < maxAttempts; made++) {
    const result = await attempt();
    if (result !== conflicted) return result;
    // Those who lost together do not come back together.
    await new Promise((resolve) => setTimeout(resolve, Math.random() * Math.min(5 * made, 100)));
  }
  throw new Failure("conflict", "This is being changed by others just now. Try again.");
}

/** The time of a change: never that of the change before, nor earlier, since clients ask for what changed after it. */
export const nextUpdate = (before: Pick<Versioned, "updatedAt">, now: number): number => Math.max(now, before.updatedAt + 1);

/** What every change of a row sets. */
export const nextVersion = (before: Versioned, now: number) => ({ revision: newRevision(), updatedAt: nextUpdate(before, now) });

/** The rows of `table` that are `row` as it was read: that one, or none. */
export const asRead = (table: VersionedTable, { accountId, id, revision }: Versioned): SQL | undefined =>
  and(eq(table.accountId, accountId), eq(table.id, id), eq(table.revision, revision));

/** The condition that a row is still as it was read. */
export const isUnchanged = (db: Db, table: VersionedTable, row: Versioned): SQL =>
  exists(db.select({ id: table.id }).from(table).where(asRead(table, row)));

/** Whether a statement with RETURNING wrote anything. */
export const wrote = (rows: unknown): boolean => Array.isArray(rows) && rows.length > 0;
