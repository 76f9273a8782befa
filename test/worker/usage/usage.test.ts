import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Entry } from "../../../src/activity/entry.ts";
import { timeOfId } from "../../../src/ids/ids.ts";
import { dayMs, dayStart, hourMs, hourStart } from "../../../src/time/clock.ts";
import { figuresOf, type Tally } from "../../../src/usage/figures.ts";
import { percentile } from "../../../src/usage/histogram.ts";
import { busiestOf, readHours, weekOf } from "../../../src/usage/hours.ts";
import { readBreakdown } from "../../../src/usage/read-breakdown.ts";
import { readUsage } from "../../../src/usage/read-usage.ts";
import { refreshRollUps } from "../../../src/usage/refresh-roll-ups.ts";
import { type WindowName, windowHours, windowsAt } from "../../../src/usage/windows.ts";
import { call, makeKey, makeTenant, readingLog, within2s } from "../support/client.ts";
import { invocation } from "../support/counted.ts";
import { entryOf, write } from "../support/entries.ts";

describe("Usage", () => {
  it("of a fresh account is nothing, and says so without zeros that mean something else", async () => {
    const { accountId } = await makeTenant();
    const usage = await readUsage(await refreshRollUps(readingLog(accountId)), { window: "30d" });
    expect(usage).toMatchObject({
      totalRequests: { value: 0, previous: 0, changePercent: null },
      successRate: { value: null, previous: null, changePoints: null },
      avgResponseTimeMs: { value: null, previous: null, changeMs: null },
      p50Ms: null,
      p95Ms: null,
      p99Ms: null,
    });
  });

  it("of 80 successes and 20 times 404 is 100 requests and 80 %", async () => {
    const watcher = await makeTenant();
    const { key, keyId } = await makeKey(watcher.accountId);
    await Promise.all([
      ...Array.from({ length: 80 }, () => call("GET", "/api/v1/me", { key })),
      ...Array.from({ length: 20 }, () => call("GET", "/api/v1/tasks/tsk_none", { key })),
    ]);
    const { body } = await within2s(
      () => call("GET", `/api/v1/usage?key_id=${keyId}`, { key: watcher.key }),
      (answer) => answer.body.total_requests.value >= 100,
    );
    expect(body.total_requests).toEqual({ value: 100, previous: 0, change_percent: null });
    expect(body.success_rate).toEqual({ value: 80, previous: null, change_points: null });
    expect(body.by_class).toEqual({ "2xx": 80, "3xx": 0, "4xx": 20, "429": 0, "5xx": 0 });
    expect(body.rate_limit).toMatchObject({ key_id: keyId, used: 100, limit: 5000, percent: 2 });
    expect(body.series.at(-1)).toMatchObject({ requests: 100, successes: 80 });
  });

  it("counts what is refused, but takes no response time of it", async () => {
    const { accountId, keyId } = await makeTenant();
    const now = Date.now();
    await write([
      entryOf({ accountId, keyId }, now, { durationMs: 40 }),
      entryOf({ accountId, keyId }, now, { status: 429, durationMs: 1, admitted: false, counted: false, count: 99 }),
    ]);
    const usage = await readUsage(await refreshRollUps(readingLog(accountId, now)), { window: "24h" });
    expect(usage.totalRequests.value).toBe(100);
    expect(usage.successRate.value).toBe(1);
    expect(usage.avgResponseTimeMs.value).toBe(40);
    expect([usage.p50Ms, usage.p99Ms]).toEqual([40, 40]);
    expect(usage.byClass["429"]).toBe(99);
  });

  it("takes late entries and repeated batches in, each exactly once", async () => {
    const { accountId, keyId } = await makeTenant();
    const now = Date.now();
    const reading = readingLog(accountId, now);
    const early = [0, 1, 2].map((n) => entryOf({ accountId, keyId }, now - 3 * dayMs - n));
    await write(early);
    expect((await readUsage(await refreshRollUps(reading), { window: "7d" })).totalRequests.value).toBe(3);
    await write([
      ...early,
      entryOf({ accountId, keyId }, now - 3 * dayMs, { status: 500 }),
      entryOf({ accountId, keyId }, now - 9 * dayMs),
    ]);
    const usage = await readUsage(await refreshRollUps(reading), { window: "7d" });
    expect([usage.totalRequests.value, usage.totalRequests.previous, usage.successRate.value]).toEqual([4, 1, 75]);
    expect(usage.totalRequests.changePercent).toBe(300);
  });
});

