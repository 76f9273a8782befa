import fc from "fast-check";
import { describe, expect, inject, it, vi } from "vitest";
import { timeOfId } from "../../../src/lib/ids.ts";
import { dayMs, dayStart, hourMs, hourStart } from "../../../src/lib/time/clock.ts";
import type { Entry } from "../../../src/log/entry.ts";
import { figuresOf, type StatusTotals } from "../../../src/usage/figures.ts";
import { busiestOf, readHours } from "../../../src/usage/hours.ts";
import { type Dimension, dimensions, readBreakdown } from "../../../src/usage/read-breakdown.ts";
import { readUsage } from "../../../src/usage/read-usage.ts";
import { openSnapshot } from "../../../src/usage/usage-snapshot.ts";
import { usageWindowsAt, type WindowName, windowHours } from "../../../src/usage/windows.ts";
import { call, makeKey, makeTenant, readingLog } from "../support/client.ts";
import { invocation } from "../support/counted.ts";
import { entryOf, flush, logDelay, write } from "../support/entries.ts";
import { countEntries } from "../support/log-rows.ts";

/** Waits until the log of an account has exactly `count` entries. */
const waitForLog = (accountId: string, count: number) =>
  vi.waitFor(async () => expect(await countEntries(accountId)).toBe(count), logDelay);

describe("Usage", () => {
  it("counts 80 successful requests and 20 requests with status 404 as 100 requests with a success rate of 80 %", async () => {
    const tenant = await makeTenant();
    const { key, keyId } = await makeKey(tenant.accountId);
    await Promise.all([
      ...Array.from({ length: 80 }, () => call("GET", "/api/v1/me", { key })),
      ...Array.from({ length: 20 }, () => call("GET", "/api/v1/tasks/tsk_none", { key })),
    ]);
    await waitForLog(tenant.accountId, 100);
    const { body: usage } = await call("GET", `/api/v1/usage?key_id=${keyId}`, { key: tenant.key });
    expect(usage.total_requests).toEqual({ value: 100, previous: 0, change_percent: null });
    expect(usage.success_rate).toEqual({ value: 80, previous: null, change_points: null });
    expect(usage.by_class).toEqual({ "2xx": 80, "3xx": 0, "4xx": 20, "429": 0, "5xx": 0, not_reported: 0 });
    expect(usage.rate_limit).toMatchObject({ key_id: keyId, used: 100, limit: 5000, percent: 2 });
    expect(usage.series.at(-1)).toMatchObject({ requests: 100, successes: 80 });
  });
});

const sumOf = (entries: Entry[], read: (entry: Entry) => number) => entries.reduce((sum, entry) => sum + read(entry), 0);

const countWhere = (entries: Entry[], matches: (status: number) => boolean) =>
  sumOf(entries, ({ status, count }) => (status !== null && matches(status) ? count : 0));

const twoDecimals = (value: number) => Math.round(value * 100) / 100;

const difference = (value: number | null, previous: number | null) =>
  value === null || previous === null ? null : twoDecimals(value - previous);

/** Computes the exact usage figures of a time span directly from the log entries. */
function figuresFromEntries(entries: Entry[], from: number, to: number) {
  const inSpan = entries.filter(({ id }) => timeOfId(id) >= from && timeOfId(id) < to);
  const requests = sumOf(inSpan, ({ count }) => count);
  const admitted = inSpan.filter((entry) => entry.admitted);
  const successes = countWhere(inSpan, (status) => status < 400);
  const durations = admitted.flatMap(({ durationMs, count }) => Array<number>(count).fill(durationMs ?? 0)).sort((a, b) => a - b);
  const rank = (share: number) => durations[Math.max(0, Math.ceil(share * durations.length) - 1)] ?? null;
  return {
    requests,
    successes,
    byClass: {
      "2xx": countWhere(inSpan, (status) => status < 300),
      "3xx": countWhere(inSpan, (status) => status >= 300 && status < 400),
      "4xx": countWhere(inSpan, (status) => status >= 400 && status < 500 && status !== 429),
      "429": countWhere(inSpan, (status) => status === 429),
      "5xx": countWhere(inSpan, (status) => status >= 500),
    },
    successRate: requests === 0 ? null : successes === requests ? 100 : Math.min(twoDecimals((successes / requests) * 100), 99.99),
    averageMs: durations.length === 0 ? null : twoDecimals(durations.reduce((sum, each) => sum + each, 0) / durations.length),
    percentiles: [0.5, 0.95, 0.99].map(rank),
  };
}

