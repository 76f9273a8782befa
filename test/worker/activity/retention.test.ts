import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { activityDays, deleteOldEntries } from "../../../src/activity/retention.ts";
import { deleteOldResponses } from "../../../src/idempotency/store.ts";
import { dayMs, dayStart, hourMs, hourStart } from "../../../src/time/clock.ts";
import { readUsage } from "../../../src/usage/read-usage.ts";
import { refreshRollUps } from "../../../src/usage/refresh-roll-ups.ts";
import { call, cron, db, makeTenant, readingLog } from "../support/client.ts";
import { entryOf, write } from "../support/entries.ts";

const rows = async (accountId: string) =>
  (await env.ACTIVITY_0.prepare("SELECT id, ip FROM activity WHERE account_id = ? ORDER BY id").bind(accountId).all()).results;

const usageOf = async (accountId: string, now: number) => readUsage(await refreshRollUps(readingLog(accountId, now)), { window: "30d" });

/** The jobs as of `at`, as if none had run before. */
async function firstRun(at: number): Promise<void> {
  await env.DB.prepare("DELETE FROM jobs").run();
  await cron(at);
}

it("Entries are deleted after 31 days, with their addresses; figures that are still shown stay as they were", async () => {
  const tenant = await makeTenant();
  // At noon, so that the windows begin in the middle of a day, whose hours they need.
  const now = dayStart(Date.now()) - 12 * hourMs;
  const at = (days: number) => entryOf(tenant, now - days * dayMs - 1, { ip: "198.51.100.1" });
  const entries = [at(59.9), at(40), at(31.1), at(30.9), at(29.9), at(7.1), at(6.9), at(0)];
  await write(entries);
  const before = await usageOf(tenant.accountId, now);
  await firstRun(now);
  expect(await rows(tenant.accountId)).toEqual(entries.slice(3).map(({ id }) => ({ id, ip: "198.51.100.1" })));
  const after = await usageOf(tenant.accountId, now);
  expect(after).toEqual(before);
  expect([after.totalRequests.value, after.totalRequests.previous]).toEqual([4, 4]);
});

it("An account may have a number of days of its own, fewer or more than the others", async () => {
  const [brief, long] = [await makeTenant(), await makeTenant()];
  await env.DB.prepare("UPDATE accounts SET keep_days = iif(id = ?, 2, 90) WHERE id IN (?, ?)")
    .bind(brief.accountId, brief.accountId, long.accountId)
    .run();
  const now = hourStart(Date.now());
  const days = [80, 40, 3, 1];
  for (const tenant of [brief, long]) await write(days.map((day) => entryOf(tenant, now - day * dayMs)));
  await firstRun(now);
  expect([(await rows(brief.accountId)).length, (await rows(long.accountId)).length]).toEqual([1, 4]);
});

it("One run of the job deletes more than one batch holds, and leaves what is kept", async () => {
  const tenant = await makeTenant();
  const now = hourStart(Date.now());
  const many = (days: number) => Array.from({ length: 6000 }, (_, index) => entryOf(tenant, now - days * dayMs + index));
  await write([...many(40), ...many(20)]);
  await firstRun(now);
  expect((await rows(tenant.accountId)).length).toBe(6000);
});

it("Entries go in chunks of 5,000, and each chunk stands though the next one fails; the next run goes on from there", async () => {
  const tenant = await makeTenant();
  const now = Date.now();
  await write(Array.from({ length: 5200 }, (_, index) => entryOf(tenant, now - 40 * dayMs + index)));
  const keepings = [{ accountId: tenant.accountId, days: 31 }];
  expect(await deleteOldEntries(env.ACTIVITY_0, keepings, now)).toEqual({ entries: 5000, hasMore: true });
  expect((await rows(tenant.accountId)).length).toBe(200);
  // Between two chunks nothing is taken from before the log's start, nor computed from the part that is left.
  const before = await usageOf(tenant.accountId, now);
  await write([entryOf(tenant, now - 40 * dayMs)]);
  expect((await rows(tenant.accountId)).length).toBe(200);
  expect((await usageOf(tenant.accountId, now)).totalRequests).toEqual(before.totalRequests);
  expect(await deleteOldEntries(env.ACTIVITY_0, keepings, now)).toEqual({ entries: 200, hasMore: false });
  expect((await rows(tenant.accountId)).length).toBe(0);
});

