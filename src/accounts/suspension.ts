import { and, eq, isNotNull, isNull, type SQL, sql } from "drizzle-orm";
import type { Db } from "../db/client.ts";
import { Failure } from "../errors/failure.ts";
import { accounts } from "./tables.ts";

// An account that the operator has suspended: its keys are refused by their guards, its deliveries wait, its members look and change nothing.

/** The condition, for D1, that an account is not suspended. `accountId`: its id, or the column that has it. */
export const isNotSuspended = (accountId: string | SQL): SQL =>
  sql`NOT EXISTS (SELECT 1 FROM accounts AS suspended WHERE suspended.id = ${accountId} AND suspended.suspended_at IS NOT NULL)`;

export const suspended = () =>
  new Failure("account_suspended", "This account is suspended: nothing in it can be changed. The operator of this service can resume it.");

/** The row of an account that is suspended (`suspendedAt` null) or not suspended (`suspendedAt` set), and so can change. */
const canChange = (accountId: string, suspendedAt: number | null): SQL | undefined =>
  and(eq(accounts.id, accountId), suspendedAt === null ? isNotNull(accounts.suspendedAt) : isNull(accounts.suspendedAt));

/** The condition, for D1, that `setSuspension` changes the account. */
export const changesSuspension = (accountId: string, suspendedAt: number | null): SQL =>
  sql`EXISTS (SELECT 1 FROM accounts WHERE ${canChange(accountId, suspendedAt)})`;

/** The statement that suspends an account or, with null, resumes it. Returns the id if it changed the account. */
export const setSuspension = (db: Db, accountId: string, suspendedAt: number | null) =>
  db.update(accounts).set({ suspendedAt }).where(canChange(accountId, suspendedAt)).returning({ id: accounts.id });
