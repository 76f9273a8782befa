import { and, eq, isNull, lt, or, sql } from "drizzle-orm";
import { readAccount } from "../accounts/account.ts";
import { deleteCounters } from "../accounts/storage.ts";
import type { Budgets } from "../budget/budgets.ts";
import { erasures } from "../db/areas/lifecycle/tables.ts";
import { connect, type Db } from "../db/client.ts";
import { rowsAtOnce } from "../db/delete-in-chunks.ts";
import { messagesOf } from "../db/failures.ts";
import { insertWhere } from "../db/insert-where.ts";
import { type AreaTable, childrenFirst, labelOf, ownerOf } from "../db/registry/area-tables.ts";
import type { Guards } from "../guard/guards.ts";
import { storeOperation } from "../identity/audit/operator-audit.ts";
import { eraseKeys, forgetLostKeys } from "../keys/erase-keys.ts";
import { Failure, throwTogether } from "../lib/errors/failure.ts";
import { dayMs, minuteMs, secondMs } from "../lib/time/clock.ts";
import { activityDatabase } from "../log/databases.ts";
import { eraseSegments } from "../log/retention.ts";
import { eraseInWriters, logOf, type WriterEnv } from "../log/writers.ts";
import { suspendAccount } from "./accounts.ts";
import type { OperatorContext } from "./operator-context.ts";

// An account is erased in steps. First, the account is suspended, its keys are erased from their guards, and its log is deleted. Then the
// account's other rows are deleted. The row in `accounts` is deleted last. A scheduled job continues an interrupted erasure. The scheduled job
// also checks each finished erasure once. The check deletes data that arrived late, such as log entries and delivery attempts.

export type Erasure = typeof erasures.$inferSelect;

/** The context of an erasure. */
export interface Erasing {
  db: Db;
  guards: Guards;
  budgets: Budgets;
  env: WriterEnv;
}

/** The time for which D1's Time Travel keeps a deleted row, in milliseconds. */
const timeTravelMs = 30 * dayMs;
/** Returns the time at which Cloudflare stops keeping an erased account's data for Time Travel. */
export const timeTravelUntil = (finishedAt: number): number => finishedAt + timeTravelMs;

/** The delay before a finished erasure is checked for late data, in milliseconds. No write takes longer than this delay. */
const lookAgainAfterMs = 10 * minuteMs;

/** Requests the erasure of an account, and suspends the account. If neither an account nor an erasure has this id, throws `not_found`. */
export async function requestErasure(operatorContext: OperatorContext & { guards: Guards }, accountId: string): Promise<void> {
  const { db, now, operator } = operatorContext;
  const [known] = await db.select().from(erasures).where(eq(erasures.accountId, accountId));
  // An earlier request for this erasure may have failed before the account was suspended.
  if (known) return known.finishedAt === null ? suspendForErasure(operatorContext, accountId) : undefined;
  const { logWriter } = await readAccount(db, accountId);
  const row = { accountId, logWriter, operator, requestedAt: now, erased: {}, finishedAt: null, checkedAt: null };
  const isNew = sql`NOT EXISTS (SELECT 1 FROM erasures WHERE account_id = ${accountId})`;
  await db.batch([
    storeOperation(db, { ...operatorContext, action: "account.erasure_requested", accountId }, isNew),
    insertWhere(db, erasures, row, isNew),
  ]);
  await suspendForErasure(operatorContext, accountId);
}

/**
 * Suspends an account before its erasure. An unreachable guard does not stop the erasure. A later step of the erasure calls each guard to erase
 * the key.
 */
async function suspendForErasure(operatorContext: OperatorContext & { guards: Guards }, accountId: string): Promise<void> {
  try {
    await suspendAccount(operatorContext, accountId);
  } catch (error) {
    // The row of the account may already be deleted.
    if (!(error instanceof Failure) || (error.code !== "unavailable" && error.code !== "not_found")) throw error;
    console.error(`${accountId} is erased before all of its guards have confirmed that it is suspended:`, messagesOf(error));
  }
}

/** Returns an account's erasure, including the progress of the erasure. Throws `not_found`. */
export async function readErasure(db: Db, accountId: string): Promise<Erasure> {
  const [erasure] = await db.select().from(erasures).where(eq(erasures.accountId, accountId));
  if (!erasure) throw new Failure("not_found", "There is no account with this id, and no account with this id was erased.");
  return erasure;
}

/** If an account is erased or being erased, throws `conflict`. Nothing may be created in such an account. */
export async function requireNotErased(db: Db, accountId: string): Promise<void> {
  const [erasure] = await db.select({ accountId: erasures.accountId }).from(erasures).where(eq(erasures.accountId, accountId));
  if (erasure) throw new Failure("conflict", "This account is being erased, so nothing in it can be created or changed.");
}

/**
 * Continues an erasure until all data are deleted or the time `endsAt` is reached. If the erasure is already finished, repeats the erasure,
 * because D1 may have been restored to an earlier time. Returns the erasure, including its progress.
 */
export async function eraseSome(erasing: Erasing, accountId: string, endsAt: number): Promise<Erasure> {
  const { db } = erasing;
  const erasure = await readErasure(db, accountId);
  const isDone = await erasePieces(erasing, erasure, endsAt);
  if (!isDone || erasure.finishedAt !== null) return readErasure(db, accountId);
  const finishedAt = Date.now();
  const { erased, operator } = await readErasure(db, accountId);
  const isOpen = and(eq(erasures.accountId, accountId), isNull(erasures.finishedAt));
  await db.batch([
    storeOperation(
      db,
      { now: finishedAt, operator, action: "account.erased", accountId, details: erased },
      sql`EXISTS (SELECT 1 FROM erasures WHERE ${isOpen})`,
    ),
    db.update(erasures).set({ finishedAt }).where(isOpen),
  ]);
  return readErasure(db, accountId);
}

