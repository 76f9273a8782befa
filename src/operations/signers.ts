import { sql } from "drizzle-orm";
import type { NamedSecrets } from "../crypto/secrets.ts";
import type { Db } from "../db/client.ts";

// Counts how often each secret of the Worker is used, so that an operator removes a secret only when nothing needs it.

/**
 * A secret of the Worker. `isNewest`: whether the secret is used for new keys or webhooks. `isThere`: whether the Worker has the secret. `used`: the
 * number of keys or webhooks that need the secret.
 */
export interface SecretUse {
  name: string;
  isNewest: boolean;
  isThere: boolean;
  used: number;
}

/**
 * Counts the keys that each secret signed. Revoked keys are not counted. The previous secret of a rotated key is counted until the overlap ends.
 * `unknown`: the number of keys that were created before the service recorded the signing secret.
 */
export async function countSignedKeys(db: Db, secrets: NamedSecrets, now: number): Promise<{ secrets: SecretUse[]; unknown: number }> {
  const rows = await db.all<{ name: string | null; used: number }>(
    sql`SELECT name, count(*) AS used FROM (
      SELECT signed_by AS name FROM api_keys WHERE state <> 'revoked'
      UNION ALL SELECT previous_signed_by FROM api_keys WHERE state <> 'revoked' AND previous_secret_hash IS NOT NULL AND overlap_ends_at > ${now}
    ) GROUP BY name`,
  );
  return { secrets: usesOf(secrets, rows), unknown: rows.find(({ name }) => name === null)?.used ?? 0 };
}

/** Counts the webhook secrets that each Worker secret encrypts. */
export async function countEncryptedWebhooks(db: Db, secrets: NamedSecrets, now: number): Promise<SecretUse[]> {
  const rows = await db.all<{ name: string; used: number }>(
    sql`SELECT name, count(*) AS used FROM (
      SELECT substr(sealed_secret, 1, 1) AS name FROM webhooks
      UNION ALL SELECT substr(previous_sealed_secret, 1, 1) FROM webhooks WHERE previous_sealed_secret IS NOT NULL AND overlap_ends_at > ${now}
    ) GROUP BY name`,
  );
  return usesOf(secrets, rows);
}

function usesOf(secrets: NamedSecrets, rows: readonly { name: string | null; used: number }[]): SecretUse[] {
  const names = new Set([...secrets.map(({ name }) => name), ...rows.flatMap(({ name }) => name ?? [])]);
  return [...names].map((name) => ({
    name,
    isNewest: name === secrets[0].name,
    isThere: secrets.some((secret) => secret.name === name),
    used: rows.find((row) => row.name === name)?.used ?? 0,
  }));
}
