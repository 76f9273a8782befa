import { and, eq, isNull, lt, or, sql } from "drizzle-orm";
import { readAccount } from "../accounts/account.ts";
import { activityDatabase } from "../activity/databases.ts";
import { eraseInWriters, type WriterEnv } from "../activity/writers.ts";
import type { Guards } from "../admission/guards.ts";
import { connect, type Db } from "../db/client.ts";
import { rowsAtOnce } from "../db/delete-in-chunks.ts";
import { messagesOf } from "../db/failures.ts";
import { insertWhere } from "../db/insert-where.ts";
import { Failure, throwTogether } from "../errors/failure.ts";
import { eraseKeys, forgetLostKeys } from "../keys/erase-keys.ts";
import { type AreaTable, childrenFirst, labelOf, ownerOf } from "../registry/area-tables.ts";
import { dayMs, minuteMs, secondMs } from "../time/clock.ts";
import { suspendAccount } from "./change-account.ts";
import type { Operating } from "./operating.ts";
import { storeOperation } from "./operator-audit.ts";
import { erasures } from "./tables.ts";

// An account is erased in pieces: it is suspended, then its guards forget their keys, then its log goes, then its rows, its own one last. What is
// broken off, the clock goes on with, and it looks once more for what was on its way then: entries of the log, the record of an attempt.

export type Erasure = typeof erasures.$inferSelect;

/** What it takes to erase. */
export interface Erasing {
  db: Db;
  guards: Guards;
  env: WriterEnv;
}

/** How long D1 can be set back: no deletion takes away what it was then. */
const timeTravelMs = 30 * dayMs;
/** Until when Cloudflare keeps what was before an account was erased. */
export const timeTravelUntil = (finishedAt: number): number => finishedAt + timeTravelMs;

/** What was on its way when the last row went has arrived by then. */
const lookAgainAfterMs = 10 * minuteMs;

/** Notes that an account is to be erased, and suspends it. Throws `not_found` where there is none, and none is being erased. */
export async function requestErasure(operating: Operating & { guards: Guards }, accountId: string): Promise<void> {
  const { db, now, operator } = operating;
  const [known] = await db.select().from(erasures).where(eq(erasures.accountId, accountId));
  // Broken off before it was suspended, it is now.
  if (known) return known.finishedAt === null ? suspendForErasure(operating, accountId) : undefined;
  const { activityStore } = await readAccount(db, accountId);
  const row = { accountId, activityStore, operator, requestedAt: now, erased: {}, finishedAt: null, checkedAt: null };
  const isNew = sql`NOT EXISTS (SELECT 1 FROM erasures WHERE account_id = ${accountId})`;
  await db.batch([
    storeOperation(db, { ...operating, action: "account.erasure_requested", accountId }, isNew),
    insertWhere(db, erasures, row, isNew),
  ]);
  await suspendForErasure(operating, accountId);
}

/** A guard that cannot be reached keeps nothing from being erased: it is told to forget its key. */
async function suspendForErasure(operating: Operating & { guards: Guards }, accountId: string): Promise<void> {
  try {
    await suspendAccount(operating, accountId);
  } catch (error) {
    // Its row may be gone already.
    if (!(error instanceof Failure) || (error.code !== "unavailable" && error.code !== "not_found")) throw error;
    console.error(`${accountId} is erased before all of its guards have confirmed that it is suspended:`, messagesOf(error));
  }
}

/** The erasure of an account, as far as it is. Throws `not_found`. */
export async function readErasure(db: Db, accountId: string): Promise<Erasure> {
  const [erasure] = await db.select().from(erasures).where(eq(erasures.accountId, accountId));
  if (!erasure) throw new Failure("not_found", "There is no such account, and none of that id was erased.");
  return erasure;
}

/** Throws `conflict` for an account that is erased, or is being erased: nothing is to be made in it. */
export async function requireKept(db: Db, accountId: string): Promise<void> {
  const [erasure] = await db.select({ accountId: erasures.accountId }).from(erasures).where(eq(erasures.accountId, accountId));
  if (erasure) throw new Failure("conflict", "This account is being erased: nothing more can be made or changed in it.");
}

/**
 * Goes on with an erasure until it is finished, or until `endsAt`; one that was finished is done again, where D1 was set back since. Answers
 * it, as far as it is then.
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
 * Goes on with erasures that were broken off, and looks again for what was on its way when others were finished: at most `atMost` of them.
 * Answers how many.
 */
export async function finishErasures(erasing: Erasing, now: number, atMost: number): Promise<number> {
  const { db } = erasing;
  // In no order: one whose database is away holds up no other.
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

/** Returns whether nothing is left. */
async function erasePieces(erasing: Erasing, { accountId, activityStore, erased }: Erasure, endsAt: number): Promise<boolean> {
  const { db, guards, env } = erasing;
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
  const keys = { db, guards, activity: activityDatabase(env, activityStore) };
  // Keys without a row are found only until rows go.
  if (erased.keys === undefined) await forgetLostKeys(keys, accountId);
  if (!(await eraseKeys(keys, accountId, endsAt, (gone) => count("keys", gone)))) return false;
  await count("requests", await eraseInWriters(env, activityStore, accountId));
  if (!(await rows(connect(activityDatabase(env, activityStore)), logTables))) return false;
  if (!(await rows(db, mainTables))) return false;
  return true;
}

/** Adds to the report. */
async function noteErased(db: Db, accountId: string, what: string, gone: number): Promise<void> {
  if (gone > 0)
    await db.run(
      sql`UPDATE erasures SET erased = json_set(erased, ${`$.${what}`}, coalesce(erased ->> ${what}, 0) + ${gone}) WHERE account_id = ${accountId}`,
    );
}

/** What is counted, and the statement that deletes some of it, of the account ?1. */
type Rows = readonly [what: string, query: string];

/** The statement that deletes some rows of an account. */
function deletionOf(table: AreaTable): string {
  const { name, primaryKey } = table;
  const owner = ownerOf(table);
  const key = primaryKey.map((column) => `${name}.${column}`).join(", ");
  // CROSS JOIN: SQLite then stops once it has as many rows as it may delete.
  const some = owner.table
    ? `SELECT ${key} FROM ${owner.table} CROSS JOIN ${name} ON ${name}.${owner.column} = ${owner.table}.id WHERE ${owner.table}.account_id = ?1`
    : `SELECT ${key} FROM ${name} WHERE ${owner.column} = ?1`;
  return `DELETE FROM ${name} WHERE (${primaryKey.join(", ")}) IN (${some} LIMIT ${rowsAtOnce})`;
}

/** Every table that has rows of accounts, but for those whose manifest says that they are kept, or that the area erases them by hand. */
const erasedTables = childrenFirst().filter(({ facts }) => typeof facts.erasure !== "string");

const rowsOf = (tables: readonly AreaTable[]): readonly Rows[] => tables.map((table) => [labelOf(table), deletionOf(table)]);

const logTables = rowsOf(erasedTables.filter(({ isLog }) => isLog));
const mainTables: readonly Rows[] = [
  ...rowsOf(erasedTables.filter(({ isLog, name }) => !isLog && name !== "accounts")),
  ["counters", "DELETE FROM account_storage WHERE account_id = ?1"],
  ...rowsOf(erasedTables.filter(({ name }) => name === "accounts")),
];
