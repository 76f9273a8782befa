import { abortAllDurableObjects, evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, inject, it, vi } from "vitest";
import type { AdmissionRequest } from "../../../src/admission/admission.ts";
import { askAdmission } from "../../../src/admission/guards.ts";
import { hashOf } from "../../../src/crypto/hash.ts";
import { hourMs, hourStart } from "../../../src/time/clock.ts";
import { call, makeKey, makeTenant } from "../support/client.ts";

// The promise of the limit, under abuse, on real objects.

const questionOf = (key: string): AdmissionRequest => ({ secretHash: hashOf(key), ip: "198.51.100.1", scope: null, counted: true });
const admit = (keyId: string, key: string) => askAdmission(env.KEY_GUARD, keyId, questionOf(key));

const limit = inject("isLong") ? 5000 : 500;

describe("A limit", () => {
  it(`of ${limit} admits exactly as many of ${1.2 * limit} requests at once, and shows each of them another count`, {
    tags: ["long"],
    timeout: 180_000,
  }, async () => {
    const { key } = await makeTenant({ hourlyLimit: limit });
    const answers = await Promise.all(Array.from({ length: 1.2 * limit }, () => call("GET", "/api/v1/me", { key })));
    const admitted = answers.filter(({ status }) => status === 200);
    expect(admitted.length).toBe(limit);
    expect(new Set(admitted.map(({ headers }) => headers.get("X-RateLimit-Used"))).size).toBe(limit);
    expect(answers.filter(({ status }) => status === 429).length).toBe(0.2 * limit);
  });

  it("is never passed though the object is killed again and again, and each kill costs at most 63", {
    tags: ["long"],
    timeout: 180_000,
  }, async () => {
    const { key, keyId } = await makeTenant({ hourlyLimit: limit });
    let admitted = 0;
    let unanswered = 0;
    let kills = 0;
    let isExhausted = false;
    const seen = new Set<number>();
    const one = async () => {
      try {
        const admission = await admit(keyId, key);
        if (admission?.refusal === null) {
          admitted++;
          seen.add(admission.rateLimit.used);
        } else isExhausted = true;
      } catch {
        unanswered++;
      }
    };
    for (let burst = 0; !isExhausted; burst++) {
      const requests = Array.from({ length: limit / 50 }, one);
      if (burst % 4 === 3) {
        await requests[Math.floor((Math.random() * limit) / 50)];
        kills++;
        await abortAllDurableObjects();
      }
      await Promise.all(requests);
    }
    expect(seen.size).toBe(admitted);
    expect(admitted).toBeLessThanOrEqual(limit);
    expect(admitted).toBeGreaterThanOrEqual(limit - 63 * kills - unanswered);
    expect(kills).toBeGreaterThan(inject("isLong") ? 10 : 3);
  });

  it("is exact in each of two hours, though the clock steps back between them", async () => {
    const { accountId } = await makeTenant();
    const { key, keyId } = await makeKey(accountId, { hourlyLimit: 20 });
    const start = hourStart(Date.now());
    const burst = async (at: number) => {
      vi.setSystemTime(at);
      const answers = await Promise.all(Array.from({ length: 30 }, () => admit(keyId, key)));
      return answers.filter((answer) => answer?.refusal === null).length;
    };
    try {
      expect(await burst(start + hourMs - 500)).toBe(20);
      expect(await burst(start + hourMs)).toBe(20);
      expect(await burst(start + hourMs - 1)).toBe(0);
      await evictDurableObject(env.KEY_GUARD.getByName(keyId));
      expect(await burst(start + 1000)).toBe(0);
      expect(await burst(start + 2 * hourMs)).toBe(20);
    } finally {
      vi.useRealTimers();
    }
  });

  it("goes by a clock that never goes back: what has expired stays so", async () => {
    const { accountId } = await makeTenant();
    const start = hourStart(Date.now()) + hourMs;
    const { key, keyId } = await makeKey(accountId, { expiresAt: start + 1000 });
    try {
      vi.setSystemTime(start + 999);
      expect((await admit(keyId, key))?.refusal).toBeNull();
      vi.setSystemTime(start + 1000);
      expect((await admit(keyId, key))?.refusal).toBe("expired_key");
      vi.setSystemTime(start + 999);
      expect((await admit(keyId, key))?.refusal).toBe("expired_key");
    } finally {
      vi.useRealTimers();
    }
  });

  it("never refuses a key early that calls every eleven seconds for an hour, sleeping in between", async () => {
    const { accountId } = await makeTenant();
    const calls = Math.floor(3600 / 11);
    const { key, keyId } = await makeKey(accountId, { hourlyLimit: calls });
    const start = hourStart(Date.now()) + hourMs;
    try {
      for (let n = 0; n < calls; n++) {
        vi.setSystemTime(start + n * 11_000);
        const admission = await admit(keyId, key);
        expect([admission?.refusal, admission?.rateLimit.used]).toEqual([null, n + 1]);
        await evictDurableObject(env.KEY_GUARD.getByName(keyId));
      }
      expect((await admit(keyId, key))?.refusal).toBe("rate_limit_exceeded");
    } finally {
      vi.useRealTimers();
    }
  }, 180_000);

  it("costs a row for 64 requests of a burst, and one for each of a key that calls alone", async () => {
    const { key, keyId } = await makeTenant();
    const guard = env.KEY_GUARD.getByName(keyId);
    const rows = () => runInDurableObject(guard, (_, state) => state.storage.kv.get<{ reserved: number }>("window")?.reserved);
    for (let n = 0; n < 700; n++) await admit(keyId, key);
    // 1 + 2 + 4 .. 32 = 63, then blocks of 64.
    expect(await rows()).toBe(63 + 64 * 10);
  });
});