it("An entry from before the start of its account's log is refused and reported, and the rest of its batch is written", async () => {
  const tenant = await makeTenant();
  const now = Date.now();
  await write([entryOf(tenant, now - 40 * dayMs)]);
  await deleteOldEntries(env.ACTIVITY_0, [{ accountId: tenant.accountId, days: 31 }], now);
  const fresh = entryOf(tenant, now - 29 * dayMs);
  const reported = vi.spyOn(console, "error");
  await write([entryOf(tenant, now - 32.1 * dayMs), fresh]);
  expect(reported.mock.calls.flat().join(" ")).toContain("1 activity entries are older");
  reported.mockRestore();
  expect((await rows(tenant.accountId)).map(({ id }) => id)).toEqual([fresh.id]);
});

it("Statements of retention go by an index, with any number of other accounts", async () => {
  const plans: string[] = [];
  const explained = new Proxy(env.ACTIVITY_0, {
    get: (target, name) => {
      if (name !== "prepare") return Reflect.get(target, name).bind(target);
      return (query: string) => ({
        bind: (...values: unknown[]) => {
          const plan = target.prepare(`EXPLAIN QUERY PLAN ${query}`).bind(...values);
          plans.push(query);
          return plan;
        },
      });
    },
  });
  const outcomes: { detail: string }[][] = [];
  const collecting = new Proxy(explained, {
    get: (target, name) =>
      name === "batch"
        ? async (statements: D1PreparedStatement[]) => {
            const found = await env.ACTIVITY_0.batch<{ detail: string }>(statements);
            outcomes.push(...found.map(({ results }) => results));
            return found;
          }
        : Reflect.get(target, name),
  });
  await deleteOldEntries(collecting, [{ accountId: "acc_1", days: 31 }], Date.now());
  const { deleteOldUsage } = await import("../../../src/usage/retention.ts");
  await deleteOldUsage(collecting, ["acc_1"], Date.now());
  expect(outcomes).toHaveLength(8);
  for (const [index, plan] of outcomes.entries())
    for (const { detail } of plan) if (/^SCAN/.test(detail)) expect(detail, plans[index]).toMatch(/VIRTUAL TABLE|^SCAN old$|\(subquery/);
});

it("Responses whose 24 hours are over go in the order in which they were stored, without a look at those that stay", async () => {
  const { key, accountId } = await makeTenant();
  for (const name of ["one", "two", "three"]) await call("POST", "/api/v1/tasks", { key, body: { title: name }, "Idempotency-Key": name });
  const count = async () =>
    await env.DB.prepare("SELECT count(*) AS count FROM idempotency_keys WHERE account_id = ?").bind(accountId).first("count");
  await env.DB.prepare(
    "UPDATE idempotency_keys SET created_at = created_at - 90000000 WHERE account_id = ? AND rowid < (SELECT max(rowid) FROM idempotency_keys)",
  )
    .bind(accountId)
    .run();
  await deleteOldResponses(db, Date.now(), 1000);
  expect(await count()).toBe(1);
});

it("ACTIVITY_DAYS is a whole number from 2 to 90", () => {
  expect([activityDays({ ACTIVITY_DAYS: "2" }), activityDays({ ACTIVITY_DAYS: "90" }), activityDays({})]).toEqual([2, 90, 31]);
  for (const wrong of ["", "1", "91", "7.5", "a month"]) expect(() => activityDays({ ACTIVITY_DAYS: wrong })).toThrow("ACTIVITY_DAYS");
});
