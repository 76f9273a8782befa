import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { dayMs, dayStart, hourMs, hourStart, minuteMs } from "../../../src/lib/time/clock.ts";
import { activityDays } from "../../../src/log/retention.ts";
import { writerAt } from "../../../src/log/writers.ts";
import { deleteOldResponses } from "../../../src/outbox/idempotency/store.ts";
import { readUsage } from "../../../src/usage/read-usage.ts";
import { deleteOldUsage } from "../../../src/usage/retention.ts";
import { openSnapshot } from "../../../src/usage/usage-snapshot.ts";
import { call, cron, db, makeTenant, readingLog } from "../support/client.ts";
import { d1With, type RecordedStatement } from "../support/d1.ts";
import { entryOf, flush, write } from "../support/entries.ts";
import { countEntries, readEntries, readEntryIds } from "../support/log-rows.ts";
import { countSegments } from "../support/log-writers.ts";
import { ageStoredResponses, countRows, deleteJobs, insertJob, queryPlanOf } from "../support/storage-rows.ts";

const readMonthlyUsage = async (accountId: string, now: number) =>
  readUsage(await openSnapshot(readingLog(accountId, now)), { window: "30d" });

/** Copies the only segment of an account. */
const copySegment = (accountId: string, copies: number) =>
  env.ACTIVITY_0.prepare(
    `INSERT INTO activity_segments (id, account_id, first_id, last_id, entries, requests, summary, body)
      WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ?2)
      SELECT id + n, account_id, first_id, last_id, entries, requests, summary, body FROM activity_segments, counted WHERE account_id = ?1`,
  )
    .bind(accountId, copies)
    .run();

async function setRetentionDays(accountId: string, days: number): Promise<void> {
  await env.DB.prepare("UPDATE accounts SET retention_days = ? WHERE id = ?").bind(days, accountId).run();
}

/**
 * Runs every scheduled job as if the time were `now`, even if the job ran a moment ago. Retention continues at the account `first`. A run does a limited amount
 * of work, so from the first account on it would reach the accounts of this test only if other tests had left few accounts.
 */
async function runAllJobs(now: number, { accountId }: { accountId: string }): Promise<void> {
  await deleteJobs();
  for (const name of ["delete_old_log_entries", "delete_old_usage"]) await insertJob(name, accountId.slice(0, -1), now - minuteMs, true);
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
  // totals.
  const now = dayStart(Date.now()) - 12 * hourMs;
  const daysAgo = (days: number) => entryOf(tenant, now - days * dayMs - 1, { ip: "198.51.100.1" });
  const entries = [daysAgo(59.9), daysAgo(40), daysAgo(31.1), daysAgo(30.9), daysAgo(29.9), daysAgo(7.1), daysAgo(6.9), daysAgo(0)];
  await write(entries);
  await flush(tenant);
  const before = await readMonthlyUsage(tenant.accountId, now);
  await runAllJobs(now, tenant);
  const rows = await readEntries(tenant.accountId);
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
  for (const tenant of [shorter, longer]) {
    await write(days.map((day) => entryOf(tenant, now - day * dayMs)));
    await flush(tenant);
  }
  await runAllJobs(now, shorter);
  expect([await countEntries(shorter.accountId), await countEntries(longer.accountId)]).toEqual([1, 4]);
});

it("Readers hide entries that are past their retention, even if their segment also has newer entries", async () => {
  const tenant = await makeTenant();
  const now = Date.now();
  const start = hourStart(now - 31 * dayMs);
  const [older, newer] = [entryOf(tenant, start - 1), entryOf(tenant, start + 1)];
  await write([older, newer]);
  await flush(tenant);
  await writerAt(env, "ACTIVITY_0/0").deleteOld([{ accountId: tenant.accountId, days: 31 }], now);
  const ids = await readEntryIds(tenant.accountId);
  // If the retention starts at midnight, the two entries are in different segments, and the older segment is deleted.
  expect(ids).toEqual([newer.id]);
  expect((await call("GET", `/api/v1/activity/${older.id}`, { key: tenant.key })).status).toBe(404);
});

it("Old segments are deleted in chunks of 500", async () => {
  const tenant = await makeTenant();
  const now = Date.now();
  await write([entryOf(tenant, now - 40 * dayMs)]);
  await flush(tenant);
  await copySegment(tenant.accountId, 620);
  const writer = writerAt(env, "ACTIVITY_0/0");
  const retentions = [{ accountId: tenant.accountId, days: 31 }];
  expect([await writer.deleteOld(retentions, now), await countSegments(tenant.accountId)]).toEqual([true, 121]);
  expect([await writer.deleteOld(retentions, now), await countSegments(tenant.accountId)]).toEqual([false, 0]);
});

it("An entry from before the start of its account's log is rejected and reported, and the rest of its batch is written", async () => {
  const tenant = await makeTenant();
  const now = Date.now();
  const writer = writerAt(env, "ACTIVITY_0/0");
  await writer.deleteOld([{ accountId: tenant.accountId, days: 31 }], now);
  const newer = entryOf(tenant, now - 29 * dayMs);
  const before = (await writer.status()).lost.tooOld;
  await write([entryOf(tenant, now - 32.1 * dayMs), newer]);
  expect((await writer.status()).lost.tooOld).toBe(before + 1);
  expect(await readEntryIds(tenant.accountId)).toEqual([newer.id]);
});

it("The statements that delete old usage use an index for any number of other accounts", async () => {
  const { d1, statements } = recordStatements();
  await deleteOldUsage(d1, ["acc_1"], Date.now());
  expect(statements).toHaveLength(2);
  for (const statement of statements) {
    const scans = (await queryPlanOf(statement, env.ACTIVITY_0)).filter((step) => step.startsWith("SCAN"));
    for (const scan of scans) expect(scan, statement.query).toMatch(/VIRTUAL TABLE|\(subquery/);
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
