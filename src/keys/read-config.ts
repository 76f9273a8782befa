import { eq } from "drizzle-orm";
import type { Db } from "../db/client.ts";
import { accounts, apiKeys } from "../db/schema.ts";
import type { KeyConfig } from "./admission.ts";

/** What the guard of a key must know, as D1 has it now; null where there is no such key. */
export async function readConfig(db: Db, keyId: string): Promise<KeyConfig | null> {
  const [row] = await db
    .select({ key: apiKeys, accountName: accounts.name })
    .from(apiKeys)
    .innerJoin(accounts, eq(accounts.id, apiKeys.accountId))
    .where(eq(apiKeys.id, keyId));
  if (!row) return null;
  const { key, accountName } = row;
  return {
    version: key.version,
    accountId: key.accountId,
    accountName,
    name: key.name,
    state: key.state,
    scopes: key.scopes,
    hourlyLimit: key.hourlyLimit,
    allowedIps: key.allowedIps,
    expiresAt: key.expiresAt,
    secretHash: key.secretHash,
    previousSecretHash: key.previousSecretHash,
    overlapEndsAt: key.overlapEndsAt,
  };
}
