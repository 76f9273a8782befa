import { getTableColumns, type SQL, sql } from "drizzle-orm";
import type { Writing } from "../accounts/actor.ts";
import { type Db, newRevision } from "../db/client.ts";
import { wrote } from "../db/race.ts";
import { apiKeys } from "../db/schema.ts";
import { hashOf } from "../hash.ts";
import { neverUsed } from "../usage/last-uses.ts";
import { hasRoom, noRoom, readCeiling, requireBounds } from "./bounds.ts";
import { requireGrantable } from "./grants.ts";
import type { Key, KeyRow } from "./key.ts";
import { keyCreated } from "./key-events.ts";
import { newKeyId, newSecretKey, type SigningSecret } from "./key-format.ts";
import { readKeyRow } from "./read-keys.ts";
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
  const ceiling = await readCeiling(db, actor.accountId);
  const own = actor.keyId === null ? null : await readKeyRow(writing, actor.keyId);
  const hourlyLimit = input.hourlyLimit ?? Math.min(own?.hourlyLimit ?? ceiling, ceiling);
  await requireBounds(writing, input);

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
    expiryTold: null,
    version: 1,
    pushedVersion: 1,
    revision: newRevision(),
    createdAt: now,
    updatedAt: now,
  };
  if (own) requireGrantable(row, own);

  const key = { ...row, ...neverUsed };
  const when = hasRoom(writing);
  const [made] = await commit({
    result: { key, secretKey },
    events: [keyCreated(key, now)],
    statements: [insertWhere(db, row, when)],
    when,
  });
  if (!wrote(made)) throw noRoom();
  return { key, secretKey };
}

function insertWhere(db: Db, row: KeyRow, condition: SQL) {
  const values = Object.entries(getTableColumns(apiKeys)).map(([name, column]) => sql`${sql.param(row[name as keyof KeyRow], column)}`);
  return db
    .insert(apiKeys)
    .select(sql`SELECT ${sql.join(values, sql.raw(", "))} WHERE ${condition}`)
    .returning({ id: apiKeys.id });
}