/** Expects percentiles from a histogram to differ by at most 5 % from the exact percentiles. */
function expectPercentiles(actual: readonly (number | null)[], exact: readonly (number | null)[]): void {
  for (const [index, exactMs] of exact.entries()) {
    if (exactMs === null) expect(actual[index]).toBeNull();
    else expect(Math.abs((actual[index] as number) - exactMs)).toBeLessThanOrEqual(exactMs * 0.05);
  }
}

type Context = ReturnType<typeof readingLog>;

/** Expects the usage figures of a window to match the log entries. */
async function expectUsage(context: Context, entries: Entry[], window: WindowName, keyId: string | undefined): Promise<void> {
  const usage = await readUsage(await openSnapshot(context), { window, keyId });
  const ofKey = entries.filter((entry) => keyId === undefined || entry.keyId === keyId);
  const current = figuresFromEntries(ofKey, usage.window.from, usage.window.to);
  const previous = figuresFromEntries(ofKey, usage.previous.from, usage.previous.to);
  expect(usage.totalRequests).toEqual({
    value: current.requests,
    previous: previous.requests,
    changePercent: previous.requests === 0 ? null : twoDecimals(((current.requests - previous.requests) / previous.requests) * 100),
  });
  expect(usage.successRate).toEqual({
    value: current.successRate,
    previous: previous.successRate,
    changePoints: difference(current.successRate, previous.successRate),
  });
  expect(usage.avgResponseTimeMs).toEqual({
    value: current.averageMs,
    previous: previous.averageMs,
    changeMs: difference(current.averageMs, previous.averageMs),
  });
  expectPercentiles([usage.p50Ms, usage.p95Ms, usage.p99Ms], current.percentiles);
  expect(usage.byClass).toEqual(current.byClass);
  const stepMs = window === "24h" ? hourMs : dayMs;
  expect(usage.series[0]?.start).toBe(usage.window.from - (usage.window.from % stepMs));
  for (const [index, { start, requests, successes, averageMs, p50Ms, p95Ms, p99Ms }] of usage.series.entries()) {
    expect(start).toBe((usage.series[0]?.start ?? 0) + index * stepMs);
    const exact = figuresFromEntries(ofKey, Math.max(start, usage.window.from), Math.min(start + stepMs, usage.window.to));
    expect([requests, successes, averageMs]).toEqual([exact.requests, exact.successes, exact.averageMs]);
    expectPercentiles([p50Ms, p95Ms, p99Ms], exact.percentiles);
  }
}

/** Expects the hourly figures of a window to match the log entries. */
async function expectHours(context: Context, entries: Entry[], window: WindowName): Promise<void> {
  const hours = await readHours(await openSnapshot(context), { window });
  const { from, to } = usageWindowsAt(window, context.now).window;
  expect(busiestOf(hours)?.requests ?? 0).toBe(Math.max(0, ...hours.map(({ requests }) => requests)));
  for (const { start, requests } of hours)
    expect(requests).toBe(figuresFromEntries(entries, Math.max(start, from), Math.min(start + hourMs, to)).requests);
}

/** Expects the usage breakdown of a window to match the log entries. */
async function expectBreakdown(
  context: Context,
  entries: Entry[],
  { window, by, keyId }: { window: WindowName; by: Dimension; keyId: string | undefined },
): Promise<void> {
  const ofKey = entries.filter((entry) => keyId === undefined || entry.keyId === keyId);
  const { window: span, shares } = await readBreakdown(await openSnapshot(context), { window, by, keyId });
  expect(span).toEqual(usageWindowsAt(window, context.now).window);
  expect(shares.reduce((sum, share) => sum + share.requests, 0)).toBe(figuresFromEntries(ofKey, span.from, span.to).requests);
  for (const share of shares) {
    const ofShare = ofKey.filter((entry) => {
      const day = new Date(timeOfId(entry.id)).toISOString().slice(0, 10);
      return { key: entry.keyId, route: entry.route, status: String(entry.status), day }[by] === share.value;
    });
    const exact = figuresFromEntries(ofShare, span.from, span.to);
    expect([share.requests, share.successes, share.averageMs]).toEqual([exact.requests, exact.successes, exact.averageMs]);
  }
}

