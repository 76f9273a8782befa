import { abortAllDurableObjects, evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { call, makeKey, makeTenant } from "../support/client.ts";

const times = (n: number, ask: () => Promise<unknown>) => Promise.all(Array.from({ length: n }, ask));
const me = (key: string) => call("GET", "/api/v1/me", { key });
const used = async (key: string) => (await call("GET", "/api/v1/rate-limit", { key })).body.policies[0].used as number;

describe("The limit of a key", () => {
  it("is exact: of 80 requests at once on a limit of 50, 50 get their own answer and 30 get 429", async () => {
    const { key } = await makeTenant({ hourlyLimit: 50 });
    const answers = (await times(80, () => me(key))) as Awaited<ReturnType<typeof me>>[];
    const admitted = answers.filter(({ status }) => status === 200);
    const refused = answers.filter(({ status }) => status === 429);
    expect([admitted.length, refused.length]).toEqual([50, 30]);
    expect(refused.every(({ headers }) => Number(headers.get("Retry-After")) >= 1)).toBe(true);
    const counts = admitted.map(({ headers }) => Number(headers.get("X-RateLimit-Used")));
    expect(counts.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 50 }, (_, index) => index + 1));
  });

  it("says the same in every header", async () => {
    const { key } = await makeTenant({ hourlyLimit: 10 });
    const { headers, body } = await me(key);
    const reset = Number(headers.get("X-RateLimit-Reset"));
    expect(headers.get("RateLimit-Policy")).toBe('"hour";q=10;w=3600');
    expect(headers.get("RateLimit")).toMatch(/^"hour";r=9;t=\d+$/);
    expect(["Limit", "Remaining", "Used"].map((name) => headers.get(`X-RateLimit-${name}`))).toEqual(["10", "9", "1"]);
    expect(reset % 3600).toBe(0);
    expect(body.rate_limit).toEqual({ limit: 10, used: 1, remaining: 9, resets_at: new Date(reset * 1000).toISOString() });
  });

  it("does not count refusals, nor a look at the limit, which is answered when it is reached", async () => {
    const { key } = await makeTenant({ hourlyLimit: 2, scopes: ["tasks:read"] });
    expect((await call("GET", "/api/v1/users", { key })).status).toBe(403);
    expect(await used(key)).toBe(0);
    await times(5, () => me(key));
    const look = await call("GET", "/api/v1/rate-limit", { key });
    expect(look.body.policies).toEqual([{ name: "hour", limit: 2, used: 2, remaining: 0, percent: 100, resets_at: expect.any(String) }]);
  });

  it("does not count the requests of a key while it is disabled, nor those with a secret that has been replaced", async () => {
    const tenant = await makeTenant();
    const { key, keyId } = await makeKey(tenant.accountId, {});
    const change = (status: string) => call("PATCH", `/api/v1/keys/${keyId}`, { key: tenant.key, body: { status } });
    await me(key);
    await change("disabled");
    expect(((await times(10, () => me(key))) as Awaited<ReturnType<typeof me>>[]).map(({ status }) => status)).toEqual(Array(10).fill(401));
    await change("active");
    expect(await used(key)).toBe(1);
    const rotated = await call("POST", `/api/v1/keys/${keyId}/rotate`, { key: tenant.key, body: { overlap_seconds: 0 } });
    expect((await me(key)).status).toBe(401);
    expect(await used(rotated.body.secret_key)).toBe(1);
  });

  it("counts every admitted request, with any response", async () => {
    const { key } = await makeTenant();
    const statuses = [
      await call("GET", "/api/v1/users/usr_nobody", { key }),
      await call("GET", "/api/v1/no/such/path", { key }),
      await call("PUT", "/api/v1/users", { key }),
      await call("POST", "/api/v1/tasks", { key, body: "{" }),
      await call("POST", "/api/v1/tasks", { key, body: {} }),
    ].map(({ status }) => status);
    expect(statuses).toEqual([404, 404, 405, 400, 422]);
    expect(await used(key)).toBe(5);
  });

  it("is not reset by a killed object: never more than the limit, and at most 63 lost", async () => {
    const { key } = await makeTenant({ hourlyLimit: 200 });
    let admitted = (await Promise.all(Array.from({ length: 100 }, () => me(key)))).filter(({ status }) => status === 200).length;
    expect(admitted).toBe(100);
    await abortAllDurableObjects();
    expect(await used(key)).toBeGreaterThanOrEqual(100);
    const rest = await Promise.all(Array.from({ length: 150 }, () => me(key)));
    admitted += rest.filter(({ status }) => status === 200).length;
    expect(admitted).toBeLessThanOrEqual(200);
    expect(admitted).toBeGreaterThanOrEqual(200 - 63);
  });

  it("is exact across a silence: what a burst had reserved and not used is given back before the object sleeps", async () => {
    const { key, keyId } = await makeTenant({ hourlyLimit: 100 });
    await times(10, () => me(key));
    const guard = env.KEY_GUARD.getByName(keyId);
    const stored = () => runInDurableObject(guard, (_, state) => state.storage.kv.get<{ reserved: number }>("window")?.reserved);
    expect(await stored()).toBeGreaterThan(10);
    // The alarm looks again while the key may still be busy, and settles after five quiet seconds.
    expect(await runInDurableObject(guard, (_, state) => state.storage.getAlarm())).not.toBeNull();
    await new Promise((resolve) => setTimeout(resolve, 5100));
    await runDurableObjectAlarm(guard);
    expect(await stored()).toBe(10);
    await evictDurableObject(guard);
    expect(await used(key)).toBe(10);
  });

  it("costs one that calls seldom nothing: a single request reserves no more than itself", async () => {
    const { key, keyId } = await makeTenant({ hourlyLimit: 3 });
    for (let count = 1; count <= 3; count++) {
      expect((await me(key)).headers.get("X-RateLimit-Used")).toBe(String(count));
      await evictDurableObject(env.KEY_GUARD.getByName(keyId));
    }
    expect((await me(key)).status).toBe(429);
  });

  it("follows a change at once, up and down, on the isolate that made it", async () => {
    const { key, keyId, accountId } = await makeTenant({ hourlyLimit: 5000 });
    const { key: limited, keyId: limitedId } = await makeKey(accountId, { hourlyLimit: 5 });
    await times(5, () => me(limited));
    expect((await me(limited)).status).toBe(429);
    await call("PATCH", `/api/v1/keys/${limitedId}`, { key, body: { hourly_limit: 8 } });
    const raised = await me(limited);
    expect([raised.status, raised.headers.get("X-RateLimit-Used")]).toEqual([200, "6"]);
    await call("PATCH", `/api/v1/keys/${limitedId}`, { key, body: { hourly_limit: 3 } });
    expect((await me(limited)).status).toBe(429);
    expect(keyId).not.toBe(limitedId);
  });
});
