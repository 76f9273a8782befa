import { sql } from "drizzle-orm";
import type { NamedSecrets } from "../crypto/secrets.ts";
import type { Db } from "../db/client.ts";

// Which secret of the Worker has made what is in use: so that one is taken away only when nothing needs it.

/** One secret of the Worker, by its name. `isNewest`: it makes what is new. `isThere`: the Worker has it. `used`: by how many keys or webhooks. */
export interface SecretUse {
  name: string;
  isNewest: boolean;
  isThere: boolean;
  used: number;
}

/** Which secrets sign keys that are not revoked, and former secrets within their overlap. `unknown`: keys from before that was noted. */
export async function countSignedKeys(db: Db, secrets: NamedSecrets, now: number): Promise<{ secrets: SecretUse[]; unknown: number }> {
  const rows = await db.all<{ name: string | null; used: number }>(
    sql`SELECT name, count(*) AS used FROM (
      SELECT signed_by AS name FROM api_keys WHERE state <> 'revoked'
      UNION ALL SELECT previous_signed_by FROM api_keys WHERE state <> 'revoked' AND previous_secret_hash IS NOT NULL AND overlap_ends_at > ${now}
    ) GROUP BY name`,
  );
  return { secrets: usesOf(secrets, rows), unknown: rows.find(({ name }) => name === null)?.used ?? 0 };
}

/** Which secrets seal those of webhooks. */
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
