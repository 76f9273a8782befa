import { count, eq, getTableColumns, type SQL, sql } from "drizzle-orm";
import type { Writing } from "../accounts/actor.ts";
import { type Db, newRevision } from "../db/client.ts";
import { wrote } from "../db/race.ts";
import { accounts, apiKeys } from "../db/schema.ts";
import { Failure, invalidMember } from "../errors.ts";
import { neverUsed } from "../usage/last-uses.ts";
import { requireGrantable } from "./grants.ts";
import { type Key, type KeyRow, maxLiveKeys } from "./key.ts";
import { hashOf, newKeyId, newSecretKey, type SigningSecret } from "./key-format.ts";
import { isLive, readKeyRow } from "./read-keys.ts";
import { defaultScopes } from "./scopes.ts";

export interface NewKey {
  name: string;
  scopes?: string[] | undefined;
  hourlyLimit?: number | undefined;
  allowedIps?: string[] | undefined;
  expiresAt?: number | null | undefined;
}

/**
 * Makes a key and its secret, which is shown this once. What the input leaves open is as wide as the acting key's own.
 * Throws `forbidden` for more than that, `invalid_body` over the account's ceiling, `limit_reached` at 50 live keys.
 */
export async function createKey(writing: Writing & { signing: SigningSecret }, input: NewKey): Promise<{ key: Key; secretKey: string }> {
  const { db, actor, now, commit, signing } = writing;
  const [account] = await db.select({ limitCeiling: accounts.limitCeiling }).from(accounts).where(eq(accounts.id, actor.accountId));
  if (!account) throw new Failure("not_found", "There is no such account.");
  const own = actor.keyId === null ? null : await readKeyRow(writing, actor.keyId);
  const hourlyLimit = input.hourlyLimit ?? Math.min(own?.hourlyLimit ?? account.limitCeiling, account.limitCeiling);
  requireCeiling(hourlyLimit, account.limitCeiling);
  requireFuture(input.expiresAt, now);

  const id = newKeyId();
  const secretKey = newSecretKey(id, signing);
  const row: KeyRow = {
    id,
    accountId: actor.accountId,
    name: input.name,
    last4: secretKey.slice(-4),
    secretHash: hashOf(secretKey),
    previousSecretHash: null,
    overlapEndsAt: null,
    scopes: input.scopes ?? defaultScopes,
    state: "active",
    hourlyLimit,
    allowedIps: input.allowedIps ?? own?.allowedIps ?? [],
    expiresAt: input.expiresAt === undefined ? (own?.expiresAt ?? null) : input.expiresAt,
    version: 1,
    pushedVersion: 1,
    revision: newRevision(),
    createdAt: now,
    updatedAt: now,
  };
  if (own) requireGrantable(row, own);

  const key = { ...row, ...neverUsed };
  const hasRoom = sql`(${db.select({ n: count() }).from(apiKeys).where(isLive(actor.accountId, now))}) < ${maxLiveKeys}`;
  const [made] = await commit({
    result: { key, secretKey },
    statements: [insertWhere(db, row, hasRoom)],
    when: hasRoom,
  });
  if (!wrote(made)) {
    throw new Failure("limit_reached", `An account may have ${maxLiveKeys} live keys. Revoke one that is no longer used.`);
  }
  return { key, secretKey };
}

/** Throws `invalid_body` for a limit that the account may not have. */
export function requireCeiling(hourlyLimit: number, ceiling: number): void {
  if (hourlyLimit > ceiling) throw invalidMember("/hourly_limit", `Must be at most ${ceiling}, the account's ceiling.`, "too_big");
}

/** Throws `invalid_body` for an expiry that has passed already. */
export function requireFuture(expiresAt: number | null | undefined, now: number): void {
  if (typeof expiresAt === "number" && expiresAt <= now) throw invalidMember("/expires_at", "Must lie in the future.", "too_small");
}

function insertWhere(db: Db, row: KeyRow, condition: SQL) {
  const values = Object.entries(getTableColumns(apiKeys)).map(([name, column]) => sql`${sql.param(row[name as keyof KeyRow], column)}`);
  return db
    .insert(apiKeys)
    .select(sql`SELECT ${sql.join(values, sql.raw(", "))} WHERE ${condition}`)
    .returning({ id: apiKeys.id });
}
