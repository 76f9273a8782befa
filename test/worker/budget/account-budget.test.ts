import { abortAllDurableObjects, evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, inject, it, vi } from "vitest";
import { dayMs, hourMs, hourStart, minuteMs } from "../../../src/lib/time/clock.ts";
import { admit } from "../support/admissions.ts";
import { browse, textOf } from "../support/browse.ts";
import { call, makeKey, makeTenant, type Tenant } from "../support/client.ts";
import { logDelay } from "../support/entries.ts";
import { operate } from "../support/operate.ts";
import { rememberLimits } from "../support/operations-rows.ts";

// An account whose keys share limits has a budget. These tests use real objects, many keys and crashes. The rules themselves are tested by the simulator.

const isLong = inject("isLong");

type Limits = { per: string; limit: number }[];

const setLimits = async (accountId: string, limits: Limits) => {
  const { status, body } = await operate("PATCH", `/accounts/${accountId}`, { limits });
  expect([status, body.limits, body.pending_limits]).toEqual([200, limits, null]);
};

/** Creates an account with shared limits, and several keys. */
async function makeAccount(limits: Limits, count: number): Promise<{ accountId: string; keys: Pick<Tenant, "keyId" | "key">[] }> {
  const { accountId, ...first } = await makeTenant();
  const keys = [first];
  while (keys.length < count) keys.push(await makeKey(accountId));
  await setLimits(accountId, limits);
  return { accountId, keys };
}

/** Sends one request with each of the keys in turn. Returns the numbers of admitted and refused requests, and of errors. */
async function sendAll(keys: readonly Pick<Tenant, "keyId" | "key">[], requests: number, atOnce = requests) {
  const counts = { admitted: 0, refused: 0, failed: 0 };
  for (let sent = 0; sent < requests; sent += atOnce)
    await Promise.all(
      Array.from({ length: Math.min(atOnce, requests - sent) }, async (_, number) => {
        const key = keys[(sent + number) % keys.length] as Tenant;
        const admission = await admit(key).catch(() => null);
        if (admission === null) counts.failed++;
        else if (admission.refusal === null) counts.admitted++;
        else counts.refused++;
      }),
    );
  return counts;
}

