import { abortAllDurableObjects, evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, inject, it, vi } from "vitest";
import type { KeyGuard } from "../../../src/guard/key-guard.ts";
import type { StoredWindows } from "../../../src/guard/window.ts";
import { monthStart, secondMs } from "../../../src/lib/time/clock.ts";
import { admit } from "../support/admissions.ts";
import { makeKey, makeTenant, type Tenant } from "../support/client.ts";
import { operate } from "../support/operate.ts";

// Exactness of several windows at once, under more requests than they allow, while objects are killed. The short form is a twentieth of the long form. A killed
// object can make workerd restart all objects a moment later. The tests without kills therefore come first.

const isLong = inject("isLong");
const part = isLong ? 1 : 0.05;

/** Kills one object. The platform does the same when a machine fails: memory and requests in flight are lost, what is on disk stays. */
const kill = (keyId: string) =>
  runInDurableObject(env.KEY_GUARD.getByName(keyId), (_: KeyGuard, state) => state.abort("killed by a test")).catch(() => {});

/** The largest number by which requests exceed `limit + limit x t` in a span of `t` seconds. `times`: when they were admitted, in milliseconds. */
function excessOf(times: readonly number[], limit: number): number {
  let [fewest, excess] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  times.forEach((at, index) => {
    const allowed = (limit * at) / secondMs;
    fewest = Math.min(fewest, index - allowed);
    excess = Math.max(excess, index + 1 - allowed - fewest - limit);
  });
  return excess;
}

const [limit, keys, seconds] = isLong ? [5000, 50, 60] : [250, 10, 3];

/** Sends 1.2 times as many requests as the limit allows, evenly and with random keys. Returns the numbers of admitted requests and of errors. */
async function sendEvenly(everySecond: (all: readonly Tenant[], accountId: string) => Promise<void>) {
  const { accountId, ...first } = await makeTenant();
  const all = [{ accountId, ...first }];
  while (all.length < keys) all.push({ accountId, ...(await makeKey(accountId)) });
  await operate("PATCH", `/accounts/${accountId}`, { limits: [{ per: "hour", limit }] });
  const counts = { admitted: 0, failed: 0 };
  const sent: Promise<void>[] = [];
  const perSecond = (1.2 * limit) / seconds;
  const startedAt = Date.now();
  for (let number = 0, second = 0; number < 1.2 * limit; number++) {
    const wait = startedAt + (number * secondMs) / perSecond - Date.now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    const key = all[Math.floor(Math.random() * all.length)] as Tenant;
    sent.push(
      admit(key).then(
        (admission) => {
          if (admission?.refusal === null) counts.admitted++;
        },
        () => {
          counts.failed++;
        },
      ),
    );
    if (Date.now() - startedAt > (second + 1) * secondMs) {
      second++;
      await everySecond(all, accountId);
    }
  }
  await Promise.all(sent);
  return counts;
}

const hour = 5000 * part;
const leftOfMonth = 1500 * part;
const minutes = 10 * part;

/** Sends requests for ten minutes of the clock. The month, and an hour, change in the middle. Returns the times of admitted requests. */
async function run(killsEachSecond: boolean): Promise<{ before: number[]; after: number[]; change: number }> {
  const { accountId } = await makeTenant();
  const otherLimits = [
    { per: "second" as const, limit: 20 },
    { per: "month" as const, limit: 100_000 * part },
  ];
  const key = await makeKey(accountId, { hourlyLimit: hour, otherLimits });
  const change = monthStart(Date.UTC(2033, 4, 1));
  const start = change - (minutes * 60 * secondMs) / 2;
  const times: number[] = [];
  const send = async (at: number) => {
    const admission = await admit(key).catch(() => null);
    if (admission?.refusal === null) times.push(at);
  };
  try {
    vi.setSystemTime(start);
    await send(start);
    // Most of the month's limit is already used.
    await runInDurableObject(env.KEY_GUARD.getByName(key.keyId), (_: KeyGuard, { storage }) => {
      const stored = storage.kv.get<StoredWindows>("window");
      const fixed = stored?.fixed.map(([per, startsAt, reserved]) => [
        per,
        startsAt,
        per === "hour" ? reserved : 100_000 * part - leftOfMonth,
      ]);
      storage.kv.put("window", { ...stored, fixed });
    });
    await evictDurableObject(env.KEY_GUARD.getByName(key.keyId));
    for (let at = start; at < start + minutes * 60 * secondMs; at += 50) {
      vi.setSystemTime(at);
      await Promise.all(Array.from({ length: 10 }, () => send(at)));
      if (killsEachSecond && (at - start) % secondMs === 500) await kill(key.keyId);
    }
  } finally {
    vi.useRealTimers();
  }
  return { before: times.filter((at) => at < change), after: times.filter((at) => at >= change), change };
}

