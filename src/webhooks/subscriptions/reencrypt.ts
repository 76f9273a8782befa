import { type SQL, sql } from "drizzle-orm";
import { webhooks } from "../../db/areas/webhooks/tables.ts";
import type { Db } from "../../db/client.ts";
import type { NamedSecrets } from "../../lib/crypto/secrets.ts";
import { decrypt, encrypt } from "./encryption.ts";

const webhooksAtOnce = 200;

/**
 * Re-encrypts webhook secrets that were encrypted with an older secret of the Worker. Processes up to 200 webhooks. If the rotation overlap
 * of a webhook has ended, the webhook's previous secret is deleted. If the Worker no longer has the secret that encrypted a webhook secret,
 * this webhook secret is skipped, and so is one that is damaged. Returns the number of updated webhooks, and whether more webhooks may be left.
 */
export async function reencryptWebhooks(db: Db, secrets: NamedSecrets, now: number): Promise<{ count: number; hasMore: boolean }> {
  const older = JSON.stringify(secrets.slice(1).map(({ name }) => name));
  const isOlder = (column: SQL) => sql`substr(${column}, 1, 1) IN (SELECT value FROM json_each(${older}))`;
  const found = await db
    .select()
    .from(webhooks)
    .where(sql`${isOlder(sql`encrypted_secret`)} OR ${isOlder(sql`previous_encrypted_secret`)}`)
    .limit(webhooksAtOnce);
  let [count, damaged] = [0, 0];
  for (const { id, encryptedSecret, previousEncryptedSecret, overlapEndsAt } of found) {
    const isOverlapping = overlapEndsAt !== null && now < overlapEndsAt;
    const both = [encryptedSecret, isOverlapping ? previousEncryptedSecret : null];
    const read = await Promise.all(both.map((each) => each && reencrypted(each, id, secrets))).catch(() => null);
    if (read === null) {
      console.error(`the secret of the webhook ${id} is damaged, and cannot be encrypted again`);
      damaged++;
      continue;
    }
    const [current, previous] = read;
    // If the webhook's secret was rotated after it was read, the UPDATE changes nothing. The next call then processes the webhook again.
    const changed = await db.all(
      sql`UPDATE webhooks SET encrypted_secret = ${current}, previous_encrypted_secret = ${previous}
        WHERE id = ${id} AND encrypted_secret = ${encryptedSecret} AND previous_encrypted_secret IS ${previousEncryptedSecret} RETURNING 1`,
    );
    count += changed.length;
  }
  return { count, hasMore: (found.length === webhooksAtOnce && count > 0) || count + damaged < found.length };
}

async function reencrypted(encrypted: string, owner: string, secrets: NamedSecrets): Promise<string> {
  const name = encrypted.slice(0, 1);
  return secrets.slice(1).some((older) => older.name === name)
    ? encrypt(await decrypt(encrypted, owner, secrets), owner, secrets)
    : encrypted;
}
