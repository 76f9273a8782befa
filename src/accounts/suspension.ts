import { and, eq, isNotNull, isNull, type SQL, sql } from "drizzle-orm";
import { accounts } from "../db/areas/accounts/tables.ts";
import type { Db } from "../db/client.ts";
import { Failure } from "../lib/errors/failure.ts";

// The operator can suspend an account. While the account is suspended, the guards deny requests with its keys, and its webhook deliveries
// wait. Members can view the account, but cannot change it.

/**
 * Returns an SQL condition. The condition is true if the account is not suspended. `accountId` is the id of the account, or the column that
 * contains the id.
 */
export const isNotSuspended = (accountId: string | SQL): SQL =>
  sql`NOT EXISTS (SELECT 1 FROM accounts AS suspended WHERE suspended.id = ${accountId} AND suspended.suspended_at IS NOT NULL)`;

export const suspended = () =>
  new Failure(
    "account_suspended",
    "This account is suspended, so nothing in it can be changed. The team behind this service can resume the account.",
  );

/**
 * Returns an SQL condition. The condition selects an account only if the new `suspendedAt` would change its state. If `suspendedAt` is
 * null, the account must be suspended now. Otherwise, the account must not be suspended yet.
 */
const canChange = (accountId: string, suspendedAt: number | null): SQL | undefined =>
  and(eq(accounts.id, accountId), suspendedAt === null ? isNotNull(accounts.suspendedAt) : isNull(accounts.suspendedAt));

/** Returns an SQL condition. The condition is true if `setSuspension` would change the account. */
export const changesSuspension = (accountId: string, suspendedAt: number | null): SQL =>
  sql`EXISTS (SELECT 1 FROM accounts WHERE ${canChange(accountId, suspendedAt)})`;

/**
 * Returns an SQL statement that suspends an account. If `suspendedAt` is null, the statement resumes the account instead. If the statement
 * changes the account, it returns the id of the account. `suspensionReason`: what its members read.
 */
export const setSuspension = (db: Db, accountId: string, suspendedAt: number | null, suspensionReason: string | null = null) =>
  db.update(accounts).set({ suspendedAt, suspensionReason }).where(canChange(accountId, suspendedAt)).returning({ id: accounts.id });
