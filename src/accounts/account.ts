import { asc, gt } from "drizzle-orm";
import type { Db } from "../db/client.ts";
import { accounts } from "../db/schema-main.ts";
import { newId } from "../ids.ts";

export type Account = typeof accounts.$inferSelect;

/** The highest hourly limit that a key of a new account may have. */
export const limitCeiling = 5000;

/** Makes an account, whose log goes to the activity database `activityStore`. The operator's doing: no route leads here. */
export async function createAccount(
  { db, now }: { db: Db; now: number },
  { name, email, activityStore }: Pick<Account, "name" | "email" | "activityStore">,
): Promise<Account> {
  const account: Account = {
    id: newId("acc", now),
    name,
    email,
    limitCeiling,
    activityStore,
    keepDays: null,
    sampleUntil: null,
    createdAt: now,
  };
  await db.insert(accounts).values(account);
  return account;
}

/** Accounts in the order of their ids, from after the one with the id `after`: at most `limit`. */
export const accountsAfter = (db: Db, after: string, limit: number): Promise<Account[]> =>
  db.select().from(accounts).where(gt(accounts.id, after)).orderBy(asc(accounts.id)).limit(limit);

/** All accounts, the oldest first. */
export const listAccounts = (db: Db): Promise<Account[]> => db.select().from(accounts).orderBy(asc(accounts.createdAt), asc(accounts.id));