describe("The usage figures", () => {
  const now = Date.UTC(2026, 10, 21, 7, 31, 12);
  const windowNames = Object.keys(windowHours) as WindowName[];
  const windowEdges = windowNames.flatMap((name) => {
    const { window, previous } = usageWindowsAt(name, now);
    return [window.from, window.to, previous.from];
  });
  const time = fc.oneof(
    fc.integer({ min: now - 61 * dayMs, max: now }),
    fc
      .constantFrom(...windowEdges, dayStart(now), hourStart(now), dayStart(now) - 3 * dayMs)
      .chain((edge) => fc.constantFrom(edge - 1, edge, edge + 1)),
  );
  const traffic = fc.array(
    fc.record({
      timeMs: time,
      status: fc.constantFrom(200, 200, 201, 304, 401, 403, 404, 422, 429, 500, 503),
      durationMs: fc.oneof(fc.integer({ min: 0, max: 120 }), fc.integer({ min: 0, max: 90_000 })),
      count: fc.constantFrom(1, 1, 1, 7),
      route: fc.constantFrom("/api/v1/tasks", "/api/v1/users/{id}"),
      keyId: fc.constantFrom("key_a", "key_b"),
    }),
    { maxLength: 60 },
  );

  it("equal figures that are computed from single log entries, for any traffic", { tags: ["long"], timeout: 120_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(traffic, fc.integer({ min: 0, max: 60 }), (requests, firstBatchSize) =>
        invocation("one traffic", async () => {
          const accountId = `acc_${crypto.randomUUID()}`;
          const entries = requests.map(({ timeMs, status, durationMs, count, route, keyId }) => {
            const admitted = ![401, 403, 429].includes(status);
            const more = { status, durationMs, route, admitted, counted: admitted, count: admitted ? 1 : count };
            return entryOf({ accountId, keyId }, timeMs, more);
          });
          const context = readingLog(accountId, now);
          // Some of the entries are in segments, and the others are in the head.
          await write(entries.slice(0, firstBatchSize));
          await flush({ accountId });
          await write(entries.slice(firstBatchSize));
          for (const window of windowNames) {
            for (const keyId of [undefined, "key_a"]) {
              await expectUsage(context, entries, window, keyId);
              for (const by of dimensions) await expectBreakdown(context, entries, { window, by, keyId });
            }
            await expectHours(context, entries, window);
          }
        }),
      ),
      { numRuns: inject("isLong") ? 15 : 6 },
    );
  });

  it("never round a success rate up to 100 %, and have no success rate without requests", () => {
    const rollup = (status: number, requests: number): StatusTotals => ({ status, requests, timed: requests, durationMs: 0 });
    expect(figuresOf([rollup(200, 999_999), rollup(500, 1)], [], new Map()).successRate.value).toBe(99.99);
    expect(figuresOf([rollup(200, 5)], [], new Map()).successRate.value).toBe(100);
    expect(figuresOf([rollup(500, 5)], [], new Map()).successRate.value).toBe(0);
    expect(figuresOf([], [], new Map()).successRate.value).toBeNull();
  });
});

describe("A usage window", () => {
  it("is the current hour and the full hours before it, and follows directly on the previous window", () => {
    const { window, previous } = usageWindowsAt("30d", Date.UTC(2026, 2, 31, 10, 59, 59, 999));
    expect([window.from, window.to].map((at) => new Date(at).toISOString())).toEqual([
      "2026-03-01T11:00:00.000Z",
      "2026-03-31T11:00:00.000Z",
    ]);
    expect(window.to - window.from).toBe(720 * hourMs);
    expect([previous.to, previous.to - previous.from]).toEqual([window.from, 720 * hourMs]);
  });
});

describe("The rate limit usage of an account", () => {
  const readHighestUsage = async (key: string) => (await call("GET", "/api/v1/usage", { key })).body.rate_limit;

  it("shows the live key with the highest share of its limit", async () => {
    const tenant = await makeTenant();
    const lowLimit = await makeKey(tenant.accountId, { hourlyLimit: 10 });
    const highLimit = await makeKey(tenant.accountId, { hourlyLimit: 1000 });
    // No request has used the two new keys yet.
    expect(await readHighestUsage(tenant.key)).toMatchObject({ key_id: tenant.keyId });
    await Promise.all(Array.from({ length: 4 }, () => call("GET", "/api/v1/me", { key: lowLimit.key })));
    await Promise.all(Array.from({ length: 40 }, () => call("GET", "/api/v1/me", { key: highLimit.key })));
    await waitForLog(tenant.accountId, 45);
    const highest = await readHighestUsage(tenant.key);
    // If another test crashes the guard, the guard counts its whole reservation as used. The number of used requests may then be higher
    // than 4.
    const [policy] = (await call("GET", "/api/v1/rate-limit", { key: lowLimit.key })).body.policies;
    expect(policy.used).toBeGreaterThanOrEqual(4);
    expect(highest).toMatchObject({ key_id: lowLimit.keyId, used: policy.used, limit: 10, percent: policy.used * 10 });
    await call("DELETE", `/api/v1/keys/${lowLimit.keyId}`, { key: tenant.key });
    expect((await readHighestUsage(tenant.key)).key_id).not.toBe(lowLimit.keyId);
  });
});
