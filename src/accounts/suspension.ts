import { type SQL, sql } from "drizzle-orm";
import { Failure } from "../errors.ts";

// An account that the operator has suspended: its keys are refused by their guards, its deliveries wait, its members look and change nothing.

/** The condition, for D1, that an account is not suspended. `accountId`: its id, or the column that has it. */
export const isNotSuspended = (accountId: string | SQL): SQL =>
  sql`NOT EXISTS (SELECT 1 FROM accounts AS suspended WHERE suspended.id = ${accountId} AND suspended.suspended_at IS NOT NULL)`;

export const suspended = () =>
  new Failure("account_suspended", "This account is suspended: nothing in it can be changed. Whoever runs this service can resume it.");