const sumOf = (entries: Entry[], of: (entry: Entry) => number) => entries.reduce((sum, entry) => sum + of(entry), 0);

const inClass = (entries: Entry[], is: (status: number) => boolean) => sumOf(entries, ({ status, count }) => (is(status) ? count : 0));

const twoDecimals = (value: number) => Math.round(value * 100) / 100;

/** The figures by their definitions, computed from the entries one by one. */
function plainly(entries: Entry[], from: number, to: number) {
  const inside = entries.filter(({ id }) => timeOfId(id) >= from && timeOfId(id) < to);
  const requests = sumOf(inside, ({ count }) => count);
  const admitted = inside.filter((entry) => entry.admitted);
  const successes = sumOf(inside, ({ status, count }) => (status < 400 ? count : 0));
  const durations = admitted.flatMap(({ durationMs, count }) => Array<number>(count).fill(durationMs)).sort((a, b) => a - b);
  const rank = (share: number) => durations[Math.max(0, Math.ceil(share * durations.length) - 1)] ?? null;
  return {
    requests,
    successes,
    byClass: {
      "2xx": inClass(inside, (status) => status < 300),
      "3xx": inClass(inside, (status) => status >= 300 && status < 400),
      "4xx": inClass(inside, (status) => status >= 400 && status < 500 && status !== 429),
      "429": inClass(inside, (status) => status === 429),
      "5xx": inClass(inside, (status) => status >= 500),
    },
    rate: requests === 0 ? null : successes === requests ? 100 : Math.min(twoDecimals((successes / requests) * 100), 99.99),
    average: durations.length === 0 ? null : twoDecimals(durations.reduce((sum, each) => sum + each, 0) / durations.length),
    percentiles: [0.5, 0.95, 0.99].map(rank),
  };
}

