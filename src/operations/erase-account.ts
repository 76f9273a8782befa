import { and, eq, isNull, lt, or, sql } from "drizzle-orm";
import { readAccount } from "../accounts/account.ts";
import { activityDatabase } from "../activity/databases.ts";
import { eraseInWriters, type WriterEnv } from "../activity/writers.ts";
import { askGuard, type Guards } from "../admission/guards.ts";
import { connect, type Db } from "../db/client.ts";
import { rowsAtOnce } from "../db/delete-in-chunks.ts";
import { messagesOf } from "../db/failures.ts";
import { insertWhere } from "../db/insert-where.ts";
import { Failure, throwTogether } from "../errors/failure.ts";
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

const guardsAtOnce = 50;
/** As many of these as one call asks: the platform bounds what an invocation may ask for. */
const mostGroups = 15;
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

/** Goes on with an erasure until it is finished, or until `endsAt`; one that was finished is done again, where D1 was set back since. Answers it, as far as it is then. */
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

/** Goes on with erasures that were broken off, and looks again for what was on its way when others were finished: at most `atMost` of them. Answers how many. */
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
async function erasePieces(erasing: Erasing, { accountId, activityStore }: Erasure, endsAt: number): Promise<boolean> {
  const { db, env } = erasing;
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
  if (!(await eraseKeys(erasing, accountId, endsAt, count))) return false;
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

/**
 * Guards forget their keys before the rows go: so none is left whose id nobody knows any more. First those whose rows were lost before, when D1 was
 * set back: once rows go, they cannot be told from those any more.
 */
async function eraseKeys({ db, guards, env }: Erasing, accountId: string, endsAt: number, count: Count): Promise<boolean> {
  const forget = (ids: readonly string[]) => Promise.all(ids.map((id) => askGuard(guards, id, (guard) => guard.erase())));
  const { erased, activityStore } = await readErasure(db, accountId);
  if (erased.keys === undefined) {
    const lost = await lostKeys(db, activityDatabase(env, activityStore), accountId);
    for (let from = 0; from < lost.length; from += guardsAtOnce) await forget(lost.slice(from, from + guardsAtOnce));
  }
  for (let groups = 0; ; groups++) {
    const { results } = await db.$client
      .prepare(`SELECT id FROM api_keys WHERE account_id = ? LIMIT ${guardsAtOnce}`)
      .bind(accountId)
      .all<{ id: string }>();
    if (results.length === 0) return true;
    if (Date.now() > endsAt || groups === mostGroups) return false;
    const ids = results.map(({ id }) => id);
    await forget(ids);
    const gone = await db.$client
      .prepare("DELETE FROM api_keys WHERE id IN (SELECT value FROM json_each(?)) RETURNING 1")
      .bind(JSON.stringify(ids))
      .all();
    await count("keys", gone.results.length);
  }
}

/** Keys that the audit log or the uses tell of, and that have no row. */
async function lostKeys(db: Db, store: D1Database, accountId: string): Promise<string[]> {
  const ofAudit = "SELECT DISTINCT target_id AS id FROM audit WHERE account_id = ? AND target_type = 'key'";
  const ofUses = "SELECT key_id AS id FROM key_uses WHERE account_id = ?";
  const ids = new Set<string>();
  for (const [d1, query] of [[db.$client, ofAudit] as const, [store, ofUses] as const])
    for (const { id } of (await d1.prepare(query).bind(accountId).all<{ id: string }>()).results) ids.add(id);
  const there = await db.$client.prepare("SELECT id FROM api_keys WHERE account_id = ?").bind(accountId).all<{ id: string }>();
  for (const { id } of there.results) ids.delete(id);
  return [...ids];
}

type Count = (what: string, gone: number) => Promise<void>;

/** What is counted, and the statement that deletes some of it, of the account ?1. */
type Rows = readonly [what: string, query: string];

const pieceOf = (table: string, key: string) =>
  `DELETE FROM ${table} WHERE (account_id, ${key}) IN (SELECT account_id, ${key} FROM ${table} WHERE account_id = ?1 LIMIT ${rowsAtOnce})`;
const allOf = (table: string) => `DELETE FROM ${table} WHERE account_id = ?1`;
const ofMembers = (table: string, key: string) =>
  `DELETE FROM ${table} WHERE ${key} IN (SELECT ${key} FROM ${table} WHERE member_id IN (SELECT id FROM members WHERE account_id = ?1) LIMIT ${rowsAtOnce})`;

const logTables: readonly Rows[] = [
  ["requests", pieceOf("activity", "id")],
  ["usage", allOf("stale_slices")],
  ["usage", pieceOf("usage_slices", "start, key_id, route, status")],
  ["usage", pieceOf("usage_hours", "start, key_id, route, status")],
  ["usage", pieceOf("usage_days", "start, key_id, route, status")],
  ["usage", pieceOf("usage_hour_totals", "key_id, start")],
  ["usage", pieceOf("usage_day_totals", "key_id, start")],
  ["usage", pieceOf("key_uses", "key_id")],
  ["usage", allOf("log_starts")],
];

const mainTables: readonly Rows[] = [
  [
    "attempts",
    `DELETE FROM attempts WHERE (delivery_id, id) IN (SELECT attempts.delivery_id, attempts.id FROM deliveries
      CROSS JOIN attempts ON attempts.delivery_id = deliveries.id WHERE deliveries.account_id = ?1 LIMIT ${rowsAtOnce})`,
  ],
  ["deliveries", `DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries WHERE account_id = ?1 LIMIT ${rowsAtOnce})`],
  ["redeliveries", pieceOf("redeliveries", "id")],
  ["counters", allOf("webhook_backlogs")],
  ["counters", allOf("webhook_settlements")],
  ["webhooks", allOf("webhooks")],
  ["events", pieceOf("events", "id")],
  ["tasks", pieceOf("tasks", "id")],
  ["users", pieceOf("users", "id")],
  ["responses", pieceOf("idempotency_keys", "operation, key_hash")],
  ["sessions", ofMembers("sessions", "token_hash")],
  ["passkeys", ofMembers("passkeys", "id")],
  ["recovery_codes", ofMembers("recovery_codes", "code_hash")],
  ["counters", allOf("endings")],
  ["members", allOf("members")],
  ["invitations", allOf("invitations")],
  ["audit", pieceOf("audit", "id")],
  ["counters", allOf("account_storage")],
  ["account", "DELETE FROM accounts WHERE id = ?1"],
];

/** The tables that an erasure deletes from. */
export const erasedTables: ReadonlySet<string> = new Set([
  "api_keys",
  ...[...logTables, ...mainTables].map(([, query]) => /^DELETE FROM (\w+)/.exec(query)?.[1] ?? ""),
]);
