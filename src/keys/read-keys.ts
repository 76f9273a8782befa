import { and, desc, eq, gt, isNull, lte, or, type SQL, sql } from "drizzle-orm";
import type { LogReading, Reading } from "../accounts/actor.ts";
import { apiKeys } from "../db/schema-main.ts";
import { Failure } from "../errors.ts";
import { readLastUse, readLastUses } from "../usage/last-uses.ts";
import type { Key, KeyRow, KeyStatus } from "./key.ts";

/** What a page of keys goes on after. */
export interface KeyPosition {
  createdAt: number;
  id: string;
}

const hasStatus = (status: KeyStatus, now: number): SQL | undefined => {
  if (status === "expired") return and(eq(apiKeys.state, "active"), lte(apiKeys.expiresAt, now));
  if (status === "active") return and(eq(apiKeys.state, "active"), or(isNull(apiKeys.expiresAt), gt(apiKeys.expiresAt, now)));
  return eq(apiKeys.state, status);
};

/** Keys of the account, newest first. */
export async function listKeys(
  { db, activity, actor, now }: LogReading,
  { statuses, after, limit }: { statuses?: readonly KeyStatus[] | undefined; after?: KeyPosition | undefined; limit: number },
): Promise<Key[]> {
  const rows = await db
    .select()
    .from(apiKeys)
    .where(
      and(
        eq(apiKeys.accountId, actor.accountId),
        statuses && or(...statuses.map((status) => hasStatus(status, now))),
        after && sql`(${apiKeys.createdAt}, ${apiKeys.id}) < (${after.createdAt}, ${after.id})`,
      ),
    )
    .orderBy(desc(apiKeys.createdAt), desc(apiKeys.id))
    .limit(limit);
  const lastUseOf = await readLastUses({ activity, actor });
  const names = await readMakerNames({ db, actor, now }, rows);
  return rows.map((row) => ({ ...row, ...lastUseOf(row.id), createdByName: names.get(row.createdById ?? "") ?? null }));
}

/** One key of the account, with its last use. Throws `not_found`. */
export async function readKey(reading: LogReading, id: string): Promise<Key> {
  const row = await readKeyRow(reading, id);
  return { ...row, ...(await readLastUse(reading, id)), createdByName: await readMakerName(reading, row) };
}

/** Returns the name that the maker of a key has now; null if it has none, or is gone. */
export const readMakerName = async (reading: Reading, row: KeyRow): Promise<string | null> =>
  (await readMakerNames(reading, [row])).get(row.createdById ?? "") ?? null;

/** The names that those who made these keys have now, by their ids. */
async function readMakerNames({ db, actor }: Reading, rows: readonly KeyRow[]): Promise<Map<string, string>> {
  const ids = JSON.stringify([...new Set(rows.flatMap(({ createdById }) => createdById ?? []))]);
  if (ids === "[]") return new Map();
  const found = await db.all<{ id: string; name: string }>(
    sql`SELECT id, name FROM members WHERE account_id = ${actor.accountId} AND id IN (SELECT value FROM json_each(${ids}))
      UNION ALL SELECT id, name FROM api_keys WHERE account_id = ${actor.accountId} AND id IN (SELECT value FROM json_each(${ids}))`,
  );
  return new Map(found.map(({ id, name }) => [id, name]));
}

/** One key of the account, as it is stored. Throws `not_found`. */
export async function readKeyRow({ db, actor }: Reading, id: string): Promise<KeyRow> {
  const [row] = await db
    .select()
    .from(apiKeys)
    .where(and(eq(apiKeys.accountId, actor.accountId), eq(apiKeys.id, id)));
  if (!row) throw new Failure("not_found", "There is no such key.");
  return row;
}

/** Throws `not_found` where the account has no such key. */
export async function requireKey(reading: Reading, id: string): Promise<void> {
  await readKeyRow(reading, id);
}
