import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { dayMs, minuteMs } from "../../../src/lib/time/clock.ts";
import { call, cron, makeKey, makeTenant } from "../support/client.ts";
import { revokeOtherKeyRows } from "../support/key-rows.ts";

/** Inserts `count` copies of a key. The copies expire at `expiresAt`. */
const insertExpiringCopies = (keyId: string, count: number, expiresAt: number) =>
  env.DB.prepare(
    `INSERT INTO api_keys
        (id, account_id, name, last4, secret_hash, scopes, state, hourly_limit, allowed_ips, expires_at, version, pushed_version, revision,
          created_at, updated_at)
    WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ?)
    SELECT id || n, account_id, name, last4, secret_hash, scopes, state, hourly_limit, allowed_ips, ?, 1, 1, revision, 1, 1
    FROM api_keys, counted WHERE id = ?`,
  )
    .bind(count, expiresAt, keyId)
    .run();

it("The service creates one event per expiry for a key that expires within seven days", async () => {
  const { key, accountId } = await makeTenant();
  const in8Days = Date.now() + 8 * dayMs;
  const { keyId } = await makeKey(accountId, { expiresAt: in8Days });
  const expiring = async () => (await call("GET", "/api/v1/events?type=key.expiring&order=asc", { key })).body.data;
  await cron();
  expect(await expiring()).toEqual([]);
  for (let minute = 0; minute < 3; minute++) await cron(Date.now() + dayMs + (minute + 1) * minuteMs);
  expect(await expiring()).toMatchObject([{ data: { id: keyId, expires_at: new Date(in8Days).toISOString() } }]);
  await call("PATCH", `/api/v1/keys/${keyId}`, { key, body: { expires_at: new Date(in8Days + dayMs).toISOString() } });
  await cron(Date.now() + 3 * dayMs);
  expect(await expiring()).toHaveLength(2);
});

it("The service creates events of expiring keys for all accounts in turn, so that no account waits for another", async () => {
  const [many, few] = [await makeTenant(), await makeTenant()];
  const tomorrow = Date.now() + dayMs;
  await insertExpiringCopies(many.keyId, 300, tomorrow);
  const { keyId } = await makeKey(few.accountId, { expiresAt: tomorrow + dayMs });
  await cron();
  const { data } = (await call("GET", "/api/v1/events?type=key.expiring", { key: few.key })).body;
  expect(data).toMatchObject([{ data: { id: keyId } }]);
  await revokeOtherKeyRows(many.accountId, many.keyId);
});
