import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { dayMs } from "../../../src/lib/time/clock.ts";
import { call, makeKey, makeTenant } from "../support/client.ts";
import { updateKeyRow } from "../support/key-rows.ts";
import { operate } from "../support/operate.ts";
import { makePerson } from "../support/people.ts";

/** Adds 1,000 expired copies of a key. The `expires_at` of the copies is 1. */
const insertExpiredKeys = (keyId: string) =>
  env.DB.prepare(
    `INSERT INTO api_keys (id, account_id, name, last4, secret_hash, scopes, state, hourly_limit, allowed_ips, expires_at,
        version, pushed_version, revision, created_at, updated_at)
      WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 1000)
      SELECT id || n, account_id, name, last4, secret_hash, scopes, state, hourly_limit, allowed_ips, 1, 1, 1, revision, 1, 1
        FROM api_keys, counted WHERE id = ?`,
  )
    .bind(keyId)
    .run();

/** Sets a member as the creator of all expired keys of an account. Skips the key `exceptKeyId`. */
const setCreatorOfExpiredKeys = (accountId: string, memberId: string, exceptKeyId: string) =>
  env.DB.prepare("UPDATE api_keys SET created_by_type = 'member', created_by_id = ? WHERE account_id = ? AND expires_at = 1 AND id <> ?")
    .bind(memberId, accountId, exceptKeyId)
    .run();

/** Gives a new version to all expired keys of an account. Skips the key `exceptKeyId`. Does not push the new versions to the guards. */
const markExpiredKeysUnpushed = (accountId: string, exceptKeyId: string) =>
  env.DB.prepare("UPDATE api_keys SET version = 2 WHERE account_id = ? AND expires_at = 1 AND id <> ?").bind(accountId, exceptKeyId).run();

const markExpiredKeysPushed = (accountId: string) =>
  env.DB.prepare("UPDATE api_keys SET pushed_version = version WHERE account_id = ? AND expires_at = 1").bind(accountId).run();

/** Counts the keys of an account that were changed after their creation. */
const countChangedKeys = (accountId: string) =>
  env.DB.prepare("SELECT count(*) AS count FROM api_keys WHERE account_id = ? AND version > 1").bind(accountId).first<number>("count");

describe("An expired key", () => {
  it("is skipped by a removal that does not tick it, a suspension and a lower ceiling, and gets a later expiry only within the ceiling", async () => {
    const { accountId, keyId } = await makeTenant();
    const { keyId: expiredKeyId, key: expiredKey } = await makeKey(accountId);
    await updateKeyRow(expiredKeyId, { expires_at: 1 });
    await insertExpiredKeys(keyId);
    const owner = await makePerson(accountId);
    const creator = await makePerson(accountId, "admin");
    await setCreatorOfExpiredKeys(accountId, creator.member.id, expiredKeyId);
    expect((await owner.post(`/settings/members/${creator.member.id}/remove`)).status).toBe(303);
    expect(await countChangedKeys(accountId)).toBe(0);
    // Some changes of keys are not yet pushed to the guards. A suspension of the account pushes these changes one by one. The suspension
    // must skip expired keys.
    await markExpiredKeysUnpushed(accountId, expiredKeyId);
    expect((await operate("POST", `/accounts/${accountId}/suspend`)).body.keys).toBe(1);
    expect((await operate("POST", `/accounts/${accountId}/resume`)).body.keys).toBe(1);
    await markExpiredKeysPushed(accountId);
    expect((await operate("PATCH", `/accounts/${accountId}`, { limit_ceiling: 100 })).body.lowered).toEqual([keyId]);
    const setLaterExpiry = (fields: Record<string, string>) =>
      owner.post(`/keys/${expiredKeyId}`, { expires_at: new Date(Date.now() + dayMs).toISOString().slice(0, 16), ...fields });
    const denied = await setLaterExpiry({});
    expect([denied.status, denied.text.includes("Must be at most 100")]).toEqual([422, true]);
    expect((await setLaterExpiry({ hourly_limit: "100" })).status).toBe(303);
    const { status, headers } = await call("GET", "/api/v1/me", { key: expiredKey });
    expect([status, headers.get("X-RateLimit-Limit")]).toEqual([200, "100"]);
  });
});
