import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { activityDays, deleteOldEntries } from "../../../src/activity/retention.ts";
import { deleteOldResponses } from "../../../src/idempotency/store.ts";
import { dayMs, dayStart, hourMs, hourStart } from "../../../src/time/clock.ts";
import { readUsage } from "../../../src/usage/read-usage.ts";
import { refreshRollUps } from "../../../src/usage/refresh-roll-ups.ts";
import { deleteOldUsage } from "../../../src/usage/retention.ts";
import { call, cron, db, makeTenant, readingLog } from "../support/client.ts";
import { d1With, type RecordedStatement } from "../support/d1.ts";
import { entryOf, write } from "../support/entries.ts";
import { countActivityRows, readActivityIds, readActivityRows } from "../support/log-rows.ts";
import { ageStoredResponses, countRows, deleteJobs, queryPlanOf } from "../support/storage-rows.ts";

const readMonthlyUsage = async (accountId: string, now: number) =>
  readUsage(await refreshRollUps(readingLog(accountId, now)), { window: "30d" });

async function setRetentionDays(accountId: string, days: number): Promise<void> {
  await env.DB.prepare("UPDATE accounts SET keep_days = ? WHERE id = ?").bind(days, accountId).run();
}

/** Runs every scheduled job as if the time were `now`, even if the job ran a moment ago. */
async function runAllJobs(now: number): Promise<void> {
  await deleteJobs();
  await cron(now);
}

/** Returns the activity database, and a list of the statements that are prepared on this database. */
function recordStatements() {
  const statements: RecordedStatement[] = [];
  const prepare = (query: string) => ({
    bind(...values: unknown[]) {
      statements.push({ query, values });
      return env.ACTIVITY_0.prepare(query).bind(...values);
    },
  });
  return { d1: d1With(env.ACTIVITY_0, { prepare }), statements };
}

it("Log entries and their IP addresses are deleted after 31 days, and the usage that is still shown does not change", async () => {
  const tenant = await makeTenant();
  // The time is noon, so each window begins in the middle of a day. The figures for the first day of a window therefore need the hourly
  // roll-ups.
  const now = dayStart(Date.now()) - 12 * hourMs;
  const daysAgo = (days: number) => entryOf(tenant, now - days * dayMs - 1, { ip: "198.51.100.1" });
  const entries = [daysAgo(59.9), daysAgo(40), daysAgo(31.1), daysAgo(30.9), daysAgo(29.9), daysAgo(7.1), daysAgo(6.9), daysAgo(0)];
  await write(entries);
  const before = await readMonthlyUsage(tenant.accountId, now);
  await runAllJobs(now);
  const rows = await readActivityRows(tenant.accountId);
  expect(rows.map(({ id, ip }) => ({ id, ip }))).toEqual(entries.slice(3).map(({ id }) => ({ id, ip: "198.51.100.1" })));
  const after = await readMonthlyUsage(tenant.accountId, now);
  expect(after).toEqual(before);
  expect([after.totalRequests.value, after.totalRequests.previous]).toEqual([4, 4]);
});

it("An account can have a shorter or a longer log retention than other accounts", async () => {
  const [shorter, longer] = [await makeTenant(), await makeTenant()];
  await setRetentionDays(shorter.accountId, 2);
  await setRetentionDays(longer.accountId, 90);
  const now = hourStart(Date.now());
  const days = [80, 40, 3, 1];
  for (const tenant of [shorter, longer]) await write(days.map((day) => entryOf(tenant, now - day * dayMs)));
  await runAllJobs(now);
  expect([await countActivityRows(shorter.accountId), await countActivityRows(longer.accountId)]).toEqual([1, 4]);
});

