import { abortAllDurableObjects, evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { askAdmission } from "../../../src/admission/guards.ts";
import { hashOf } from "../../../src/crypto/hash.ts";
import { hourMs, hourStart } from "../../../src/time/clock.ts";
import { makeTenant, type Tenant } from "../support/client.ts";

const admit = ({ keyId, key }: Tenant, times: number) =>
  Promise.all(
    Array.from({ length: times }, () =>
      askAdmission(env.KEY_GUARD, keyId, { secretHash: hashOf(key), ip: "198.51.100.1", scope: null, counted: true }),
    ),
  );
const eventsOf = async ({ accountId, keyId }: Tenant) => {
  await runDurableObjectAlarm(env.KEY_GUARD.getByName(keyId));
  const { results } = await env.DB.prepare(
    "SELECT id, type, data FROM events WHERE account_id = ? AND type LIKE 'rate_limit.%' ORDER BY created_at, type DESC",
  )
    .bind(accountId)
    .all<{
      id: string;
      type: string;
      data: string;
    }>();
  return results;
};
const typesOf = async (tenant: Tenant) => (await eventsOf(tenant)).map(({ type }) => type);

it("A limit tells once at 80 % and once at 100 %", async () => {
  const tenant = await makeTenant({ hourlyLimit: 10 });
  await admit(tenant, 7);
  expect(await typesOf(tenant)).toEqual([]);
  await admit(tenant, 2);
  const [warning] = await eventsOf(tenant);
  expect(warning?.id).toMatch(/^evt_[0-9a-f]{32}$/);
  expect([warning?.type, JSON.parse(warning?.data ?? "{}")]).toEqual([
    "rate_limit.warning",
    { key_id: tenant.keyId, key_name: "Test key", used: 8, limit: 10, resets_at: new Date(hourStart(Date.now()) + hourMs).toISOString() },
  ]);
  await admit(tenant, 20);
  expect(await typesOf(tenant)).toEqual(["rate_limit.warning", "rate_limit.reached"]);
});

it("A limit tells nothing twice, though the object dies or sleeps in between", async () => {
  const tenant = await makeTenant({ hourlyLimit: 10 });
  await admit(tenant, 8);
  await abortAllDurableObjects();
  await admit(tenant, 1);
  await evictDurableObject(env.KEY_GUARD.getByName(tenant.keyId));
  await admit(tenant, 5);
  await abortAllDurableObjects();
  await admit(tenant, 5);
  expect(await typesOf(tenant)).toEqual(["rate_limit.warning", "rate_limit.reached"]);
});

it("A limit tells again in the next hour", async () => {
  const tenant = await makeTenant({ hourlyLimit: 5 });
  await admit(tenant, 5);
  try {
    vi.setSystemTime(hourStart(Date.now()) + hourMs);
    await admit(tenant, 5);
    expect((await typesOf(tenant)).toSorted()).toEqual([
      "rate_limit.reached",
      "rate_limit.reached",
      "rate_limit.warning",
      "rate_limit.warning",
    ]);
  } finally {
    vi.useRealTimers();
  }
});
