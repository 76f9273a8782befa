import { type SQL, sql } from "drizzle-orm";
import { type Db, raw, type Statement } from "../db/client.ts";
import { boundedTables } from "../db/registry/area-tables.ts";
import type { Stored } from "../db/registry/manifests.ts";
import { accountStorage } from "../db/registry/tables.ts";
import { Failure } from "../lib/errors/failure.ts";

// All accounts share the 10 GB of the main database, so a single account must not fill the database. Triggers count the bytes that each
// account stores. Triggers also count each account's rows in each table with a row limit.

const mib = 1024 * 1024;

/** The default storage quota of an account, in bytes. The main database is full when 34 accounts reach this quota. */
export const defaultQuotaBytes = 256 * mib;

/**
 * The storage that an account may use beyond its quota, in bytes. This reserved storage is for the events of changes that delete or end
 * something. The reserved storage is also for failed delivery attempts.
 */
export const reserveBytes = 16 * mib;

export type { Stored } from "../db/registry/manifests.ts";

/** The maximum number of rows per account in each table with a row limit. */
export const maxStored = Object.fromEntries(boundedTables.map(({ key, max }) => [key, max])) as Readonly<Record<Stored, number>>;

/** The tables with a row limit, of the resources that are served. Each item also contains the label of the table. */
export const storedNames = boundedTables.filter(({ isServed }) => isServed).map(({ key, label }) => ({ key, label }));

const adviceOf = Object.fromEntries(boundedTables.map(({ key, advice }) => [key, advice])) as Readonly<Record<Stored, string>>;

/** Returns an SQL condition that is true if the account may store one more row in the table. */
export const mayStore = (accountId: string, what: Stored): SQL =>
  sql`coalesce((SELECT ${accountStorage[what]} FROM account_storage WHERE account_id = ${accountId}), 0) < ${maxStored[what]}`;

const storedBytes = (accountId: string | SQL): SQL =>
  sql`coalesce((SELECT bytes FROM account_storage WHERE account_storage.account_id = ${accountId}), 0)`;
const quotaBytes = (accountId: string | SQL): SQL =>
  sql`coalesce((SELECT storage_quota_bytes FROM accounts WHERE accounts.id = ${accountId}), ${defaultQuotaBytes})`;

/**
 * Returns an SQL condition that is true if the account's quota has room for `more` bytes. If `more` is 0, the quota must have room for one
 * byte.
 */
export const isWithinQuota = (accountId: string, more = 0): SQL =>
  sql`${storedBytes(accountId)} + ${Math.max(more, 1)} <= ${quotaBytes(accountId)}`;

/**
 * Returns an SQL condition that is false if the account has used up both its quota and its reserved storage. `accountId`: an account id, or
 * the column that contains the account id.
 */
export const isWithinReserve = (accountId: string | SQL): SQL =>
  sql`${storedBytes(accountId)} < ${quotaBytes(accountId)} + ${reserveBytes}`;

/** Returns a statement. If `when` is true, the statement adds `events` to the account's count of dropped events. */
export const countDroppedEvents = (db: Db, accountId: string, events: number, when: SQL): Statement =>
  raw(db, sql`UPDATE account_storage SET dropped_events = dropped_events + ${events} WHERE account_id = ${accountId} AND ${when}`);

export const rowLimitReached = (what: Stored): Failure =>
  new Failure("limit_reached", `An account may have ${maxStored[what].toLocaleString("en")} ${adviceOf[what]}`);

export const overQuota = (cause: unknown): Failure =>
  new Failure(
    "limit_reached",
    "The account has used up its storage. Deleting, revoking and disabling still work. Delete what is no longer needed, wait until old events are deleted (after 30 days), or ask the team behind this service for a larger quota.",
    { cause },
  );

/** Formats a number of bytes in mebibytes, for example "256 MiB". */
export const inMib = (bytes: number): string =>
  `${(bytes / mib).toLocaleString("en", { maximumFractionDigits: bytes < 10 * mib ? 1 : 0 })} MiB`;

/** The statement that deletes the counters of an account. The parameter `?1` is the account id. */
export const deleteCounters = "DELETE FROM account_storage WHERE account_id = ?1";
