import { asc, eq, gt } from "drizzle-orm";
import type { Db, Statement } from "../db/client.ts";
import { Failure } from "../errors/failure.ts";
import { newId } from "../ids/ids.ts";
import { accounts } from "./tables.ts";

export type Account = typeof accounts.$inferSelect;

/** The highest hourly limit that a key of a new account may have. */
export const limitCeiling = 5000;

export const newAccountId = (now: number): string => newId("acc", now);

/**
 * Makes an account, whose log goes to the activity database `activityStore`. The operator's doing: no route of the API leads here.
 * `alongside`: statements that go with it.
 */
export async function createAccount(
  { db, now }: { db: Db; now: number },
  { id = newAccountId(now), name, email, activityStore }: Pick<Account, "name" | "email" | "activityStore"> & { id?: string },
  alongside: Statement[] = [],
): Promise<Account> {
  const account: Account = {
    id,
    name,
    email,
    limitCeiling,
    activityStore,
    keepDays: null,
    storageQuotaBytes: null,
    sampleUntil: null,
    createdAt: now,
    suspendedAt: null,
  };
  await db.batch([db.insert(accounts).values(account), ...alongside]);
  return account;
}

/** Accounts in the order of their ids, from after the one with the id `after`: at most `limit`. */
export const accountsAfter = (db: Db, after: string, limit: number): Promise<Account[]> =>
  db.select().from(accounts).where(gt(accounts.id, after)).orderBy(asc(accounts.id)).limit(limit);

/** All accounts, the oldest first. */
export const listAccounts = (db: Db): Promise<Account[]> => db.select().from(accounts).orderBy(asc(accounts.createdAt), asc(accounts.id));

/** The statement that changes an account. */
export const updateAccount = (db: Db, id: string, members: Partial<Omit<Account, "id">>): Statement =>
  db.update(accounts).set(members).where(eq(accounts.id, id));

/** Throws `not_found`. */
export async function readAccount(db: Db, id: string): Promise<Account> {
  const [account] = await db.select().from(accounts).where(eq(accounts.id, id));
  if (!account) throw new Failure("not_found", "There is no such account.");
  return account;
}
