import { abortAllDurableObjects, evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import type { StoredWindows } from "../../../src/guard/window.ts";
import { hourMs, hourStart, secondMs } from "../../../src/lib/time/clock.ts";
import { admit } from "../support/admissions.ts";
import { type Answer, call, makeKey, makeTenant } from "../support/client.ts";

const getMe = (key: string) => call("GET", "/api/v1/me", { key });
const getMeTimes = (key: string, count: number): Promise<Answer[]> => Promise.all(Array.from({ length: count }, () => getMe(key)));
const readUsed = async (key: string) => (await call("GET", "/api/v1/rate-limit", { key })).body.policies[0].used as number;
const countAdmitted = (responses: readonly Answer[]) => responses.filter(({ status }) => status === 200).length;

describe("The hourly limit of an API key", () => {
  it("admits exactly 50 of 80 concurrent requests if the limit is 50, and the other 30 get 429", async () => {
    const { key } = await makeTenant({ hourlyLimit: 50 });
    const responses = await getMeTimes(key, 80);
    const admitted = responses.filter(({ status }) => status === 200);
    const denied = responses.filter(({ status }) => status === 429);
    expect([admitted.length, denied.length]).toEqual([50, 30]);
    expect(denied.every(({ headers }) => Number(headers.get("Retry-After")) >= 1)).toBe(true);
    const counts = admitted.map(({ headers }) => Number(headers.get("X-RateLimit-Used")));
    expect(counts.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 50 }, (_, index) => index + 1));
  });

  it("is the same in every header and in the body", async () => {
    const { key } = await makeTenant({ hourlyLimit: 10 });
    const { headers, body } = await getMe(key);
    const reset = Number(headers.get("X-RateLimit-Reset"));
    expect(headers.get("RateLimit-Policy")).toBe('"hour";q=10;w=3600');
    expect(headers.get("RateLimit")).toMatch(/^"hour";r=9;t=\d+$/);
    expect(["Limit", "Remaining", "Used"].map((name) => headers.get(`X-RateLimit-${name}`))).toEqual(["10", "9", "1"]);
    expect(reset % 3600).toBe(0);
    expect(body.rate_limit).toEqual({ limit: 10, used: 1, remaining: 9, resets_at: new Date(reset * 1000).toISOString() });
  });

  it("does not count denied requests or GET /rate-limit, which works when the limit is reached", async () => {
    const { key } = await makeTenant({ hourlyLimit: 2, scopes: ["tasks:read"] });
    expect((await call("GET", "/api/v1/users", { key })).status).toBe(403);
    expect(await readUsed(key)).toBe(0);
    await getMeTimes(key, 5);
    const rateLimit = await call("GET", "/api/v1/rate-limit", { key });
    expect(rateLimit.body.policies).toEqual([
      { name: "hour", limit: 2, used: 2, remaining: 0, percent: 100, resets_at: expect.any(String) },
    ]);
  });

  it("does not count requests of a disabled key or with a replaced secret", async () => {
    const tenant = await makeTenant();
    const { key, keyId } = await makeKey(tenant.accountId, {});
    const setStatus = (status: string) => call("PATCH", `/api/v1/keys/${keyId}`, { key: tenant.key, body: { status } });
    await getMe(key);
    await setStatus("disabled");
    expect((await getMeTimes(key, 10)).map(({ status }) => status)).toEqual(Array(10).fill(401));
    await setStatus("active");
    expect(await readUsed(key)).toBe(1);
    const rotated = await call("POST", `/api/v1/keys/${keyId}/rotate`, { key: tenant.key, body: { overlap_seconds: 0 } });
    expect((await getMe(key)).status).toBe(401);
    expect(await readUsed(rotated.body.secret_key)).toBe(1);
  });

  it("counts every admitted request, including those that fail", async () => {
    const { key } = await makeTenant();
    const statuses = [
      await call("GET", "/api/v1/users/usr_nobody", { key }),
      await call("GET", "/api/v1/no/such/path", { key }),
      await call("PUT", "/api/v1/users", { key }),
      await call("POST", "/api/v1/tasks", { key, body: "{" }),
      await call("POST", "/api/v1/tasks", { key, body: {} }),
    ].map(({ status }) => status);
    expect(statuses).toEqual([404, 404, 405, 400, 422]);
    expect(await readUsed(key)).toBe(5);
  });

  it("is not exceeded after a crash of the guard, which wastes at most 63 requests", async () => {
    const { key } = await makeTenant({ hourlyLimit: 200 });
    let admitted = countAdmitted(await getMeTimes(key, 100));
    expect(admitted).toBe(100);
    await abortAllDurableObjects();
    expect(await readUsed(key)).toBeGreaterThanOrEqual(100);
    admitted += countAdmitted(await getMeTimes(key, 150));
    expect(admitted).toBeLessThanOrEqual(200);
    expect(admitted).toBeGreaterThanOrEqual(200 - 63);
  });

  it("gets back the unused part of a reservation after five seconds without a request", async () => {
    const tenant = await makeTenant({ hourlyLimit: 100 });
    const guard = env.KEY_GUARD.getByName(tenant.keyId);
    const readReserved = () => runInDurableObject(guard, (_, state) => state.storage.kv.get<StoredWindows>("window")?.fixed[0]?.[2]);
    await Promise.all(Array.from({ length: 10 }, () => admit(tenant)));
    expect(await readReserved()).toBeGreaterThan(10);
    // If the key had a request in the last five seconds, the guard schedules the alarm again.
    await runDurableObjectAlarm(guard);
    expect(await readReserved()).toBeGreaterThan(10);
    expect(await runInDurableObject(guard, (_, state) => state.storage.getAlarm())).not.toBeNull();
    try {
      vi.setSystemTime(Date.now() + 5 * secondMs);
      await runDurableObjectAlarm(guard);
    } finally {
      vi.useRealTimers();
    }
    expect(await readReserved()).toBe(10);
    await evictDurableObject(guard);
    expect(await readUsed(tenant.key)).toBe(10);
  });

  it("reserves one request at a time and needs no alarm, if its requests are more than five seconds apart", async () => {
    const tenant = await makeTenant({ hourlyLimit: 100 });
    const guard = env.KEY_GUARD.getByName(tenant.keyId);
    // The requests are in one hour.
    const start = hourStart(Date.now()) + hourMs;
    try {
      for (let count = 1; count <= 5; count++) {
        vi.setSystemTime(start + 6 * secondMs * count);
        await admit(tenant);
        expect(await runInDurableObject(guard, (_, { storage }) => storage.kv.get("window"))).toMatchObject({
          fixed: [["hour", start, count]],
        });
      }
      expect(await runInDurableObject(guard, (_, { storage }) => storage.getAlarm())).toBeNull();
    } finally {
      vi.useRealTimers();
    }
  });

  it("loses nothing when the guard is evicted after every request, because a single request reserves only itself", async () => {
    const { key, keyId } = await makeTenant({ hourlyLimit: 3 });
    for (let count = 1; count <= 3; count++) {
      expect((await getMe(key)).headers.get("X-RateLimit-Used")).toBe(String(count));
      await evictDurableObject(env.KEY_GUARD.getByName(keyId));
    }
    expect((await getMe(key)).status).toBe(429);
  });

  it("can be raised and lowered with immediate effect in the isolate that makes the change", async () => {
    const { key, keyId, accountId } = await makeTenant({ hourlyLimit: 5000 });
    const { key: limited, keyId: limitedId } = await makeKey(accountId, { hourlyLimit: 5 });
    await getMeTimes(limited, 5);
    expect((await getMe(limited)).status).toBe(429);
    await call("PATCH", `/api/v1/keys/${limitedId}`, { key, body: { hourly_limit: 8 } });
    const raised = await getMe(limited);
    expect([raised.status, raised.headers.get("X-RateLimit-Used")]).toEqual([200, "6"]);
    await call("PATCH", `/api/v1/keys/${limitedId}`, { key, body: { hourly_limit: 3 } });
    expect((await getMe(limited)).status).toBe(429);
    expect(keyId).not.toBe(limitedId);
  });
});
