import { eq, sql } from "drizzle-orm";
import { accounts } from "../db/areas/accounts/tables.ts";
import { apiKeys } from "../db/areas/keys/tables.ts";
import type { Db } from "../db/client.ts";
import type { KeyConfig } from "./decision.ts";

/** The columns that make up a guard's configuration. The values come from the row of the key and the row of its account. */
export const configColumns = {
  version: apiKeys.version,
  revision: apiKeys.revision,
  accountId: apiKeys.accountId,
  accountName: accounts.name,
  accountExternalId: accounts.externalId,
  accountMetadata: sql<string>`${accounts.metadata}`,
  logWriter: accounts.logWriter,
  name: apiKeys.name,
  externalId: apiKeys.externalId,
  metadata: sql<string>`${apiKeys.metadata}`,
  state: apiKeys.state,
  scopes: apiKeys.scopes,
  hourlyLimit: apiKeys.hourlyLimit,
  otherLimits: apiKeys.otherLimits,
  allowedIps: apiKeys.allowedIps,
  expiresAt: apiKeys.expiresAt,
  secretHash: apiKeys.secretHash,
  last4: apiKeys.last4,
  previousSecretHash: apiKeys.previousSecretHash,
  overlapEndsAt: apiKeys.overlapEndsAt,
  suspendedAt: accounts.suspendedAt,
  accountVersion: accounts.limitsVersion,
  accountRevision: accounts.limitsRevision,
  accountLimits: accounts.sharedLimits,
};

/** What the account says about requests while the guard of a key cannot be reached. */
export interface OnUnavailable {
  onUnavailable: "deny" | "known";
}

/** Reads a key for a decision without its guard. Returns null if no such key exists. */
export async function readUnguarded(db: Db, keyId: string): Promise<(KeyConfig & OnUnavailable) | null> {
  const [row] = await db
    .select({ ...configColumns, onUnavailable: accounts.onUnavailable })
    .from(apiKeys)
    .innerJoin(accounts, eq(accounts.id, apiKeys.accountId))
    .where(eq(apiKeys.id, keyId));
  return row ?? null;
}

/** Reads the current configuration of a key from D1. Returns null if no such key exists. */
export async function readConfig(db: Db, keyId: string): Promise<KeyConfig | null> {
  const [row] = await db
    .select(configColumns)
    .from(apiKeys)
    .innerJoin(accounts, eq(accounts.id, apiKeys.accountId))
    .where(eq(apiKeys.id, keyId));
  return row ?? null;
}