const path = "/api/v1/users?limit=1";

describe.concurrent("A change that tightens a key holds for every request that starts after it was answered, while fifty a second arrive:", () => {
  it.each<[string, string, string, object | undefined, number, string]>([
    ["a revocation", "DELETE", "", undefined, 401, "revoked_key"],
    ["a disabling", "PATCH", "", { status: "disabled" }, 401, "disabled_key"],
    ["a narrower scope", "PATCH", "", { scopes: ["tasks:read"] }, 403, "insufficient_scope"],
    ["an address list", "PATCH", "", { allowed_ips: ["203.0.113.9"] }, 403, "ip_not_allowed"],
    ["a lower limit", "PATCH", "", { hourly_limit: 1 }, 429, "rate_limit_exceeded"],
    ["a rotation without overlap", "POST", "/rotate", { overlap_seconds: 0 }, 401, "invalid_key"],
  ])("%s", async (_, method, subpath, body, status, code) => {
    const { key, accountId } = await makeTenant();
    const other = await makeKey(accountId);
    let changedAt = Number.POSITIVE_INFINITY;
    const before: number[] = [];
    const after: string[] = [];
    const load = Array.from({ length: 80 }, async (_, index) => {
      await new Promise((resolve) => setTimeout(resolve, index * 20));
      const startedAt = performance.now();
      const answer = await call("GET", path, { key: other.key });
      if (startedAt > changedAt) after.push(`${answer.status} ${answer.body.code}`);
      else if (answer.status === 200) before.push(200);
    });
    await new Promise((resolve) => setTimeout(resolve, 600));
    expect((await call(method, `/api/v1/keys/${other.keyId}${subpath}`, { key, body })).status).toBeLessThan(300);
    changedAt = performance.now();
    await Promise.all(load);
    expect(before.length).toBeGreaterThan(10);
    expect(after.length).toBeGreaterThan(10);
    expect(new Set(after)).toEqual(new Set([`${status} ${code}`]));
  });

  it("an expiry, from its moment on", async () => {
    const { key, accountId } = await makeTenant();
    const other = await makeKey(accountId);
    await call("GET", path, { key: other.key });
    const expiresAt = Date.now() + 3000;
    await call("PATCH", `/api/v1/keys/${other.keyId}`, { key, body: { expires_at: new Date(expiresAt).toISOString() } });
    const seen = new Set<string>();
    for (let after = 0; after < 20; ) {
      const startedAt = Date.now();
      const { status } = await call("GET", path, { key: other.key });
      if (startedAt >= expiresAt) {
        after++;
        seen.add(`after ${status}`);
      } else if (Date.now() < expiresAt) seen.add(`before ${status}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    expect([...seen].toSorted()).toEqual(["after 401", "before 200"]);
  });
});

describe.concurrent("A change that loosens a key holds within two seconds, while fifty a second arrive:", () => {
  it.each<[string, Parameters<typeof makeKey>[1], (() => object) | null, object]>([
    ["an enabling", {}, () => ({ status: "disabled" }), { status: "active" }],
    ["a wider scope", { scopes: ["tasks:read"] }, null, { scopes: ["users:read"] }],
    ["the end of an address list", { allowedIps: ["203.0.113.9"] }, null, { allowed_ips: [] }],
    ["a higher limit", { hourlyLimit: 1 }, null, { hourly_limit: 5000 }],
    ["a later expiry", {}, () => ({ expires_at: new Date(Date.now() + 300).toISOString() }), { expires_at: null }],
  ])("%s", async (_, made, first, then) => {
    const { key, accountId } = await makeTenant();
    const other = await makeKey(accountId, made);
    const change = (body: object) => call("PATCH", `/api/v1/keys/${other.keyId}`, { key, body });
    if (first) await change(first());
    let changedAt = Number.POSITIVE_INFINITY;
    const late: number[] = [];
    let refused = 0;
    const load = Array.from({ length: 190 }, async (_, index) => {
      await new Promise((resolve) => setTimeout(resolve, index * 20));
      const startedAt = performance.now();
      const { status } = await call("GET", path, { key: other.key });
      if (startedAt > changedAt + 2000) late.push(status);
      if (status !== 200) refused++;
    });
    await new Promise((resolve) => setTimeout(resolve, 900));
    expect((await change(then)).status).toBe(200);
    changedAt = performance.now();
    await Promise.all(load);
    expect(refused).toBeGreaterThan(10);
    expect(late.length).toBeGreaterThan(10);
    expect(new Set(late)).toEqual(new Set([200]));
  });
});

it("A rotation with overlap lets both secrets in until its end, then only the new, while fifty a second arrive", async () => {
  const { key, accountId } = await makeTenant();
  const other = await makeKey(accountId);
  const { body } = await call("POST", `/api/v1/keys/${other.keyId}/rotate`, { key, body: { overlap_seconds: 2 } });
  const endsAt = Date.parse(body.overlap_ends_at);
  const seen = new Set<string>();
  for (let after = 0; after < 20; ) {
    const startedAt = Date.now();
    const [old, fresh] = await Promise.all([other.key, body.secret_key].map((secret) => call("GET", path, { key: secret })));
    if (startedAt >= endsAt) {
      after++;
      seen.add(`after ${old?.status} ${fresh?.status}`);
    } else if (Date.now() < endsAt) seen.add(`before ${old?.status} ${fresh?.status}`);
    await new Promise((resolve) => setTimeout(resolve, 40));
  }
  expect([...seen].toSorted()).toEqual(["after 401 200", "before 200 200"]);
});