/**
 * Continues interrupted erasures, and checks finished erasures for data that arrived late. Processes at most `atMost` erasures. Returns the
 * number of processed erasures, including erasures with errors.
 */
export async function finishErasures(erasing: Erasing, now: number, atMost: number): Promise<number> {
  const { db } = erasing;
  // Erasures are processed in random order. An erasure with an unavailable database therefore does not block other erasures.
  const open = await db
    .select()
    .from(erasures)
    .where(
      or(
        and(isNull(erasures.finishedAt), lt(erasures.requestedAt, now - minuteMs)),
        and(isNull(erasures.checkedAt), lt(erasures.finishedAt, now - lookAgainAfterMs)),
      ),
    )
    .orderBy(sql`random()`)
    .limit(atMost);
  const errors: unknown[] = [];
  for (const erasure of open) {
    const endsAt = Date.now() + 10 * secondMs;
    try {
      if (erasure.finishedAt === null) await eraseSome(erasing, erasure.accountId, endsAt);
      else if (await erasePieces(erasing, erasure, endsAt))
        await db.update(erasures).set({ checkedAt: now }).where(eq(erasures.accountId, erasure.accountId));
    } catch (error) {
      errors.push(error);
    }
  }
  throwTogether(errors, "some erasures could not go on");
  return open.length;
}

/** Deletes data of an account until no data are left or the time `endsAt` is reached. Returns whether all data are deleted. */
async function erasePieces(erasing: Erasing, { accountId, logWriter, erased }: Erasure, endsAt: number): Promise<boolean> {
  const { db, guards, budgets, env } = erasing;
  const count = (what: string, gone: number) => noteErased(db, accountId, what, gone);
  const rows = async (of: Db, tables: readonly Rows[]): Promise<boolean> => {
    for (const [what, query] of tables) {
      for (let gone = rowsAtOnce; gone >= rowsAtOnce; ) {
        if (Date.now() > endsAt) return false;
        gone = (await of.$client.prepare(`${query} RETURNING 1`).bind(accountId).all()).results.length;
        await count(what, gone);
      }
    }
    return true;
  };
  const keys = { db, guards, ...logOf(env, logWriter) };
  // This step reads the ids of keys from the audit log and the key uses. The step must run before these are deleted.
  if (erased.keys === undefined) await forgetLostKeys(keys, accountId);
  if (!(await eraseKeys(keys, accountId, endsAt, (gone) => count("keys", gone)))) return false;
  await budgets.getByName(accountId).erase();
  await count("requests", await eraseInWriters(env, logWriter, accountId));
  const log = connect(activityDatabase(env, logWriter));
  for (let gone = await eraseSegments(log, accountId); gone !== null; gone = await eraseSegments(log, accountId)) {
    await count("requests", gone);
    if (Date.now() > endsAt) return false;
  }
  if (!(await rows(log, logTables))) return false;
  if (!(await rows(db, mainTables))) return false;
  return true;
}

/** Adds `gone`, a number of deleted rows, to the report of an erasure. */
async function noteErased(db: Db, accountId: string, what: string, gone: number): Promise<void> {
  if (gone > 0)
    await db.run(
      sql`UPDATE erasures SET erased = json_set(erased, ${`$.${what}`}, coalesce(erased ->> ${what}, 0) + ${gone}) WHERE account_id = ${accountId}`,
    );
}

/**
 * A label for the erasure report, and an SQL statement. The statement deletes some rows of an account. In the statement, the parameter `?1` is
 * the account id.
 */
type Rows = readonly [what: string, query: string];

/** Returns a statement that deletes up to 5,000 rows of an account from a table. */
function deletionOf(table: AreaTable): string {
  const { name, primaryKey } = table;
  const owner = ownerOf(table);
  const key = primaryKey.map((column) => `${name}.${column}`).join(", ");
  // CROSS JOIN fixes the join order. With this join order, SQLite stops as soon as the LIMIT is reached.
  const some = owner.table
    ? `SELECT ${key} FROM ${owner.table} CROSS JOIN ${name} ON ${name}.${owner.column} = ${owner.table}.id WHERE ${owner.table}.account_id = ?1`
    : `SELECT ${key} FROM ${name} WHERE ${owner.column} = ?1`;
  return `DELETE FROM ${name} WHERE (${primaryKey.join(", ")}) IN (${some} LIMIT ${rowsAtOnce})`;
}

/**
 * The tables from which an erasure deletes rows. A manifest excludes a table in two cases: the rows are kept, or the area's own code erases the
 * rows.
 */
const erasedTables = childrenFirst().filter(({ facts }) => typeof facts.erasure !== "string");

const rowsOf = (tables: readonly AreaTable[]): readonly Rows[] => tables.map((table) => [labelOf(table), deletionOf(table)]);

const logTables = rowsOf(erasedTables.filter(({ isLog }) => isLog));
const mainTables: readonly Rows[] = [
  ...rowsOf(erasedTables.filter(({ isLog, name }) => !isLog && name !== "accounts")),
  ["counters", deleteCounters],
  ...rowsOf(erasedTables.filter(({ name }) => name === "accounts")),
];
