import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import type { StoredWindows } from "../../../src/guard/window.ts";
import { secondMs } from "../../../src/lib/time/clock.ts";
import { admit } from "../support/admissions.ts";
import { type Answer, call, makeTenant } from "../support/client.ts";

const getMe = (key: string) => call("GET", "/api/v1/me", { key });
const getMeTimes = (key: string, count: number): Promise<Answer[]> => Promise.all(Array.from({ length: count }, () => getMe(key)));
const readUsed = async (key: string) => (await call("GET", "/api/v1/rate-limit", { key })).body.policies[0].used as number;

describe("The hourly limit of an API key", () => {
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
});
