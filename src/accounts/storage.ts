import { type SQL, sql } from "drizzle-orm";
import { type Db, raw, type Statement } from "../db/client.ts";
import { Failure } from "../errors/failure.ts";
import { accountStorage } from "./tables.ts";

// One account must not fill the main database, which has 10 GB for all of them. Its rows are counted by triggers: some by number, all by their bytes.

const mib = 1024 * 1024;

/** Bytes that an account may store, unless the operator gives it another quota: 36 accounts at their quota fill the main database. */
export const usualQuotaBytes = 256 * mib;

/** Bytes beyond the quota that are left for the events of what deletes or ends something, and for failed attempts of deliveries. */
export const reserveBytes = 16 * mib;

/** What one delivery is charged, its attempt that succeeds included. The migrations have the same number. */
export const deliveryBytes = 1400;

/** Bytes of an attempt that succeeds which `deliveryBytes` includes. */
export const includedAttemptBytes = 760;

/**
 * What an account may store at most of what it makes, by number. Events: what a key at a limit of 5,000 an hour makes in the 30 days that they are kept,
 * with one event for each request. Responses: what it makes in the 24 hours that those are kept, and half as many again.
 */
export const mostStored = { users: 50_000, tasks: 100_000, events: 4_000_000, idempotencyKeys: 200_000 } as const;
export type Stored = keyof typeof mostStored;

/** The condition, for D1, that the account may store more of it. */
export const mayStore = (accountId: string, what: Stored): SQL =>
  sql`coalesce((SELECT ${accountStorage[what]} FROM account_storage WHERE account_id = ${accountId}), 0) < ${mostStored[what]}`;

const storedBytes = (accountId: string | SQL): SQL =>
  sql`coalesce((SELECT bytes FROM account_storage WHERE account_storage.account_id = ${accountId}), 0)`;
const quotaBytes = (accountId: string | SQL): SQL =>
  sql`coalesce((SELECT storage_quota_bytes FROM accounts WHERE accounts.id = ${accountId}), ${usualQuotaBytes})`;

/** The condition, for D1, that the account is below its quota, and stays so with `more` bytes. */
export const isWithinQuota = (accountId: string, more = 0): SQL =>
  sql`${storedBytes(accountId)} + ${Math.max(more, 1)} <= ${quotaBytes(accountId)}`;

/** The condition, for D1, that the account is below its quota and its reserve. `accountId`: its id, or the column that has it. */
export const isWithinReserve = (accountId: string | SQL): SQL =>
  sql`${storedBytes(accountId)} < ${quotaBytes(accountId)} + ${reserveBytes}`;

/** The statement that counts events of an account which were not stored, where `when` holds. */
export const countDroppedEvents = (db: Db, accountId: string, events: number, when: SQL): Statement =>
  raw(db, sql`UPDATE account_storage SET dropped_events = dropped_events + ${events} WHERE account_id = ${accountId} AND ${when}`);

const advice: Record<Stored, string> = {
  users: "users. Delete one that is no longer used.",
  tasks: "tasks. Delete those that are done with.",
  events: "events of the last 30 days. What deletes or ends something still works, and events go after 30 days.",
  idempotencyKeys: "responses for 24 hours under an Idempotency-Key. Send this one without, or later.",
};

export const storesAll = (what: Stored): Failure =>
  new Failure("limit_reached", `An account may have ${mostStored[what].toLocaleString("en")} ${advice[what]}`);

export const overQuota = (cause: unknown): Failure =>
  new Failure(
    "limit_reached",
    "The account has used up its storage. Deleting, revoking and disabling still work. Delete what is no longer needed, wait until old events are deleted (after 30 days), or ask the operator of this service for a larger quota.",
    { cause },
  );

/** The sizes in a sentence: "256 MiB". */
export const inMib = (bytes: number): string =>
  `${(bytes / mib).toLocaleString("en", { maximumFractionDigits: bytes < 10 * mib ? 1 : 0 })} MiB`;