describe("The limit that all keys of an account share", () => {
  it("admits exactly as many requests as it allows, with any of the keys", { tags: ["long"], timeout: 180_000 }, async () => {
    const [limit, count] = isLong ? [5000, 50] : [500, 10];
    const { keys } = await makeAccount([{ per: "hour", limit }], count);
    expect(await sendAll(keys, 1.2 * limit, 100)).toEqual({ admitted: limit, refused: 0.2 * limit, failed: 0 });
  });

  it("counts what a guard has reserved as used after a crash, so that nothing is used twice", async () => {
    const { keys } = await makeAccount([{ per: "hour", limit: 600 }], 1);
    const before = await sendAll(keys, 300, 10);
    await abortAllDurableObjects();
    const after = await sendAll(keys, 400, 20);
    expect([before.admitted, after.failed]).toEqual([300, 0]);
    expect(after.admitted).toBeLessThanOrEqual(300);
    expect(after.admitted).toBeGreaterThan(200);
  });

  it("is decided together with all limits of the key: a refusal uses nothing of the others", async () => {
    const { accountId, keys } = await makeAccount(
      [
        { per: "hour", limit: 50 },
        { per: "day", limit: 12 },
      ],
      1,
    );
    const strict = await makeKey(accountId, { hourlyLimit: 3 });
    expect(await sendAll([strict], 10)).toMatchObject({ admitted: 3, refused: 7 });
    expect(await sendAll(keys, 20)).toMatchObject({ admitted: 9, refused: 11 });
    const [{ keyId }] = keys as [Tenant];
    expect(await env.KEY_GUARD.getByName(keyId).rateLimit()).toMatchObject({ used: 9 });
    const { body } = await operate("GET", `/accounts/${accountId}`);
    expect(body.limits).toEqual([
      { per: "hour", limit: 50 },
      { per: "day", limit: 12 },
    ]);
  });

  it("names itself in the headers and in the response when it refuses a request", async () => {
    const { keys } = await makeAccount([{ per: "hour", limit: 2 }], 2);
    const [one, other] = keys as [Tenant, Tenant];
    const first = await call("GET", "/api/v1/users?limit=1", { key: one.key });
    expect(first.headers.get("RateLimit-Policy")).toBe('"account-hour";q=2;w=3600');
    expect(first.headers.get("RateLimit")).toMatch(/^"account-hour";r=1;t=\d+$/);
    expect(first.headers.get("X-RateLimit-Limit")).toBe("2");
    await call("GET", "/api/v1/users?limit=1", { key: other.key });
    const refused = await call("GET", "/api/v1/users?limit=1", { key: one.key });
    expect([refused.status, refused.body.code]).toEqual([429, "rate_limit_exceeded"]);
    expect(refused.body["violated-policies"]).toEqual(["account-hour"]);
    expect(refused.body.detail).toBe("The limit is used up: 2 per hour for all keys of the account.");
    const untilHour = Math.ceil((hourStart(Date.now()) + hourMs - Date.now()) / 1000);
    expect(Math.abs(Number(refused.headers.get("Retry-After")) - untilHour)).toBeLessThanOrEqual(1);
  });

  it("begins again with each hour, whether keys used the last one or not", async () => {
    const { keys } = await makeAccount([{ per: "hour", limit: 20 }], 3);
    const start = hourStart(Date.now()) + hourMs;
    try {
      for (const at of [start + minuteMs, start + hourMs - 500, start + hourMs, start + 2 * hourMs + minuteMs]) {
        vi.setSystemTime(at);
        const admitted = (await sendAll(keys, 30)).admitted;
        expect([at - start, admitted]).toEqual([at - start, at === start + hourMs - 500 ? 0 : 20]);
        // The clock moves further in the next step, and a guard forgets after a second that the budget had no units.
      }
    } finally {
      vi.useRealTimers();
    }
  });

  it("is active for keys that were used before, and for keys that are made later", async () => {
    const { accountId, ...tenant } = await makeTenant();
    expect(await sendAll([tenant], 30)).toMatchObject({ admitted: 30 });
    await setLimits(accountId, [{ per: "hour", limit: 10 }]);
    const later = await makeKey(accountId);
    expect(await sendAll([tenant, later], 30)).toMatchObject({ admitted: 10, refused: 20 });
    await setLimits(accountId, []);
    expect(await sendAll([tenant, later], 30)).toMatchObject({ admitted: 30 });
    // The hour still counts what was used while the limit was set.
    await setLimits(accountId, [{ per: "hour", limit: 15 }]);
    expect(await sendAll([tenant, later], 30)).toMatchObject({ admitted: 5, refused: 25 });
  });

  it("admits nothing beyond a lower limit that starts after the change has returned", async () => {
    const { accountId, keys } = await makeAccount([{ per: "hour", limit: 1000 }], 8);
    let lowered = false;
    let [before, after, late] = [0, 0, 0];
    const load = (async () => {
      for (let sent = 0; sent < 1500; sent += 20) {
        await Promise.all(
          Array.from({ length: 20 }, async (_, number) => {
            const startedLowered = lowered;
            const admission = await admit(keys[(sent + number) % keys.length] as Tenant);
            if (admission?.refusal !== null) return;
            before++;
            if (startedLowered) after++;
            if (startedLowered && before > 400) late++;
          }),
        );
      }
    })();
    await vi.waitUntil(() => before > 150, { timeout: 10_000, interval: 5 });
    await setLimits(accountId, [{ per: "hour", limit: 400 }]);
    lowered = true;
    await load;
    expect([late, before]).toEqual([0, Math.max(400, before - after)]);
  });

  it("returns the units of a disabled or revoked key to the others", async () => {
    const { accountId, keys } = await makeAccount([{ per: "hour", limit: 60 }], 3);
    const [one, two, three] = keys as [Tenant, Tenant, Tenant];
    expect(await sendAll([one, two], 10)).toMatchObject({ admitted: 10 });
    await operate("POST", `/keys/${one.keyId}/disable`);
    await operate("POST", `/keys/${two.keyId}/revoke`);
    expect(await sendAll([three], 60)).toMatchObject({ admitted: 50, refused: 10 });
    expect(accountId).toMatch(/^acc_/);
  });

  it("loses nothing when guards fall asleep", async () => {
    const { keys } = await makeAccount([{ per: "hour", limit: 40 }], 4);
    let admitted = 0;
    const start = hourStart(Date.now()) + hourMs;
    try {
      for (let round = 0; round < 12; round++) {
        // After a quiet time, a guard has released its reservation, and the platform can evict it from memory.
        vi.setSystemTime(start + round * minuteMs);
        admitted += (await sendAll(keys, 4)).admitted;
        vi.setSystemTime(start + round * minuteMs + 6000);
        for (const { keyId } of keys) {
          const guard = env.KEY_GUARD.getByName(keyId);
          await runInDurableObject(guard, (instance) => instance.alarm());
          await evictDurableObject(guard);
        }
      }
    } finally {
      vi.useRealTimers();
    }
    expect(admitted).toBe(40);
  });

  it("is used up although guards hold units of a longer limit from an earlier hour", async () => {
    const { accountId, keys } = await makeAccount(
      [
        { per: "hour", limit: 1000 },
        { per: "day", limit: 100 },
      ],
      6,
    );
    const start = Date.UTC(2031, 7, 3, 9);
    try {
      vi.setSystemTime(start);
      expect(await sendAll(keys.slice(0, 5), 5)).toMatchObject({ admitted: 5 });
      vi.setSystemTime(start + hourMs + minuteMs);
      expect(await sendAll(keys.slice(5), 120)).toEqual({ admitted: 95, refused: 25, failed: 0 });
      // A lower limit of the day recalls units, too, and what is left of it can be used.
      vi.setSystemTime(start + dayMs);
      expect(await sendAll(keys.slice(0, 2), 2)).toMatchObject({ admitted: 2 });
      vi.setSystemTime(start + dayMs + hourMs);
      await setLimits(accountId, [
        { per: "hour", limit: 1000 },
        { per: "day", limit: 10 },
      ]);
      expect(await sendAll(keys, 20)).toMatchObject({ admitted: 8, refused: 12 });
    } finally {
      vi.useRealTimers();
    }
  });

  it("serves a burst of one key at once, although other keys hold most units", async () => {
    const { keys } = await makeAccount([{ per: "hour", limit: 200 }], 10);
    await sendAll(keys, 40);
    const before = Date.now();
    expect(await sendAll(keys.slice(0, 1), 200)).toEqual({ admitted: 160, refused: 40, failed: 0 });
    expect(Date.now() - before).toBeLessThan(4000);
  });

  it("is what the row of the account says after D1 was restored, in the budget and in all guards", async () => {
    const { accountId, keys } = await makeAccount([{ per: "hour", limit: 30 }], 2);
    const [{ keyId }] = keys as [Tenant];
    expect(await sendAll(keys, 4)).toMatchObject({ admitted: 4 });
    const restore = await rememberLimits(accountId);
    await setLimits(accountId, [{ per: "hour", limit: 6 }]);
    expect(await sendAll(keys, 6)).toMatchObject({ admitted: 2, refused: 4 });
    await restore();
    const { body } = await operate("POST", "/guards/reconcile", { after: `rows:${keyId.slice(0, -1)}` });
    expect(body.accounts).toContain(accountId);
    expect(await sendAll(keys, 40)).toMatchObject({ admitted: 24, refused: 16 });
    // A restore to a time before the account had limits removes them.
    const { accountId: other, ...key } = await makeTenant();
    const restoreNone = await rememberLimits(other);
    await setLimits(other, [{ per: "hour", limit: 1 }]);
    await restoreNone();
    await operate("POST", "/guards/reconcile", { after: `rows:${key.keyId.slice(0, -1)}` });
    expect(await sendAll([key], 5)).toMatchObject({ admitted: 5 });
  });

  it("is explained on the page of a refused request, and shown on the page of limits", async () => {
    const { accountId, keys } = await makeAccount([{ per: "day", limit: 2 }], 2);
    const [one, other] = keys as [Tenant, Tenant];
    const { get } = browse(accountId);
    expect((await get("/limits")).text).toContain("No key has used a unit yet.");
    for (const { key } of [one, other]) await call("GET", "/api/v1/me", { key });
    const refused = await call("GET", "/api/v1/me", { key: one.key });
    expect(refused.status).toBe(429);
    await vi.waitFor(async () => {
      const { text } = await get(`/activity/${refused.headers.get("X-Request-Id")}`);
      expect(text).toContain("The account had no room for the request: 2 of 2 per day for all keys of the account were used.");
    }, logDelay);
    await vi.waitFor(async () => expect(textOf(await get("/limits"))).toMatch(/2 per day 2 100% 0 .*Test key 1 50\.00%/), {
      timeout: 5000,
      interval: 100,
    });
    expect((await get("/usage")).text).toContain('href="/limits"');
    expect((await browse((await makeTenant()).accountId).get("/limits")).text).toContain("share no limits");
  });

  it("is 503 for a key without units while the budget cannot be reached, and the key goes on afterwards", async () => {
    const { accountId, keys } = await makeAccount([{ per: "hour", limit: 50 }], 1);
    const budget = env.ACCOUNT_BUDGET.getByName(accountId);
    await runInDurableObject(budget, (instance) => {
      Object.defineProperty(instance, "ask", { configurable: true, value: () => Promise.reject(new Error("away")) });
    });
    expect((await call("GET", "/api/v1/users?limit=1", { key: keys[0]?.key ?? "" })).status).toBe(503);
    await evictDurableObject(budget);
    expect((await call("GET", "/api/v1/users?limit=1", { key: keys[0]?.key ?? "" })).status).toBe(200);
  });
});
