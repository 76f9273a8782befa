import { and, desc, eq, lte, type SQL, sql } from "drizzle-orm";
import { unionAll } from "drizzle-orm/sqlite-core";
import type { ReadContext } from "../accounts/actor.ts";
import { isLiveKey } from "../admission/live-keys.ts";
import { idInKey } from "../credentials/key-format.ts";
import { members } from "../db/areas/identity/tables.ts";
import { apiKeys } from "../db/areas/keys/tables.ts";
import { isOwnOneOf } from "../db/is-one-of.ts";
import { Failure } from "../lib/errors/failure.ts";
import { readLastUse, readLastUses } from "../usage/last-uses.ts";
import type { LogReadContext } from "../usage/log-context.ts";
import type { Key, KeyRow, KeyStatus } from "./key.ts";

/** The position of the last key on a page. The next page starts after this key. */
export interface KeyPosition {
  createdAt: number;
  id: string;
}

/**
 * Returns an SQL condition that selects keys of the account. If `status` is given, the condition selects only keys with this status. With
 * each condition, SQLite uses an index that either has the sort order of the list or contains few keys.
 */
const isListed = (accountId: string, status: KeyStatus | undefined, now: number): SQL | undefined => {
  const own = eq(apiKeys.accountId, accountId);
  if (status === undefined) return own;
  // Without the `+`, SQLite would use an index over all keys in the state `active`. Most of these keys may have expired.
  if (status === "active") return and(isLiveKey(accountId, now), sql`+${apiKeys.state} = 'active'`);
  if (status === "expired") return and(own, eq(apiKeys.state, "active"), lte(apiKeys.expiresAt, now));
  return and(own, eq(apiKeys.state, status));
};

/**
 * Returns an SQL condition that selects the keys that a text names. The text can be a part of the name, the beginning of the public part, or the last
 * four characters. It can also be both of them, as pages show a key, or a whole secret key.
 */
function isNamed(text: string): SQL {
  const id = idInKey(text);
  if (id !== null) return eq(apiKeys.id, id);
  const [start = "", end = ""] = text.split("…");
  const begins = sql`substr(coalesce(${apiKeys.shownPrefix}, 'dvo_' || substr(${apiKeys.id}, 5)), 1, ${start.length}) = ${start}`;
  if (end !== "") return sql`(${begins} AND ${apiKeys.last4} = ${end})`;
  return sql`(instr(lower(${apiKeys.name}), lower(${text})) > 0 OR ${begins} OR ${apiKeys.last4} = ${text})`;
}

/** Returns keys of the account, newest first. `text`: only those that this text names. */
export async function listKeys(
  context: LogReadContext,
  {
    statuses,
    text = "",
    after,
    limit,
  }: { statuses?: readonly KeyStatus[] | undefined; text?: string | undefined; after?: KeyPosition | undefined; limit: number },
): Promise<Key[]> {
  const { db, actor, now } = context;
  const having = (status?: KeyStatus) =>
    db
      .select()
      .from(apiKeys)
      .where(
        and(
          isListed(actor.accountId, status, now),
          text === "" ? undefined : isNamed(text),
          after && sql`(${apiKeys.createdAt}, ${apiKeys.id}) < (${after.createdAt}, ${after.id})`,
        ),
      )
      .orderBy(desc(apiKeys.createdAt), desc(apiKeys.id))
      .limit(limit);
  const [first, ...others] = statuses ? [...new Set(statuses)] : [];
  // All queries run in one batch. If the status of a key changes at the same time, the key is therefore listed only once.
  const found = await db.batch([having(first), ...others.map((status) => having(status))]);
  const rows = found
    .flat()
    .toSorted((a, b) => b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1))
    .slice(0, limit);
  const lastUseOf = await readLastUses(context);
  const names = await readMakerNames(context, rows);
  return rows.map((row) => ({ ...row, ...lastUseOf(row.id), createdByName: names.get(row.createdById ?? "") ?? null }));
}

/** Returns one key of the account with its last use and the name of its creator. Throws `not_found`. */
export async function readKey(context: LogReadContext, id: string): Promise<Key> {
  const row = await readKeyRow(context, id);
  return { ...row, ...(await readLastUse(context, id)), createdByName: await readCreatorName(context, row) };
}

/** Returns the current name of a key's creator, or null if the creator has no name or no longer exists. */
export const readCreatorName = async (context: ReadContext, row: KeyRow): Promise<string | null> =>
  (await readMakerNames(context, [row])).get(row.createdById ?? "") ?? null;

/** Returns the current names of the creators of these keys, mapped by creator id. */
async function readMakerNames({ db, actor }: ReadContext, rows: readonly KeyRow[]): Promise<Map<string, string>> {
  const ids = [...new Set(rows.flatMap(({ createdById }) => createdById ?? []))];
  if (ids.length === 0) return new Map();
  const found = await unionAll(
    db
      .select({ id: members.id, name: members.name })
      .from(members)
      .where(isOwnOneOf(members, actor.accountId, ids)),
    db
      .select({ id: apiKeys.id, name: apiKeys.name })
      .from(apiKeys)
      .where(isOwnOneOf(apiKeys, actor.accountId, ids)),
  );
  return new Map(found.map(({ id, name }) => [id, name]));
}

/** Returns the row of one key of the account. Throws `not_found`. */
export async function readKeyRow({ db, actor }: ReadContext, id: string): Promise<KeyRow> {
  const [row] = await db
    .select()
    .from(apiKeys)
    .where(and(eq(apiKeys.accountId, actor.accountId), eq(apiKeys.id, id)));
  if (!row) throw new Failure("not_found", "There is no such key.");
  return row;
}

/** Throws `not_found` if the account has no such key. */
export async function requireKey(context: ReadContext, id: string): Promise<void> {
  await readKeyRow(context, id);
}
