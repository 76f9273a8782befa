import { eq } from "drizzle-orm";
import { type Account, insertAccount, newAccount, readAccount, updateAccount } from "../accounts/account.ts";
import { defaultQuotaBytes, maxStored, type Stored } from "../accounts/storage.ts";
import { changesSuspension, setSuspension } from "../accounts/suspension.ts";
import { isKeyId } from "../credentials/key-format.ts";
import { accounts } from "../db/areas/accounts/tables.ts";
import { apiKeys } from "../db/areas/keys/tables.ts";
import type { Db, Statement } from "../db/client.ts";
import { isDuplicate } from "../db/failures.ts";
import { wrote } from "../db/optimistic-locking.ts";
import { accountStorage } from "../db/registry/tables.ts";
import { callGuard, type Guards } from "../guard/guards.ts";
import { newSetupLink } from "../identity/invitations.ts";
import { listMembers } from "../identity/member.ts";
import { explainNoLink, type NewPortalLink, newPortalLink, type PortalLink } from "../identity/portal.ts";
import { endPortalAccess } from "../identity/portal-access.ts";
import { pushKeysOf } from "../keys/push-key.ts";
import { raiseVersions } from "../keys/raise-versions.ts";
import { endTemporarySecretsOf } from "../keys/temporary-secrets.ts";
import { Failure } from "../lib/errors/failure.ts";
import { type AuditTarget, auditEntry } from "../outbox/audit.ts";
import { commitChange } from "../outbox/outbox.ts";
import { actorOf, commitOperation, type OperatorContext } from "./operator-context.ts";

// Account changes that only an operator may make.

type NewAccount = Pick<Account, "name" | "email" | "logWriter"> & Partial<TeamValues>;

/** Creates an account and the setup link for its first owner. Returns the account and the token for the setup link. */
export async function makeAccount(operatorContext: OperatorContext, input: NewAccount): Promise<{ account: Account; setupToken: string }> {
  const account = newAccount(operatorContext.now, input);
  const { token: setupToken, statements } = newSetupLink(operatorContext, account.id);
  const made = { account, setupToken };
  await storeAccount(operatorContext, account, made, statements);
  return made;
}

/** Creates an account without a setup link. Throws `conflict` if another account has the external id. */
export async function makeTeamAccount(operatorContext: OperatorContext, input: NewAccount): Promise<Account> {
  const account = newAccount(operatorContext.now, input);
  await storeAccount(operatorContext, account, account, []);
  return account;
}

const storeAccount = (operatorContext: OperatorContext, account: Account, result: unknown, more: Statement[]): Promise<unknown> => {
  const statements = { made: insertAccount(operatorContext.db, account), more };
  return orExternalIdTaken(commitOperation(operatorContext, "account.made", { accountId: account.id }, { result, statements }));
};

/** The values of an account that the team sets through the team API. */
export type TeamValues = Pick<Account, "name" | "email" | "externalId" | "metadata" | "onUnavailable" | "maxLiveKeys">;

/** Throws `conflict` if a write fails because another account has the external id. */
export async function orExternalIdTaken<Result>(work: Promise<Result>): Promise<Result> {
  try {
    return await work;
  } catch (error) {
    if (isDuplicate(error, "accounts.external_id")) throw new Failure("conflict", "Another account has this external id.");
    throw error;
  }
}

/**
 * Creates a setup link for an additional owner of an account. If the account has an earlier setup link that is unused, the earlier link stops
 * working. Returns the token for the setup link. Throws `not_found`.
 */
export async function makeOwnerLink(operatorContext: OperatorContext, accountId: string): Promise<string> {
  await readAccount(operatorContext.db, accountId);
  const { token, statements } = newSetupLink(operatorContext, accountId);
  await commitOperation(operatorContext, "owner.linked", { accountId }, { result: token, statements: { link: statements } });
  return token;
}

/** Creates a portal link. Returns the link and its token. Throws `not_found`, `account_suspended`, or `limit_reached`. */
export async function makePortalLink(operatorContext: OperatorContext, given: NewPortalLink): Promise<{ link: PortalLink; token: string }> {
  const { accountId } = given;
  await readAccount(operatorContext.db, accountId);
  const { token, link, when, stored } = newPortalLink(operatorContext, given);
  // A link has no entry in the operator audit: pages of the team with a frame make one each time that they are opened. Its claim is in the audit log of
  // the account.
  const change = { accountId, events: [], statements: { stored }, when, result: { link, token }, whenFull: "reserve" } as const;
  const made = await commitChange(operatorContext.outbox, change);
  if (!wrote(made.stored)) await explainNoLink(operatorContext.db, accountId);
  return { link, token };
}

