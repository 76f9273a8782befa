import { and, eq, gt } from "drizzle-orm";
import { type Account, createAccount, newAccountId, readAccount, updateAccount } from "../accounts/account.ts";
import { operatorOn } from "../accounts/actor.ts";
import { changesSuspension, setSuspension } from "../accounts/suspension.ts";
import { accounts } from "../accounts/tables.ts";
import { askGuard, type Guards } from "../admission/guards.ts";
import { isLive } from "../admission/live-keys.ts";
import { type AuditTarget, audited } from "../audit/audit.ts";
import { isKeyId } from "../credentials/key-format.ts";
import type { Db } from "../db/client.ts";
import { always } from "../db/optimistic-locking.ts";
import { makeSetup } from "../identity/invitations.ts";
import { changeKey } from "../keys/change-key.ts";
import { pushKeysOf } from "../keys/push-key.ts";
import { raiseVersions } from "../keys/raise-versions.ts";
import { apiKeys } from "../keys/tables.ts";
import { maxStored, type Stored, usualQuotaBytes } from "../storage/storage.ts";
import { accountStorage } from "../storage/tables.ts";
import { type Operating, operatorCommit } from "./operating.ts";
import { storeOperation } from "./operator-audit.ts";

// What only the operator may change of an account.

/** Makes an account and the link by which its first owner comes in. Answers what the link carries. */
export async function makeAccount(
  operating: Operating,
  input: Pick<Account, "name" | "email" | "activityStore">,
): Promise<{ account: Account; setupToken: string }> {
  const { db, now } = operating;
  const id = newAccountId(now);
  const account = await createAccount(operating, { id, ...input }, [
    storeOperation(db, { ...operating, action: "account.made", accountId: id }),
  ]);
  return { account, setupToken: await makeSetup(operating, id) };
}

/** Makes a new link by which an owner of an account comes in, beside those that it has. Answers what the link carries. Throws `not_found`. */
export async function makeOwnerLink(operating: Operating, accountId: string): Promise<string> {
  const { db } = operating;
  await readAccount(db, accountId);
  return makeSetup(operating, accountId, [storeOperation(db, { ...operating, action: "owner.linked", accountId })]);
}

const targetOf = ({ id, name }: Account): AuditTarget => ({ type: "account", id, name });

/**
 * Suspends an account: when this returns, its keys are refused, its deliveries are held and its members change nothing. One that is suspended
 * stays so. Throws `not_found` and `unavailable`. Answers how many keys were told.
 */
export const suspendAccount = (operating: Operating & { guards: Guards }, accountId: string): Promise<number> =>
  changeSuspension(operating, accountId, operating.now);

/** Ends a suspension. What was held goes out as it is due. Throws as `suspendAccount` does. */
export const resumeAccount = (operating: Operating & { guards: Guards }, accountId: string): Promise<number> =>
  changeSuspension(operating, accountId, null);

async function changeSuspension(operating: Operating & { guards: Guards }, accountId: string, suspendedAt: number | null): Promise<number> {
  const { db, now } = operating;
  const account = await readAccount(db, accountId);
  const action = suspendedAt === null ? "account.resumed" : "account.suspended";
  const when = changesSuspension(accountId, suspendedAt);
  const commit = operatorCommit(operating, action, { accountId });
  await commit({
    evenWhereFull: true,
    result: null,
    events: [],
    audit: [audited({ actor: operatorOn(accountId), now }, action, targetOf(account))],
    statements: [raiseVersions(db, accountId, now, when), setSuspension(db, accountId, suspendedAt)],
    when,
  });
  return pushKeysOf(operating, accountId);
}

/**
 * Sets the highest hourly limit that a key of the account may have. Live keys above it are lowered to it when this returns. Throws `not_found`
 * and `unavailable`. Answers their ids.
 */
