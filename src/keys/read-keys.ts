import { and, desc, eq, gt, isNull, lt, lte, or, type SQL } from "drizzle-orm";
import type { Reading } from "../accounts/actor.ts";
import { apiKeys } from "../db/schema.ts";
import { Failure } from "../errors.ts";
import { neverUsed, readLastUse, readLastUses } from "../usage/last-uses.ts";
import type { UpToDate } from "../usage/refresh-roll-ups.ts";
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
  { db, actor, now }: UpToDate,
  { status, after, limit }: { status?: KeyStatus | undefined; after?: KeyPosition | undefined; limit: number },
): Promise<Key[]> {
  const rows = await db
    .select()
    .from(apiKeys)
    .where(
      and(
        eq(apiKeys.accountId, actor.accountId),
        status && hasStatus(status, now),
        after && or(lt(apiKeys.createdAt, after.createdAt), and(eq(apiKeys.createdAt, after.createdAt), lt(apiKeys.id, after.id))),
      ),
    )
    .orderBy(desc(apiKeys.createdAt), desc(apiKeys.id))
    .limit(limit);
  const lastUses = await readLastUses({ db, actor, now });
  return rows.map((row) => ({ ...row, ...(lastUses.get(row.id) ?? neverUsed) }));
}

/** One key of the account, with its last use. Throws `not_found`. */
export async function readKey(reading: UpToDate, id: string): Promise<Key> {
  const row = await readKeyRow(reading, id);
  return { ...row, ...(await readLastUse(reading, id)) };
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
