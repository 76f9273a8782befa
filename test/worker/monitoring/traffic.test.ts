import { env } from "cloudflare:workers";
import { describe, expect, inject, it } from "vitest";
import { connect } from "../../../src/db/client.ts";
import { secondMs } from "../../../src/lib/time/clock.ts";
import { readTraffic } from "../../../src/monitoring/traffic.ts";
import { makeTenant, type Tenant } from "../support/client.ts";
import { batchOf, entryOf } from "../support/entries.ts";
import { operate } from "../support/operate.ts";

const logWriter = "ACTIVITY_0/400";
const writer = env.ACTIVITY_WRITER.getByName(logWriter);

async function trafficOf({ accountId }: Tenant, now: number) {
  const { accounts, unknown } = await readTraffic({ db: connect(env.DB), env }, now);
  return { ...accounts.find(({ id }) => id === accountId), unknown };
}

describe("The operator's traffic", () => {
  it("includes requests that are still in the log writer, and counts them once after they were stored", async () => {
    const tenant = await makeTenant({ hourlyLimit: 10 }, logWriter);
    // The entries are of one hour, even if the test runs at the start of an hour.
    const now = Date.now() + 10 * secondMs;
    const entries = [200, 200, 500, 429].map((status) =>
      entryOf(tenant, now, { status, counted: status !== 429, admitted: status !== 429 }),
    );
    const expected = { requests: 4, errors: 1, limited: 1, nearest: [{ keyId: tenant.keyId, per: "hour", percent: 30 }], unknown: [] };
    await writer.write(batchOf(entries));
    expect(await trafficOf(tenant, now)).toMatchObject(expected);
    await writer.flush(tenant.accountId);
    expect(await trafficOf(tenant, now)).toMatchObject(expected);
  });

  it("names the limit with the highest used share: of a key or of the account, per hour, day or month", async () => {
    const tenant = await makeTenant({ otherLimits: [{ per: "month", limit: 10 }] }, logWriter);
    const now = Date.now();
    // Half of the requests are stored, and half are still in the log writer.
    await writer.write(batchOf(Array.from({ length: 4 }, () => entryOf(tenant, now))));
    await writer.flush(tenant.accountId);
    await writer.write(batchOf(Array.from({ length: 5 }, () => entryOf(tenant, now))));
    expect(await trafficOf(tenant, now)).toMatchObject({ nearest: [{ keyId: tenant.keyId, per: "month", percent: 90 }] });
    const shared = JSON.stringify([{ per: "day", limit: 1 }]);
    await env.DB.prepare("UPDATE accounts SET shared_limits = ? WHERE id = ?").bind(shared, tenant.accountId).run();
    expect(await trafficOf(tenant, now)).toMatchObject({
      nearest: [
        { keyId: null, per: "day", percent: 900 },
        { keyId: tenant.keyId, per: "month", percent: 90 },
      ],
    });
    const { body } = await operate("GET", "/status");
    const ofTenant = { account_id: tenant.accountId, name: "Tenant" };
    expect(body.near_limits).toContainEqual({ ...ofTenant, key_id: null, limit: "day", used_percent: 900 });
    expect(body.near_limits_found).toBeGreaterThanOrEqual(body.near_limits.length);
  });

  it("counts no request twice if the log writer stores it between the two reads", async () => {
    const tenant = await makeTenant({}, logWriter);
    await writer.write(batchOf([entryOf(tenant, Date.now())]));
    const storing = {
      openRollupsOf: async (ids: string[]) => {
        const open = await writer.openRollupsOf(ids);
        await writer.flush(tenant.accountId);
        return open;
      },
    };
    const ACTIVITY_WRITER = { ...env.ACTIVITY_WRITER, getByName: () => storing };
    const { accounts } = await readTraffic({ db: connect(env.DB), env: { ...env, ACTIVITY_WRITER } as unknown as Env }, Date.now());
    expect(accounts.find(({ id }) => id === tenant.accountId)?.requests).toBe(1);
  });

  // The tests count the statements of each invocation, and fail near Cloudflare's limits.
  it("covers 100,000 accounts within one invocation", { tags: ["long"] }, async () => {
    const count = inject("isLong") ? 100_000 : 10_000;
    const { accountId } = await makeTenant({}, logWriter);
    const table = await env.DB.prepare(
      "SELECT name FROM pragma_table_info('accounts') WHERE name NOT IN ('id', 'log_writer', 'external_id')",
    ).all();
    const others = table.results.map(({ name }) => name).join();
    try {
      await env.DB.prepare(
        `INSERT INTO accounts (id, log_writer, ${others})
          WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?2)
          SELECT 'acc_many' || n, 'ACTIVITY_0/' || (n % 32), ${others} FROM numbers, accounts WHERE id = ?1`,
      )
        .bind(accountId, count)
        .run();
      const { accounts, unknown } = await readTraffic({ db: connect(env.DB), env }, Date.now());
      expect([accounts.length > count, unknown]).toEqual([true, []]);
    } finally {
      await env.DB.prepare("DELETE FROM accounts WHERE id LIKE 'acc_many%'").run();
    }
  });
});
