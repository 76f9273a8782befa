import { type SQL, sql } from "drizzle-orm";
import type { Db } from "../db/client.ts";
import { webhooks } from "../db/schema-main.ts";
import type { NamedSecrets } from "../secrets.ts";
import { seal, unseal } from "../webhooks/sealing.ts";

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
export async function countSealedWebhooks(db: Db, secrets: NamedSecrets, now: number): Promise<SecretUse[]> {
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

const webhooksAtOnce = 200;

/**
 * Seals the secrets of some webhooks anew that are not sealed with the newest secret of the Worker. Former secrets whose overlap has ended go. What
 * was sealed with a secret that the Worker no longer has is left. Answers how many, and whether there are more.
 */
export async function resealWebhooks(db: Db, secrets: NamedSecrets, now: number): Promise<{ resealed: number; hasMore: boolean }> {
  const older = JSON.stringify(secrets.slice(1).map(({ name }) => name));
  const isOlder = (column: SQL) => sql`substr(${column}, 1, 1) IN (SELECT value FROM json_each(${older}))`;
  const found = await db
    .select()
    .from(webhooks)
    .where(sql`${isOlder(sql`sealed_secret`)} OR ${isOlder(sql`previous_sealed_secret`)}`)
    .limit(webhooksAtOnce);
  let resealed = 0;
  for (const { id, sealedSecret, previousSealedSecret, overlapEndsAt } of found) {
    const isOverlapping = overlapEndsAt !== null && now < overlapEndsAt;
    const current = await sealedAnew(sealedSecret, id, secrets);
    const previous = isOverlapping && previousSealedSecret ? await sealedAnew(previousSealedSecret, id, secrets) : null;
    // Where it was rotated meanwhile, it is looked at again.
    const changed = await db.all(
      sql`UPDATE webhooks SET sealed_secret = ${current}, previous_sealed_secret = ${previous}
        WHERE id = ${id} AND sealed_secret = ${sealedSecret} AND previous_sealed_secret IS ${previousSealedSecret} RETURNING 1`,
    );
    resealed += changed.length;
  }
  return { resealed, hasMore: found.length === webhooksAtOnce || resealed < found.length };
}

async function sealedAnew(sealed: string, owner: string, secrets: NamedSecrets): Promise<string> {
  const name = sealed.slice(0, 1);
  return secrets.slice(1).some((older) => older.name === name) ? seal(await unseal(sealed, owner, secrets), owner, secrets) : sealed;
}