/** Ends all sessions of an account's portal links, and the links, or those of one member. Throws `not_found`. */
export async function endPortalSessions(
  operatorContext: OperatorContext & { guards: Guards },
  accountId: string,
  externalId?: string,
): Promise<void> {
  const { db } = operatorContext;
  await readAccount(db, accountId);
  await commitOperation(
    operatorContext,
    "portal.ended",
    { accountId },
    {
      statements: { ended: endPortalAccess(db, accountId, { externalId }) },
    },
  );
  const context = { ...operatorContext, actor: actorOf(operatorContext, accountId) };
  const all = await listMembers(context);
  const ended = all.filter((member) => member.externalId !== null && (externalId === undefined || member.externalId === externalId));
  await endTemporarySecretsOf(
    context,
    ended.map(({ id }) => id),
  );
}

export const targetOf = ({ id, name }: Account): AuditTarget => ({ type: "account", id, name });

/**
 * Suspends an account. After the promise resolves, the account's keys are denied, its deliveries are paused, and its members cannot change
 * anything. An account that is already suspended stays as it is. `reason`: what its members read. Throws `not_found` or `unavailable`. Returns the
 * number of keys that were pushed to their guards.
 */
export const suspendAccount = (
  operatorContext: OperatorContext & { guards: Guards },
  accountId: string,
  reason: string | null = null,
): Promise<number> => changeSuspension(operatorContext, accountId, operatorContext.now, reason);

/**
 * Resumes a suspended account. A paused delivery resumes when the delivery is due. The errors and the result are the same as for
 * `suspendAccount`.
 */
export const resumeAccount = (operatorContext: OperatorContext & { guards: Guards }, accountId: string): Promise<number> =>
  changeSuspension(operatorContext, accountId, null);

async function changeSuspension(
  operatorContext: OperatorContext & { guards: Guards },
  accountId: string,
  suspendedAt: number | null,
  reason: string | null = null,
): Promise<number> {
  const { db, now } = operatorContext;
  const account = await readAccount(db, accountId);
  const action = suspendedAt === null ? "account.resumed" : "account.suspended";
  const when = changesSuspension(accountId, suspendedAt);
  await commitOperation(
    operatorContext,
    action,
    { accountId },
    {
      audit: [auditEntry({ actor: actorOf(operatorContext, accountId), now }, action, targetOf(account))],
      statements: {
        versions: raiseVersions(db, accountId, now, when),
        portal: suspendedAt === null ? [] : endPortalAccess(db, accountId, { when }),
        suspension: setSuspension(db, accountId, suspendedAt, reason),
      },
      when,
    },
  );
  return pushKeysOf(operatorContext, accountId);
}

/**
 * Sets the account's storage quota in the main database, in bytes. Null resets the quota to the default. An account above its quota keeps its data
 * but cannot add more data. Throws `not_found`.
 */
export async function changeStorageQuota(
  operatorContext: OperatorContext,
  accountId: string,
  storageQuotaBytes: number | null,
): Promise<void> {
  const { db, now } = operatorContext;
  const account = await readAccount(db, accountId);
  const details = { storage_quota_bytes: storageQuotaBytes };
  await commitOperation(
    operatorContext,
    "account.changed",
    { accountId, details },
    {
      audit: [auditEntry({ actor: actorOf(operatorContext, accountId), now }, "account.changed", targetOf(account), Object.keys(details))],
      statements: { changed: updateAccount(db, accountId, { storageQuotaBytes }) },
    },
  );
}

/**
 * Returns the number of bytes and rows that an account stores, and the maximum of each number. `droppedEvents`: the number of events that were not stored because
 * the account had used up its quota and its reserve. Throws `not_found`.
 */
export async function readStorage(db: Db, accountId: string) {
  const { storageQuotaBytes } = await readAccount(db, accountId);
  const [row] = await db.select().from(accountStorage).where(eq(accountStorage.accountId, accountId));
  const names = Object.keys(maxStored) as Stored[];
  const each = names.map((name) => [name, { stored: row?.[name] ?? 0, most: maxStored[name] }]);
  return {
    bytes: { stored: row?.bytes ?? 0, most: storageQuotaBytes ?? defaultQuotaBytes },
    rows: Object.fromEntries(each) as Record<Stored, { stored: number; most: number }>,
    droppedEvents: row?.droppedEvents ?? 0,
  };
}

/**
 * Returns the account of a key, or null if the key does not exist. If D1 has lost the key's row, `hasRow` is false, and the key's guard names the
 * account.
 */
export async function accountOfKey(
  { db, guards }: { db: Db; guards: Guards },
  keyId: string,
): Promise<{ account: Account; hasRow: boolean } | null> {
  if (!isKeyId(keyId)) return null;
  const [row] = await db.select({ accountId: apiKeys.accountId }).from(apiKeys).where(eq(apiKeys.id, keyId));
  const accountId = row?.accountId ?? (await callGuard(guards, keyId, (guard) => guard.configuration()))?.accountId;
  const [account] = accountId === undefined ? [] : await db.select().from(accounts).where(eq(accounts.id, accountId));
  return account ? { account, hasRow: row !== undefined } : null;
}