describe("The figures", () => {
  const now = Date.UTC(2026, 10, 21, 7, 31, 12);
  const edges = (Object.keys(windowHours) as WindowName[]).flatMap((name) => {
    const { window, previous } = windowsAt(name, now);
    return [window.from, window.to, previous.from];
  });
  const time = fc.oneof(
    fc.integer({ min: now - 61 * dayMs, max: now }),
    fc
      .constantFrom(...edges, dayStart(now), hourStart(now), dayStart(now) - 3 * dayMs)
      .chain((edge) => fc.constantFrom(edge - 1, edge, edge + 1)),
  );
  const traffic = fc.array(
    fc.record({
      at: time,
      status: fc.constantFrom(200, 200, 201, 304, 401, 403, 404, 422, 429, 500, 503),
      durationMs: fc.oneof(fc.integer({ min: 0, max: 120 }), fc.integer({ min: 0, max: 90_000 })),
      count: fc.constantFrom(1, 1, 1, 7),
      route: fc.constantFrom("/api/v1/tasks", "/api/v1/users/{id}"),
      key: fc.constantFrom("key_a", "key_b"),
    }),
    { maxLength: 60 },
  );

  it("equal a plain computation over the raw entries, for any traffic", async () => {
    await fc.assert(
      fc.asyncProperty(traffic, fc.integer({ min: 0, max: 60 }), (list, split) =>
        invocation("one traffic", async () => {
          const accountId = `acc_${crypto.randomUUID()}`;
          const entries = list.map(({ at, status, durationMs, count, route, key }) => {
            const admitted = ![401, 403, 429].includes(status);
            return entryOf({ accountId, keyId: key }, at, {
              status,
              durationMs,
              route,
              admitted,
              counted: admitted,
              count: admitted ? 1 : count,
            });
          });
          const reading = readingLog(accountId, now);
          await write(entries.slice(0, split));
          await readUsage(await refreshRollUps(reading), { window: "30d" });
          await write(entries);
          for (const window of Object.keys(windowHours) as WindowName[]) {
            for (const keyId of [undefined, "key_a"]) {
              const usage = await readUsage(await refreshRollUps(reading), { window, keyId });
              const own = entries.filter((entry) => keyId === undefined || entry.keyId === keyId);
              const current = plainly(own, usage.window.from, usage.window.to);
              const former = plainly(own, usage.previous.from, usage.previous.to);
              expect(usage.totalRequests).toEqual({
                value: current.requests,
                previous: former.requests,
                changePercent: former.requests === 0 ? null : twoDecimals(((current.requests - former.requests) / former.requests) * 100),
              });
              const change = (value: number | null, previous: number | null) =>
                value === null || previous === null ? null : twoDecimals(value - previous);
              expect(usage.successRate).toEqual({
                value: current.rate,
                previous: former.rate,
                changePoints: change(current.rate, former.rate),
              });
              expect(usage.avgResponseTimeMs).toEqual({
                value: current.average,
                previous: former.average,
                changeMs: change(current.average, former.average),
              });
              for (const [index, exact] of current.percentiles.entries()) {
                const shown = [usage.p50Ms, usage.p95Ms, usage.p99Ms][index] as number;
                if (exact === null) expect(shown).toBeNull();
                else expect(Math.abs(shown - exact)).toBeLessThanOrEqual(exact * 0.05);
              }
              expect(usage.byClass).toEqual(current.byClass);
              const stepMs = window === "24h" ? hourMs : dayMs;
              expect(usage.series[0]?.start).toBe(usage.window.from - (usage.window.from % stepMs));
              for (const [index, { start, requests, successes, averageMs, p50Ms, p95Ms, p99Ms }] of usage.series.entries()) {
                expect(start).toBe((usage.series[0]?.start ?? 0) + index * stepMs);
                const bar = plainly(own, Math.max(start, usage.window.from), Math.min(start + stepMs, usage.window.to));
                expect([requests, successes, averageMs]).toEqual([bar.requests, bar.successes, bar.average]);
                for (const [place, exact] of bar.percentiles.entries()) {
                  const shown = [p50Ms, p95Ms, p99Ms][place] as number;
                  if (exact === null) expect(shown).toBeNull();
                  else expect(Math.abs(shown - exact)).toBeLessThanOrEqual(exact * 0.05);
                }
              }
            }
          }
          for (const window of Object.keys(windowHours) as WindowName[]) {
            const inWindow = await readHours(await refreshRollUps(reading), { window });
            const { from, to } = windowsAt(window, now).window;
            const fullest = Math.max(0, ...inWindow.map(({ requests }) => requests));
            expect(busiestOf(inWindow)?.requests ?? 0).toBe(fullest);
            for (const { start, requests } of inWindow)
              expect(requests).toBe(plainly(entries, Math.max(start, from), Math.min(start + hourMs, to)).requests);
            const week = weekOf(inWindow);
            for (const [day, hours] of week.entries())
              for (const [hour, requests] of hours.entries()) {
                const own = entries.filter(({ id }) => {
                  const date = new Date(timeOfId(id));
                  return (date.getUTCDay() + 6) % 7 === day && date.getUTCHours() === hour;
                });
                expect(requests).toBe(plainly(own, from, to).requests);
              }
            for (const by of ["key", "route", "status", "day"] as const) {
              for (const only of [undefined, "key_a"]) {
                const all = entries.filter((entry) => only === undefined || entry.keyId === only);
                const { window: span, shares } = await readBreakdown(await refreshRollUps(reading), { window, by, keyId: only });
                expect(span).toEqual(windowsAt(window, now).window);
                expect(shares.reduce((sum, share) => sum + share.requests, 0)).toBe(plainly(all, span.from, span.to).requests);
                for (const share of shares) {
                  const own = all.filter(
                    ({ keyId, route, status, id }) =>
                      ({ key: keyId, route, status: String(status), day: new Date(timeOfId(id)).toISOString().slice(0, 10) })[by] ===
                      share.value,
                  );
                  const exact = plainly(own, span.from, span.to);
                  expect([share.requests, share.successes, share.averageMs]).toEqual([exact.requests, exact.successes, exact.average]);
                }
              }
            }
          }
        }),
      ),
      { numRuns: 25 },
    );
  }, 120_000);

  it("never show 100 % for less, nor 0 % for nothing", () => {
    const tally = (status: number, requests: number): Tally => ({ status, requests, admitted: requests, durationMs: 0 });
    expect(figuresOf([tally(200, 999_999), tally(500, 1)], [], new Map()).successRate.value).toBe(99.99);
    expect(figuresOf([tally(200, 5)], [], new Map()).successRate.value).toBe(100);
    expect(figuresOf([tally(500, 5)], [], new Map()).successRate.value).toBe(0);
    expect(figuresOf([], [], new Map()).successRate.value).toBeNull();
  });

  it("change against the previous month by what is shown", () => {
    const tally = (status: number, requests: number, durationMs: number): Tally => ({ status, requests, admitted: requests, durationMs });
    const figures = figuresOf(
      [tally(200, 124_563, 124_563 * 30)],
      [tally(200, 110_000, 110_000 * 42), tally(404, 700, 700 * 42)],
      new Map(),
    );
    expect(figures.totalRequests).toEqual({ value: 124_563, previous: 110_700, changePercent: 12.52 });
    expect(figures.successRate).toEqual({ value: 100, previous: 99.37, changePoints: 0.63 });
    expect(figures.avgResponseTimeMs).toEqual({ value: 30, previous: 42, changeMs: -12 });
  });
});