export async function changeCeiling(
  operating: Operating & { guards: Guards; activity: Db },
  accountId: string,
  limitCeiling: number,
): Promise<string[]> {
  const { db, now } = operating;
  await changeAccount(operating, accountId, { limitCeiling }, { limit_ceiling: limitCeiling });
  const above = await db
    .select({ id: apiKeys.id })
    .from(apiKeys)
    // An expired key above it is given no other expiry.
    .where(and(isLive(accountId, now), gt(apiKeys.hourlyLimit, limitCeiling)));
  const actor = operatorOn(accountId);
  for (const { id } of above) {
    const commit = operatorCommit(operating, "key.limited", { accountId, targetId: id, details: { limit: limitCeiling } });
    await changeKey({ ...operating, actor, now, commit }, id, { hourlyLimit: limitCeiling }, always);
  }
  return above.map(({ id }) => id);
}

/** Sets how many days the account's log is kept; null: as long as that of others. Throws `not_found`. */
export const changeKeepDays = (operating: Operating, accountId: string, keepDays: number | null): Promise<void> =>
  changeAccount(operating, accountId, { keepDays }, { keep_days: keepDays });

/**
 * Sets how many bytes the account may store in the main database; null: as many as others. An account that has more keeps it, and adds
 * nothing. Throws `not_found`.
 */
export const changeStorageQuota = (operating: Operating, accountId: string, storageQuotaBytes: number | null): Promise<void> =>
  changeAccount(operating, accountId, { storageQuotaBytes }, { storage_quota_bytes: storageQuotaBytes });

async function changeAccount(
  operating: Operating,
  accountId: string,
  members: Partial<Pick<Account, "limitCeiling" | "keepDays" | "storageQuotaBytes">>,
  details: Record<string, number | null>,
): Promise<void> {
  const { db, now } = operating;
  const account = await readAccount(db, accountId);
  const commit = operatorCommit(operating, "account.changed", { accountId, details });
  await commit({
    evenWhereFull: true,
    result: null,
    events: [],
    audit: [audited({ actor: operatorOn(accountId), now }, "account.changed", targetOf(account), Object.keys(details))],
    statements: [updateAccount(db, accountId, members)],
  });
}

/** What an account stores of what it may store. */
export interface AccountStorage {
  bytes: { stored: number; most: number };
  rows: Record<Stored, { stored: number; most: number }>;
  /** Events that were not stored, since it was over its quota and its reserve. */
  droppedEvents: number;
}

/** What an account stores. Throws `not_found`. */
export async function readStorage(db: Db, accountId: string): Promise<AccountStorage> {
  const { storageQuotaBytes } = await readAccount(db, accountId);
  const [row] = await db.select().from(accountStorage).where(eq(accountStorage.accountId, accountId));
  const names = Object.keys(maxStored) as Stored[];
  const each = names.map((name) => [name, { stored: row?.[name] ?? 0, most: maxStored[name] }]);
  return {
    bytes: { stored: row?.bytes ?? 0, most: storageQuotaBytes ?? usualQuotaBytes },
    rows: Object.fromEntries(each) as AccountStorage["rows"],
    droppedEvents: row?.droppedEvents ?? 0,
  };
}

/** The account of a key; null where there is no such key. A key whose row D1 has lost (`hasRow` false) is known by its guard. */
export async function accountOfKey(
  { db, guards }: { db: Db; guards: Guards },
  keyId: string,
): Promise<{ account: Account; hasRow: boolean } | null> {
  if (!isKeyId(keyId)) return null;
  const [row] = await db.select({ accountId: apiKeys.accountId }).from(apiKeys).where(eq(apiKeys.id, keyId));
  const accountId = row?.accountId ?? (await askGuard(guards, keyId, (guard) => guard.configuration()))?.accountId;
  const [account] = accountId === undefined ? [] : await db.select().from(accounts).where(eq(accounts.id, accountId));
  return account ? { account, hasRow: row !== undefined } : null;
}
