import { and, eq, isNotNull, isNull, type SQL, sql } from "drizzle-orm";
import type { Db } from "../db/client.ts";
import { Failure } from "../errors/failure.ts";
import { accounts } from "./tables.ts";

// The operator can suspend an account. The guards then deny the account's keys, its deliveries wait, and its members can view but not change the
// account.

/**
 * Returns the SQL condition that is true if an account is not suspended. `accountId` is the id of the account, or the column that contains the id.
 */
export const isNotSuspended = (accountId: string | SQL): SQL =>
  sql`NOT EXISTS (SELECT 1 FROM accounts AS suspended WHERE suspended.id = ${accountId} AND suspended.suspended_at IS NOT NULL)`;

export const suspended = () =>
  new Failure(
    "account_suspended",
    "This account is suspended, so nothing in it can be changed. The operator of this service can resume the account.",
  );

/**
 * Returns the SQL condition that selects an account only if its state would change. To resume an account (`suspendedAt` is null), the account must be
 * suspended. To suspend an account, the account must not be suspended yet.
 */
const canChange = (accountId: string, suspendedAt: number | null): SQL | undefined =>
  and(eq(accounts.id, accountId), suspendedAt === null ? isNotNull(accounts.suspendedAt) : isNull(accounts.suspendedAt));

/** Returns the SQL condition that is true if `setSuspension` would change the account. */
export const changesSuspension = (accountId: string, suspendedAt: number | null): SQL =>
  sql`EXISTS (SELECT 1 FROM accounts WHERE ${canChange(accountId, suspendedAt)})`;

/**
 * Returns the statement that suspends an account, or resumes the account if `suspendedAt` is null. If the statement changed the account, the
 * statement returns the id of the account.
 */
export const setSuspension = (db: Db, accountId: string, suspendedAt: number | null) =>
  db.update(accounts).set({ suspendedAt }).where(canChange(accountId, suspendedAt)).returning({ id: accounts.id });