it("One run of the retention job deletes more entries than one batch holds, and keeps newer entries", async () => {
  const tenant = await makeTenant();
  const now = hourStart(Date.now());
  const entriesOf = (days: number) => Array.from({ length: 6000 }, (_, index) => entryOf(tenant, now - days * dayMs + index));
  await write([...entriesOf(40), ...entriesOf(20)]);
  await runAllJobs(now);
  expect(await countActivityRows(tenant.accountId)).toBe(6000);
});

it("Old entries are deleted in chunks of 5,000, and an interruption between two chunks leaves correct figures", async () => {
  const tenant = await makeTenant();
  const now = Date.now();
  await write(Array.from({ length: 5200 }, (_, index) => entryOf(tenant, now - 40 * dayMs + index)));
  const retentions = [{ accountId: tenant.accountId, days: 31 }];
  expect(await deleteOldEntries(env.ACTIVITY_0, retentions, now)).toEqual({ entries: 5000, hasMore: true });
  expect(await countActivityRows(tenant.accountId)).toBe(200);
  // Between two chunks, the log rejects new entries that are older than its retention. Some old entries are not deleted yet, but they do
  // not change any figure.
  const before = await readMonthlyUsage(tenant.accountId, now);
  await write([entryOf(tenant, now - 40 * dayMs)]);
  expect(await countActivityRows(tenant.accountId)).toBe(200);
  expect((await readMonthlyUsage(tenant.accountId, now)).totalRequests).toEqual(before.totalRequests);
  expect(await deleteOldEntries(env.ACTIVITY_0, retentions, now)).toEqual({ entries: 200, hasMore: false });
  expect(await countActivityRows(tenant.accountId)).toBe(0);
});

it("An entry from before the start of its account's log is rejected and reported, and the rest of its batch is written", async () => {
  const tenant = await makeTenant();
  const now = Date.now();
  await write([entryOf(tenant, now - 40 * dayMs)]);
  await deleteOldEntries(env.ACTIVITY_0, [{ accountId: tenant.accountId, days: 31 }], now);
  const newer = entryOf(tenant, now - 29 * dayMs);
  const reported = vi.spyOn(console, "error");
  await write([entryOf(tenant, now - 32.1 * dayMs), newer]);
  expect(reported.mock.calls.flat().join(" ")).toContain("1 activity entries are older");
  reported.mockRestore();
  expect(await readActivityIds(tenant.accountId)).toEqual([newer.id]);
});

it("The statements that delete old log entries and old usage use an index for any number of other accounts", async () => {
  const { d1, statements } = recordStatements();
  await deleteOldEntries(d1, [{ accountId: "acc_1", days: 31 }], Date.now());
  await deleteOldUsage(d1, ["acc_1"], Date.now());
  expect(statements).toHaveLength(8);
  for (const statement of statements) {
    const scans = (await queryPlanOf(statement, env.ACTIVITY_0)).filter((step) => step.startsWith("SCAN"));
    for (const scan of scans) expect(scan, statement.query).toMatch(/VIRTUAL TABLE|^SCAN old$|\(subquery/);
  }
});

it("Stored responses are deleted after 24 hours, oldest first, and newer responses stay", async () => {
  const { key, accountId } = await makeTenant();
  const createTask = (name: string) => call("POST", "/api/v1/tasks", { key, body: { title: name }, "Idempotency-Key": name });
  await createTask("one");
  await createTask("two");
  await ageStoredResponses(accountId, 25 * hourMs);
  await createTask("three");
  await deleteOldResponses(db, Date.now(), 1000);
  expect(await countRows("idempotency_keys", accountId)).toBe(1);
});

it("ACTIVITY_DAYS must be a whole number from 2 to 90", () => {
  expect([activityDays({ ACTIVITY_DAYS: "2" }), activityDays({ ACTIVITY_DAYS: "90" }), activityDays({})]).toEqual([2, 90, 31]);
  for (const invalid of ["", "1", "91", "7.5", "a month"]) expect(() => activityDays({ ACTIVITY_DAYS: invalid })).toThrow("ACTIVITY_DAYS");
});