describe("Without faults", () => {
  it("a key with a limit per second, hour and month is exact in each under 200 requests a second, through a change of the hour and the month", {
    tags: ["long"],
    timeout: 600_000,
  }, async () => {
    const { before, after } = await run(false);
    // The first request was sent before the month was almost used up.
    expect([before.length - 1, after.length]).toEqual([leftOfMonth, hour]);
    expect(excessOf([...before, ...after], 20)).toBeLessThanOrEqual(0);
  });
});

describe("While objects are killed", () => {
  it("an account limit of 5,000 for 50 keys admits at most 5,000 and at least 4,700 of 6,000 requests, with a kill each second", {
    tags: ["long"],
    timeout: 300_000,
  }, async () => {
    const { admitted } = await sendEvenly(async (all, accountId) => {
      // Every tenth kill is that of the budget.
      if (Math.random() < 0.1)
        await runInDurableObject(env.ACCOUNT_BUDGET.getByName(accountId), (_, state) => state.abort("killed by a test")).catch(() => {});
      else await kill((all[Math.floor(Math.random() * all.length)] as Tenant).keyId);
    });
    expect(admitted).toBeLessThanOrEqual(limit);
    expect(admitted).toBeGreaterThanOrEqual(0.94 * limit);
  });

  it("an account limit is never exceeded, with kills at any of the writes", { tags: ["long"], timeout: 300_000 }, async () => {
    const { accountId, ...first } = await makeTenant();
    const all = [first];
    while (all.length < 4) all.push(await makeKey(accountId));
    const small = isLong ? 1500 : 300;
    await operate("PATCH", `/accounts/${accountId}`, { limits: [{ per: "hour", limit: small }] });
    let [writes, kills] = [0, 0];
    const wrote = () => {
      writes++;
    };
    // Both ways to write to the storage of an object tell the test.
    const [kv, sql] = await runInDurableObject(env.KEY_GUARD.getByName(first.keyId), (_: KeyGuard, { storage }) => [
      Object.getPrototypeOf(storage.kv) as SyncKvStorage,
      Object.getPrototypeOf(storage.sql) as SqlStorage,
    ]);
    const { put } = kv;
    const { exec } = sql;
    const puts = vi.spyOn(kv, "put").mockImplementation(function (this: SyncKvStorage, ...args) {
      put.apply(this, args);
      wrote();
    });
    const execs = vi.spyOn(sql, "exec").mockImplementation(function (this: SqlStorage, ...args) {
      const cursor = exec.apply(this, args);
      if (/^(INSERT|DELETE)/.test(args[0])) wrote();
      return cursor as never;
    });
    let [admitted, isFull] = [0, false];
    try {
      for (let round = 0; !isFull; round++) {
        writes = 0;
        const requests = Promise.all(
          Array.from({ length: 12 }, (_, number) => admit(all[number % all.length] as Tenant).catch(() => null)),
        );
        // An object cannot kill the objects from within a write, so the test waits for the write.
        await vi
          .waitUntil(() => writes > round % 12, { timeout: 100, interval: 1 })
          .then(
            () => {
              kills++;
              return abortAllDurableObjects();
            },
            () => {},
          );
        const admissions = await requests;
        admitted += admissions.filter((admission) => admission?.refusal === null).length;
        isFull =
          admissions.every((admission) => admission === null || admission.refusal !== null) &&
          admissions.some((admission) => admission?.refusal === "rate_limit_exceeded");
      }
    } finally {
      puts.mockRestore();
      execs.mockRestore();
    }
    expect(admitted).toBeLessThanOrEqual(small);
    expect(kills).toBeGreaterThan(12);
    expect(admitted).toBeGreaterThan(0);
  });

  it("a key never exceeds its limit per second, hour or month, with a kill each second", { tags: ["long"], timeout: 600_000 }, async () => {
    const { before, after } = await run(true);
    expect(before.length - 1).toBeLessThanOrEqual(leftOfMonth);
    expect(after.length).toBeLessThanOrEqual(hour);
    expect(excessOf([...before, ...after], 20)).toBeLessThanOrEqual(0);
    // A kill loses at most one reservation of each window.
    expect(before.length).toBeGreaterThan(leftOfMonth * 0.5);
    expect(after.length).toBeGreaterThan(hour * 0.5);
  });
});
