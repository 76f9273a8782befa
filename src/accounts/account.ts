import { and, asc, eq, getTableColumns, gt, type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { accounts, limitCeiling, maxLiveKeys as usualMaxLiveKeys } from "../db/areas/accounts/tables.ts";
import type { Db, Statement } from "../db/client.ts";
import { Failure } from "../lib/errors/failure.ts";
import { newId } from "../lib/ids.ts";
import { folded } from "../lib/inputs/fold.ts";

export type Account = typeof accounts.$inferSelect;

export { limitCeiling, usualMaxLiveKeys as maxLiveKeys };

/**
 * Returns the row of a new account. `logWriter` is the activity database for the request log of the account. Only the operator creates accounts, so no route of
 * the public API calls this function.
 */
export function newAccount(
  now: number,
  {
    name,
    email,
    logWriter,
    externalId = null,
    metadata = {},
    onUnavailable = "deny",
    maxLiveKeys = usualMaxLiveKeys,
  }: Pick<Account, "name" | "email" | "logWriter"> & Partial<Pick<Account, "externalId" | "metadata" | "onUnavailable" | "maxLiveKeys">>,
): Account {
  return {
    id: newId("acc", now),
    ...searchable({ name, email, externalId }),
    name,
    email,
    externalId,
    metadata,
    onUnavailable,
    limitCeiling,
    maxLiveKeys,
    logWriter,
    retentionDays: null,
    storageQuotaBytes: null,
    planId: null,
    planVersion: 0,
    ownTerms: {},
    sharedLimits: [],
    limitsInForce: [],
    keyLimits: [],
    defaultScopes: null,
    limitsVersion: 0,
    pushedLimitsVersion: 0,
    limitsRevision: "",
    sampleUntil: null,
    createdAt: now,
    suspendedAt: null,
    suspensionReason: null,
  };
}

/** Returns the column in which searches look. */
export const searchable = ({ name, email, externalId }: Pick<Account, "name" | "email" | "externalId">) => ({
  searchText: folded([name, email, externalId].join("\n")),
});

/** Returns the statement that stores a new account. */
export const insertAccount = (db: Db, account: Account): Statement => db.insert(accounts).values(account);

/** A filter for a list of accounts. `q`: a text in the name, the email address or the external id. `ids`: the accounts that the caller may read, or null for all. */
export interface AccountFilter {
  externalId?: string | undefined;
  email?: string | undefined;
  q?: string | undefined;
  ids?: readonly string[] | null;
}

/** Returns up to `limit` accounts, sorted by id. The list starts after the id `after`. */
export const accountsAfter = (
  db: Db,
  after: string,
  limit: number,
  { externalId, email, q, ids = null }: AccountFilter = {},
): Promise<Account[]> =>
  db
    .select()
    .from(accounts)
    .where(
      and(
        gt(accounts.id, after),
        externalId === undefined ? undefined : eq(accounts.externalId, externalId),
        email === undefined ? undefined : sql`${accounts.email} = ${email} COLLATE NOCASE`,
        q === undefined ? undefined : sql`instr(${accounts.searchText}, ${folded(q)}) > 0`,
        ids === null ? undefined : sql`${accounts.id} IN (SELECT value FROM json_each(${JSON.stringify(ids)}))`,
      ),
    )
    .orderBy(asc(accounts.id))
    .limit(limit);

export async function readAccountByExternalId(db: Db, externalId: string): Promise<Account | null> {
  const [account] = await db.select().from(accounts).where(eq(accounts.externalId, externalId));
  return account ?? null;
}

/** Returns those of the given ids that are ids of accounts. */
export async function existingAccounts(db: Db, ids: readonly string[]): Promise<string[]> {
  const rows = await db
    .select({ id: accounts.id })
    .from(accounts)
    .where(sql`${accounts.id} IN (SELECT value FROM json_each(${JSON.stringify(ids)}))`);
  return rows.map(({ id }) => id);
}

/** Returns all accounts, oldest first. */
export const listAccounts = (db: Db): Promise<Account[]> => db.select().from(accounts).orderBy(asc(accounts.createdAt), asc(accounts.id));

/** Returns an SQL statement that updates an account if `when` is true. The statement returns the id of the updated account. */
export const updateAccount = (db: Db, id: string, members: Partial<Omit<Account, "id">>, when: SQL = sql`true`) =>
  db
    .update(accounts)
    .set(members)
    .where(and(eq(accounts.id, id), when))
    .returning({ id: accounts.id });

/** Returns an SQL condition that is true if an account has not changed since it was read. */
export function isAccountAsRead(before: Account): SQL {
  const columns = Object.entries(getTableColumns(accounts)) as [keyof Account, SQLiteColumn][];
  const same = columns.map(([name, column]) => sql`${column} IS ${before[name] === null ? null : sql.param(before[name], column)}`);
  return sql`EXISTS (SELECT 1 FROM accounts WHERE ${and(...same)})`;
}

/** Returns an account. Throws `not_found` if the account does not exist. */
export async function readAccount(db: Db, id: string): Promise<Account> {
  const [account] = await db.select().from(accounts).where(eq(accounts.id, id));
  if (!account) throw new Failure("not_found", "There is no such account.");
  return account;
}
