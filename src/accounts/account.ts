import { asc, eq, gt } from "drizzle-orm";
import type { Db, Statement } from "../db/client.ts";
import { Failure } from "../errors/failure.ts";
import { newId } from "../ids/ids.ts";
import { accounts, limitCeiling } from "./tables.ts";

export type Account = typeof accounts.$inferSelect;

export { limitCeiling };

export const newAccountId = (now: number): string => newId("acc", now);

/**
 * Creates an account. `logWriter` is the activity database for the request log of the account. Only the operator creates accounts, so
 * no route of the public API calls this function. The statements in `alongside` run in the same batch as the insert.
 */
export async function createAccount(
  { db, now }: { db: Db; now: number },
  { id = newAccountId(now), name, email, logWriter }: Pick<Account, "name" | "email" | "logWriter"> & { id?: string },
  alongside: Statement[] = [],
): Promise<Account> {
  const account: Account = {
    id,
    name,
    email,
    limitCeiling,
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
  };
  await db.batch([db.insert(accounts).values(account), ...alongside]);
  return account;
}

/** Returns up to `limit` accounts, sorted by id. The list starts after the id `after`. */
export const accountsAfter = (db: Db, after: string, limit: number): Promise<Account[]> =>
  db.select().from(accounts).where(gt(accounts.id, after)).orderBy(asc(accounts.id)).limit(limit);

/** Returns all accounts, oldest first. */
export const listAccounts = (db: Db): Promise<Account[]> => db.select().from(accounts).orderBy(asc(accounts.createdAt), asc(accounts.id));

/** Returns an SQL statement that updates an account. */
export const updateAccount = (db: Db, id: string, members: Partial<Omit<Account, "id">>): Statement =>
  db.update(accounts).set(members).where(eq(accounts.id, id));

/** Returns an account. Throws `not_found` if the account does not exist. */
export async function readAccount(db: Db, id: string): Promise<Account> {
  const [account] = await db.select().from(accounts).where(eq(accounts.id, id));
  if (!account) throw new Failure("not_found", "There is no such account.");
  return account;
}
