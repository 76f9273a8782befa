import { abortAllDurableObjects, evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { hourMs, hourStart } from "../../../src/lib/time/clock.ts";
import { admit } from "../support/admissions.ts";
import { call, makeKey, makeTenant, type Tenant } from "../support/client.ts";
import { register, verifyRequest, waitForRequests } from "../support/receiver.ts";
import { readEventRows } from "../support/webhook-rows.ts";

const admitTimes = (tenant: Tenant, count: number) => Promise.all(Array.from({ length: count }, () => admit(tenant)));

/** Runs the guard's alarm. The alarm writes events to D1. Returns the account's events about rate limits, oldest first. */
async function readLimitEvents({ accountId, keyId }: Tenant) {
  await runDurableObjectAlarm(env.KEY_GUARD.getByName(keyId));
  const events = (await readEventRows(accountId)) as { id: string; type: string; data: string; created_at: number }[];
  return events
    .filter(({ type }) => type.startsWith("rate_limit."))
    .toSorted((a, b) => a.created_at - b.created_at || b.type.localeCompare(a.type));
}

const readLimitEventTypes = async (tenant: Tenant) => (await readLimitEvents(tenant)).map(({ type }) => type);

it("An API key gets one warning event at 80 % of its limit and one event at 100 %", async () => {
  const tenant = await makeTenant({ hourlyLimit: 10 });
  await admitTimes(tenant, 7);
  expect(await readLimitEventTypes(tenant)).toEqual([]);
  await admitTimes(tenant, 2);
  const [warning] = await readLimitEvents(tenant);
  expect(warning?.id).toMatch(/^evt_[0-9a-f]{32}$/);
  expect([warning?.type, JSON.parse(warning?.data ?? "{}")]).toEqual([
    "rate_limit.warning",
    {
      key_id: tenant.keyId,
      key_name: "Test key",
      per: "hour",
      used: 8,
      limit: 10,
      resets_at: new Date(hourStart(Date.now()) + hourMs).toISOString(),
    },
  ]);
  await admitTimes(tenant, 20);
  expect(await readLimitEventTypes(tenant)).toEqual(["rate_limit.warning", "rate_limit.reached"]);
});

it("An API key gets no limit event twice when its guard crashes or is evicted", async () => {
  const tenant = await makeTenant({ hourlyLimit: 10 });
  await admitTimes(tenant, 8);
  await abortAllDurableObjects();
  await admitTimes(tenant, 1);
  await evictDurableObject(env.KEY_GUARD.getByName(tenant.keyId));
  await admitTimes(tenant, 5);
  await abortAllDurableObjects();
  await admitTimes(tenant, 5);
  expect(await readLimitEventTypes(tenant)).toEqual(["rate_limit.warning", "rate_limit.reached"]);
});

it("An API key gets its limit events again in the next hour", async () => {
  const tenant = await makeTenant({ hourlyLimit: 5 });
  await admitTimes(tenant, 5);
  try {
    vi.setSystemTime(hourStart(Date.now()) + hourMs);
    await admitTimes(tenant, 5);
    expect(await readLimitEventTypes(tenant)).toEqual([
      "rate_limit.warning",
      "rate_limit.reached",
      "rate_limit.warning",
      "rate_limit.reached",
    ]);
  } finally {
    vi.useRealTimers();
  }
});

it("The service delivers rate limit events without waiting for the sweep", async () => {
  const { key, accountId } = await makeTenant();
  const { path, secret } = await register(key, { event_types: ["rate_limit.warning", "rate_limit.reached"] });
  const small = await makeKey(accountId, { hourlyLimit: 5 });
  for (let used = 0; used < 6; used++) await call("GET", "/api/v1/me", { key: small.key });
  const requests = await waitForRequests(path, 2);
  const events = requests.map((request) => verifyRequest(secret, request));
  expect(events.toSorted((a, b) => String(b.type).localeCompare(String(a.type)))).toMatchObject([
    { type: "rate_limit.warning", data: { key_id: small.keyId, used: 4, limit: 5 } },
    { type: "rate_limit.reached", data: { key_id: small.keyId, used: 5, limit: 5 } },
  ]);
});