describe("A window", () => {
  it("is the current hour and the full hours before it; the previous one ends where it begins", () => {
    const { window, previous } = windowsAt("30d", Date.UTC(2026, 2, 31, 10, 59, 59, 999));
    expect([window.from, window.to].map((at) => new Date(at).toISOString())).toEqual([
      "2026-03-01T11:00:00.000Z",
      "2026-03-31T11:00:00.000Z",
    ]);
    expect(window.to - window.from).toBe(720 * hourMs);
    expect([previous.to, previous.to - previous.from]).toEqual([window.from, 720 * hourMs]);
  });
});

describe("A percentile", () => {
  it("is the nearest rank", () => {
    const histogram = new Map([
      [5, 50],
      [10, 45],
      [100, 5],
    ]);
    expect([0.5, 0.51, 0.95, 0.96, 1].map((share) => percentile(histogram, share))).toEqual([5, 10, 10, 100, 100]);
    expect(percentile(new Map(), 0.5)).toBeNull();
  });
});

describe("The rate-limit usage of an account", () => {
  const highestUsage = async (key: string) => (await call("GET", "/api/v1/usage", { key })).body.rate_limit;

  it("is the live key with the highest share, of equals the older", async () => {
    const tenant = await makeTenant();
    const [small, large] = [await makeKey(tenant.accountId, { hourlyLimit: 10 }), await makeKey(tenant.accountId, { hourlyLimit: 1000 })];
    expect(await highestUsage(tenant.key)).toMatchObject({ key_id: tenant.keyId });
    await Promise.all(Array.from({ length: 4 }, () => call("GET", "/api/v1/me", { key: small.key })));
    await Promise.all(Array.from({ length: 40 }, () => call("GET", "/api/v1/me", { key: large.key })));
    const seen = await within2s(
      () => highestUsage(tenant.key),
      ({ key_id: keyId }) => keyId === small.keyId,
    );
    // The figures are the guard's own. It counts on from what it had reserved where another test has ended it meanwhile: so 4 or more.
    const [own] = (await call("GET", "/api/v1/rate-limit", { key: small.key })).body.policies;
    expect(own.used).toBeGreaterThanOrEqual(4);
    expect(seen).toMatchObject({ key_id: small.keyId, used: own.used, limit: 10, percent: own.used * 10 });
    await call("DELETE", `/api/v1/keys/${small.keyId}`, { key: tenant.key });
    expect((await highestUsage(tenant.key)).key_id).not.toBe(small.keyId);
  });

  it("of a key that is not the account's is not found", async () => {
    const [one, other] = [await makeTenant(), await makeTenant()];
    for (const path of ["usage?", "usage/breakdown?by=day&"]) {
      expect((await call("GET", `/api/v1/${path}key_id=${one.keyId}`, { key: other.key })).status).toBe(404);
    }
  });
});
