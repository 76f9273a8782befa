import { asc } from "drizzle-orm";
import type { Db } from "../db/client.ts";
import { accounts } from "../db/schema.ts";
import { newId } from "../ids.ts";

export type Account = typeof accounts.$inferSelect;

/** The highest hourly limit that a key of a new account may have. */
export const limitCeiling = 5000;

/** Makes an account. The operator's doing: no route leads here. */
export async function createAccount(
  { db, now }: { db: Db; now: number },
  { name, email }: { name: string; email: string },
): Promise<Account> {
  const account: Account = { id: newId("acc", now), name, email, limitCeiling, addressesClearedTo: "", sampleUntil: null, createdAt: now };
  await db.insert(accounts).values(account);
  return account;
}

/** All accounts, the oldest first. */
export const listAccounts = (db: Db): Promise<Account[]> => db.select().from(accounts).orderBy(asc(accounts.createdAt), asc(accounts.id));
