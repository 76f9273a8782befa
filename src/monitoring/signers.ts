import { type SQL, sql } from "drizzle-orm";
import type { Db } from "../db/client.ts";
import { namesByAge } from "../lib/crypto/secrets.ts";

// For each secret of the Worker, counts the keys or webhooks that need the secret. An operator must not remove a secret that is still needed.

const signingNames = (env: object) => namesByAge(env, "KEY_SIGNING_SECRETS");
const encryptionNames = (env: object) => namesByAge(env, "WEBHOOK_ENCRYPTION_SECRETS");

/**
 * A secret that signs keys or encrypts webhook secrets. `isNewest`: whether new keys or webhooks use the secret. `isThere`: whether the Worker
 * still has the secret. `used`: the number of keys or webhooks that need the secret.
 */
export interface SecretUse {
  name: string;
  isNewest: boolean;
  isThere: boolean;
  used: number;
}

/**
 * For each signing secret, counts the key secrets that the signing secret signed. Revoked keys are not counted, and neither are imported secrets, whose hashes
 * have a colon. After a rotation, the previous key secret is counted until the overlap ends. `unknown`: the number of keys whose signing secret is not known,
 * because D1 was restored to an earlier time.
 */
export async function countSignedKeys(db: Db, env: object, now: number): Promise<{ secrets: SecretUse[]; unknown: number }> {
  const rows = await db.all<{ name: string | null; used: number }>(
    sql`SELECT name, count(*) AS used FROM (
      SELECT signed_by AS name FROM api_keys WHERE state <> 'revoked' AND secret_hash NOT LIKE '%:%'
      UNION ALL SELECT previous_signed_by FROM api_keys WHERE state <> 'revoked' AND previous_secret_hash NOT LIKE '%:%' AND overlap_ends_at > ${now}
    ) GROUP BY name`,
  );
  return { secrets: usesOf(signingNames(env), rows), unknown: rows.find(({ name }) => name === null)?.used ?? 0 };
}

/** For each encryption secret, counts the webhook secrets that are encrypted with it. */
export async function countEncryptedWebhooks(db: Db, env: object, now: number): Promise<SecretUse[]> {
  const rows = await db.all<{ name: string; used: number }>(
    sql`SELECT name, count(*) AS used FROM (
      SELECT substr(encrypted_secret, 1, 1) AS name FROM webhooks
      UNION ALL SELECT substr(previous_encrypted_secret, 1, 1) FROM webhooks WHERE previous_encrypted_secret IS NOT NULL AND overlap_ends_at > ${now}
    ) GROUP BY name`,
  );
  return usesOf(encryptionNames(env), rows);
}

/** A key or a webhook that needs a secret. */
export interface Needing {
  id: string;
  accountId: string;
}

/**
 * Returns keys and webhooks that need a secret that the Worker does not have, at most `limit`. Keys whose secret nobody knows are left
 * out.
 */
export async function findNeedingLost(db: Db, env: object, { now, limit }: { now: number; limit: number }): Promise<Needing[]> {
  const [signing, encryption] = [signingNames(env), encryptionNames(env)];
  const isLost = (name: SQL, there: readonly string[]) => sql`${name} NOT IN (SELECT value FROM json_each(${JSON.stringify(there)}))`;
  return db.all<Needing>(
    sql`SELECT id, account_id AS accountId FROM api_keys WHERE state <> 'revoked' AND (${isLost(sql`signed_by`, signing)}
        OR (previous_secret_hash IS NOT NULL AND overlap_ends_at > ${now} AND ${isLost(sql`previous_signed_by`, signing)}))
      UNION ALL SELECT id, account_id FROM webhooks WHERE ${isLost(sql`substr(encrypted_secret, 1, 1)`, encryption)}
        OR (previous_encrypted_secret IS NOT NULL AND overlap_ends_at > ${now} AND ${isLost(sql`substr(previous_encrypted_secret, 1, 1)`, encryption)})
      LIMIT ${limit}`,
  );
}

/** `there`: the names of the secrets of the Worker, the newest first. */
function usesOf(there: readonly string[], rows: readonly { name: string | null; used: number }[]): SecretUse[] {
  const names = new Set([...there, ...rows.flatMap(({ name }) => name ?? [])]);
  return [...names].map((name) => ({
    name,
    isNewest: name === there[0],
    isThere: there.includes(name),
    used: rows.find((row) => row.name === name)?.used ?? 0,
  }));
}
