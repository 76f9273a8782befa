import { type SQL, sql } from "drizzle-orm";
import { type Db, raw, type Statement } from "../db/client.ts";
import { Failure } from "../errors/failure.ts";
import { boundedTables } from "../registry/area-tables.ts";
import type { Stored } from "../registry/manifests.ts";
import { accountStorage } from "./tables.ts";

// One account must not fill the main database, which has 10 GB for all of them. Its rows are counted by triggers: some by number, all by their bytes.

const mib = 1024 * 1024;

/** Bytes that an account may store, unless the operator gives it another quota: 36 accounts at their quota fill the main database. */
export const usualQuotaBytes = 256 * mib;

/** Bytes beyond the quota that are left for the events of what deletes or ends something, and for failed attempts of deliveries. */
export const reserveBytes = 16 * mib;

/** What one delivery is charged, its attempt that succeeds included. The manifest of webhooks has the same number. */
export const deliveryBytes = 1400;

/** Bytes of an attempt that succeeds which `deliveryBytes` includes. */
export const includedAttemptBytes = 760;

/** A table that bounds the rows of an account. */
export type { Stored } from "../registry/manifests.ts";

/** How many rows of each an account may have. */
export const maxStored = Object.fromEntries(boundedTables.map(({ key, max }) => [key, max])) as Readonly<Record<Stored, number>>;

/** What reports call them. */
export const storedNames = boundedTables.map(({ key, label }) => ({ key, label }));

const adviceOf = Object.fromEntries(boundedTables.map(({ key, advice }) => [key, advice])) as Readonly<Record<Stored, string>>;

/** The condition, for D1, that the account may store more of it. */
export const mayStore = (accountId: string, what: Stored): SQL =>
  sql`coalesce((SELECT ${accountStorage[what]} FROM account_storage WHERE account_id = ${accountId}), 0) < ${maxStored[what]}`;

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

export const storesAll = (what: Stored): Failure =>
  new Failure("limit_reached", `An account may have ${maxStored[what].toLocaleString("en")} ${adviceOf[what]}`);

export const overQuota = (cause: unknown): Failure =>
  new Failure(
    "limit_reached",
    "The account has used up its storage. Deleting, revoking and disabling still work. Delete what is no longer needed, wait until old events are deleted (after 30 days), or ask the operator of this service for a larger quota.",
    { cause },
  );

/** The sizes in a sentence: "256 MiB". */
export const inMib = (bytes: number): string =>
  `${(bytes / mib).toLocaleString("en", { maximumFractionDigits: bytes < 10 * mib ? 1 : 0 })} MiB`;
