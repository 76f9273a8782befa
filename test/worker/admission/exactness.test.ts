import { abortAllDurableObjects, evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, inject, it, vi } from "vitest";
import { hourMs, hourStart } from "../../../src/lib/time/clock.ts";
import { admit } from "../support/admissions.ts";
import { call, makeKey, makeTenant } from "../support/client.ts";

// These tests check the hourly limit of a key and changes to a key. The tests use real Durable Objects, many requests and crashes.

const limit = inject("isLong") ? 5000 : 500;

describe("The hourly limit of an API key", () => {
  it(`admits exactly ${limit} of ${1.2 * limit} concurrent requests, each with its own count`, {
    tags: ["long"],
    timeout: 180_000,
  }, async () => {
    const { key } = await makeTenant({ hourlyLimit: limit });
    const responses = await Promise.all(Array.from({ length: 1.2 * limit }, () => call("GET", "/api/v1/me", { key })));
    const admitted = responses.filter(({ status }) => status === 200);
    expect(admitted.length).toBe(limit);
    expect(new Set(admitted.map(({ headers }) => headers.get("X-RateLimit-Used"))).size).toBe(limit);
    expect(responses.filter(({ status }) => status === 429).length).toBe(0.2 * limit);
  });

  it("is never exceeded when the guard crashes repeatedly, and each crash wastes at most 63 requests", {
    tags: ["long"],
    timeout: 180_000,
  }, async () => {
    const tenant = await makeTenant({ hourlyLimit: limit });
    let admitted = 0;
    let failed = 0;
    let crashes = 0;
    let isExhausted = false;
    const counts = new Set<number>();
    const sendRequest = async () => {
      try {
        const admission = await admit(tenant);
        if (admission?.refusal === null) {
          admitted++;
          counts.add(admission.rateLimit.used);
        } else isExhausted = true;
      } catch {
        failed++;
      }
    };
    for (let burst = 0; !isExhausted; burst++) {
      const requests = Array.from({ length: limit / 50 }, sendRequest);
      if (burst % 4 === 3) {
        await requests[Math.floor((Math.random() * limit) / 50)];
        crashes++;
        await abortAllDurableObjects();
      }
      await Promise.all(requests);
    }
    expect(counts.size).toBe(admitted);
    expect(admitted).toBeLessThanOrEqual(limit);
    expect(admitted).toBeGreaterThanOrEqual(limit - 63 * crashes - failed);
    expect(crashes).toBeGreaterThan(inject("isLong") ? 10 : 3);
  });

  it("is exact in each of two hours although the clock steps back between them", async () => {
    const { accountId } = await makeTenant();
    const limited = await makeKey(accountId, { hourlyLimit: 20 });
    const start = hourStart(Date.now());
    const countAdmittedAt = async (timeMs: number) => {
      vi.setSystemTime(timeMs);
      const admissions = await Promise.all(Array.from({ length: 30 }, () => admit(limited)));
      return admissions.filter((admission) => admission?.refusal === null).length;
    };
    try {
      expect(await countAdmittedAt(start + hourMs - 500)).toBe(20);
      expect(await countAdmittedAt(start + hourMs)).toBe(20);
      expect(await countAdmittedAt(start + hourMs - 1)).toBe(0);
      await evictDurableObject(env.KEY_GUARD.getByName(limited.keyId));
      expect(await countAdmittedAt(start + 1000)).toBe(0);
      expect(await countAdmittedAt(start + 2 * hourMs)).toBe(20);
    } finally {
      vi.useRealTimers();
    }
  });

  it("allows a key to use its whole limit with one request every 11 seconds", async () => {
    const { accountId } = await makeTenant();
    const calls = Math.floor(3600 / 11);
    const limited = await makeKey(accountId, { hourlyLimit: calls });
    const start = hourStart(Date.now()) + hourMs;
    try {
      for (let n = 0; n < calls; n++) {
        vi.setSystemTime(start + n * 11_000);
        const admission = await admit(limited);
        expect([admission?.refusal, admission?.rateLimit.used]).toEqual([null, n + 1]);
        // Between two requests, the guard is evicted from memory.
        await evictDurableObject(env.KEY_GUARD.getByName(limited.keyId));
      }
      expect((await admit(limited))?.refusal).toBe("rate_limit_exceeded");
    } finally {
      vi.useRealTimers();
    }
  }, 180_000);
});

it("An expired API key stays expired when the clock steps back", async () => {
  const { accountId } = await makeTenant();
  const start = hourStart(Date.now()) + hourMs;
  const expiring = await makeKey(accountId, { expiresAt: start + 1000 });
  try {
    vi.setSystemTime(start + 999);
    expect((await admit(expiring))?.refusal).toBeNull();
    vi.setSystemTime(start + 1000);
    expect((await admit(expiring))?.refusal).toBe("expired_key");
    vi.setSystemTime(start + 999);
    expect((await admit(expiring))?.refusal).toBe("expired_key");
  } finally {
    vi.useRealTimers();
  }
});

const path = "/api/v1/users?limit=1";
/** The time between two requests, in milliseconds. The result is 50 requests a second. */
const requestIntervalMs = 20;

/** Waits between two requests. These tests use real time, because their results depend on the rate of the requests. */
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Sends 50 requests a second, until `isDone` returns true or 1,000 requests are sent. Resolves when all requests have ended. */
async function sendLoad(sendRequest: () => Promise<void>, isDone: () => boolean): Promise<void> {
  const requests: Promise<void>[] = [];
  while (!isDone() && requests.length < 1000) {
    requests.push(sendRequest());
    await pause(requestIntervalMs);
  }
  await Promise.all(requests);
}

/**
 * Sends one request after another, until 20 requests have started at `changesAt` or later. Returns a sorted list of the distinct outcomes
 * before and after `changesAt`. Ignores requests that were in flight at `changesAt`.
 */
async function outcomesAround(changesAt: number, intervalMs: number, sendRequest: () => Promise<string>): Promise<string[]> {
  const outcomes = new Set<string>();
  for (let after = 0; after < 20; ) {
    const startedAt = Date.now();
    const outcome = await sendRequest();
    if (startedAt >= changesAt) {
      after++;
      outcomes.add(`after: ${outcome}`);
    } else if (Date.now() < changesAt) outcomes.add(`before: ${outcome}`);
    await pause(intervalMs);
  }
  return [...outcomes].toSorted();
}

describe.concurrent("An API key with 50 requests a second", () => {
  it.each<[string, string, string, object | undefined, number, string]>([
    ["a revocation", "DELETE", "", undefined, 401, "revoked_key"],
    ["a deactivation", "PATCH", "", { status: "disabled" }, 401, "disabled_key"],
    ["the loss of a scope", "PATCH", "", { scopes: ["tasks:read"] }, 403, "insufficient_scope"],
    ["a new list of IP addresses", "PATCH", "", { allowed_ips: ["203.0.113.9"] }, 403, "ip_not_allowed"],
    ["a lower limit", "PATCH", "", { hourly_limit: 1 }, 429, "rate_limit_exceeded"],
    ["a rotation without overlap", "POST", "/rotate", { overlap_seconds: 0 }, 401, "invalid_key"],
  ])("is denied for every request that starts after the response to %s", async (_, method, subpath, body, status, code) => {
    const { key, accountId } = await makeTenant();
    const other = await makeKey(accountId);
    let changedAt = Number.POSITIVE_INFINITY;
    let admittedBefore = 0;
    const outcomesAfter: string[] = [];
    const sendRequest = async () => {
      const startedAt = performance.now();
      const response = await call("GET", path, { key: other.key });
      if (startedAt > changedAt) outcomesAfter.push(`${response.status} ${response.body.code}`);
      else if (response.status === 200) admittedBefore++;
    };
    const load = sendLoad(sendRequest, () => outcomesAfter.length >= 50);
    await vi.waitUntil(() => admittedBefore > 10, { timeout: 10_000, interval: requestIntervalMs });
    expect((await call(method, `/api/v1/keys/${other.keyId}${subpath}`, { key, body })).status).toBeLessThan(300);
    changedAt = performance.now();
    await load;
    expect(outcomesAfter.length).toBeGreaterThanOrEqual(50);
    expect(new Set(outcomesAfter)).toEqual(new Set([`${status} ${code}`]));
  });

  it("is denied for every request that starts after its expiry", async () => {
    const { key, accountId } = await makeTenant();
    const other = await makeKey(accountId);
    await call("GET", path, { key: other.key });
    const expiresAt = Date.now() + 3000;
    await call("PATCH", `/api/v1/keys/${other.keyId}`, { key, body: { expires_at: new Date(expiresAt).toISOString() } });
    const outcomes = await outcomesAround(expiresAt, requestIntervalMs, async () =>
      String((await call("GET", path, { key: other.key })).status),
    );
    expect(outcomes).toEqual(["after: 401", "before: 200"]);
  });

  it.each<[string, Parameters<typeof makeKey>[1], (() => object) | null, object]>([
    ["an activation", {}, () => ({ status: "disabled" }), { status: "active" }],
    ["a new scope", { scopes: ["tasks:read"] }, null, { scopes: ["users:read"] }],
    ["the removal of its list of IP addresses", { allowedIps: ["203.0.113.9"] }, null, { allowed_ips: [] }],
    ["a higher limit", { hourlyLimit: 1 }, null, { hourly_limit: 5000 }],
    ["the removal of its expiry", {}, () => ({ expires_at: new Date(Date.now() + 1000).toISOString() }), { expires_at: null }],
  ])("is admitted no later than two seconds after the response to %s", async (_, newKey, tightening, loosening) => {
    const { key, accountId } = await makeTenant();
    const other = await makeKey(accountId, newKey);
    const change = (body: object) => call("PATCH", `/api/v1/keys/${other.keyId}`, { key, body });
    if (tightening) await change(tightening());
    let changedAt = Number.POSITIVE_INFINITY;
    const lateStatuses: number[] = [];
    let denied = 0;
    const sendRequest = async () => {
      const startedAt = performance.now();
      const { status } = await call("GET", path, { key: other.key });
      if (startedAt > changedAt + 2000) lateStatuses.push(status);
      if (status !== 200) denied++;
    };
    const load = sendLoad(sendRequest, () => lateStatuses.length >= 50);
    await vi.waitUntil(() => denied > 10, { timeout: 10_000, interval: requestIntervalMs });
    expect((await change(loosening)).status).toBe(200);
    changedAt = performance.now();
    await load;
    expect(lateStatuses.length).toBeGreaterThanOrEqual(50);
    expect(new Set(lateStatuses)).toEqual(new Set([200]));
  });
});
