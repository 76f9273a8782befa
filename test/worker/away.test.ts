import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { connect } from "../../src/db/client.ts";
import { measureDatabases } from "../../src/db/database-sizes.ts";
import { jobs } from "../../src/jobs/jobs.ts";
import { dayMs, dayStart, hourMs, hourStart } from "../../src/lib/time/clock.ts";
import { leastBusyWriter, writerAt } from "../../src/log/writers.ts";
import { onDelete } from "../../src/resources/on-delete.ts";
import { readLastUse } from "../../src/usage/last-uses.ts";
import { readDays } from "../../src/usage/read-periods.ts";
import { deleteOldUsage } from "../../src/usage/retention.ts";
import { sweepDeliveries } from "../../src/webhooks/deliveries/sweep.ts";
import { db, makeTenant, readingLog } from "./support/client.ts";
import { invocation } from "./support/counted.ts";
import { entryOf, flush, write } from "./support/entries.ts";
import { countEntries } from "./support/log-rows.ts";
import { readStoredCounts } from "./support/storage-rows.ts";

// If a database or a queue hangs, fails or is overloaded, other work is not delayed.

const never = () => new Promise(() => {});
const hangingStatement = { bind: () => hangingStatement, all: never, first: never, run: never, raw: never };
const hangingD1 = { prepare: () => hangingStatement, batch: never } as unknown as D1Database;

const jobNamed = (name: string) => {
  const job = jobs.find((each) => each.name === name);
  if (!job) throw new Error(`there is no job ${name}`);
  return job;
};
const jobContext = (bindings: Env, atMost: number) => ({
  env: bindings,
  now: Date.now(),
  outbox: { db },
  onDelete,
  deliver: async () => {},
  cursor: "",
  atMost,
  endsAt: Date.now() + 5000,
});

const deleteMeasurements = () => env.DB.prepare("DELETE FROM database_sizes").run();
const readMeasuredDatabases = async () =>
  (await env.DB.prepare("SELECT binding FROM database_sizes").all<{ binding: string }>()).results.map(({ binding }) => binding);

const setLogWriter = (accountId: string, logWriter: string) =>
  env.DB.prepare("UPDATE accounts SET log_writer = ? WHERE id = ?").bind(logWriter, accountId).run();

/** Inserts events that are older than their retention. */
const insertOldEvents = (accountId: string, count: number) =>
  env.DB.prepare(
    `INSERT INTO events (account_id, id, type, data, created_at, sequence)
      WITH RECURSIVE counted (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM counted WHERE n < ?2 - 1)
      SELECT ?1, 'evt_000000000001' || printf('%020x', n), 'task.created', '{}', 1, n FROM counted`,
  )
    .bind(accountId, count)
    .run();

/** Inserts deliveries that are older than their retention. */
const insertOldDeliveries = (accountId: string, count: number) =>
  env.DB.prepare(
    `INSERT INTO deliveries (id, account_id, webhook_id, event_id, event_type, status, attempts_made, claimed_until, created_at)
      WITH RECURSIVE counted (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM counted WHERE n < ?2 - 1)
      SELECT 'dlv_000000000001' || printf('%020x', n), ?1, 'whk_1', 'evt_1', 'task.created', 'delivered', 1, 0, 1 FROM counted`,
  )
    .bind(accountId, count)
    .run();

/** Inserts twelve pending deliveries that are long overdue. */
const insertOverdueDeliveries = (accountId: string, webhookId: string) =>
  env.DB.prepare(
    `INSERT INTO deliveries
      (id, account_id, webhook_id, event_id, event_type, status, attempts_made, next_attempt_at, claimed_until, created_at)
      SELECT 'dlv_away' || lower(hex(randomblob(12))), ?, ?, 'evt_1', 'task.created', 'pending', 0, 1000, 0, 1000
      FROM json_each('[1,2,3,4,5,6,7,8,9,10,11,12]')`,
  )
    .bind(accountId, webhookId)
    .run();

const markDelivered = async (deliveryId: string): Promise<string> =>
  (await env.DB.prepare("UPDATE deliveries SET status = 'delivered' WHERE id = ? RETURNING webhook_id")
    .bind(deliveryId)
    .first<string>("webhook_id")) ?? "";

const deleteDeliveriesOf = (accountId: string) => env.DB.prepare("DELETE FROM deliveries WHERE account_id = ?").bind(accountId).run();

describe("A database that hangs or fails", () => {
  it("does not prevent the measurement of other databases", async () => {
    await deleteMeasurements();
    await measureDatabases(
      db,
      [
        ["DB", env.DB],
        ["ACTIVITY_7", hangingD1],
      ],
      Date.now(),
    );
    expect(await readMeasuredDatabases()).toEqual(["DB"]);
  });

  it("makes the last use of a key unknown after less than three seconds", async () => {
    const { accountId, keyId } = await makeTenant();
    const startedAt = Date.now();
    expect(await readLastUse({ ...readingLog(accountId), activity: connect(hangingD1) }, keyId)).toMatchObject({ isUseKnown: false });
    expect(Date.now() - startedAt).toBeLessThan(3000);
  });

  it("does not prevent the retention of accounts in other databases", async () => {
    const [hanging, other] = [await makeTenant({}, "ACTIVITY_7/0"), await makeTenant()];
    await write([entryOf(other, hourStart(Date.now()) - 40 * dayMs)]);
    await flush(other);
    const context = {
      ...jobContext(env, 60),
      // The run starts at these two accounts. Otherwise, the run would first process the accounts of all other tests, and could end before
      // these two accounts.
      cursor: hanging.accountId.slice(0, -1),
    };
    const outcome = await jobNamed("delete_old_log_entries")
      .run(context)
      .finally(() => setLogWriter(hanging.accountId, "ACTIVITY_0/0"));
    expect(outcome.errors).not.toEqual([]);
    expect(await countEntries(other.accountId)).toBe(0);
  }, 60_000);

  it("does not prevent the creation of accounts in another database", async () => {
    const failingD1 = { prepare: () => ({ run: () => Promise.reject(new Error("D1_ERROR: away")) }) };
    expect(await leastBusyWriter({ ...env, ACTIVITY_1: failingD1 } as unknown as Env)).toMatch(/^ACTIVITY_0\/\d$/);
  });
});

it("A late entry is counted in the usage of its day while the log keeps the day, and is rejected afterwards", async () => {
  for (const [age, retentionDays, requests] of [
    [62, 31, 24],
    [94, 31, 24],
    [63, 90, 25],
  ] as const) {
    const tenant = await makeTenant();
    const { accountId } = tenant;
    const writer = writerAt(env, "ACTIVITY_0/0");
    const day = dayStart(Date.now()) - age * dayMs;
    await write(Array.from({ length: 24 }, (_, hour) => entryOf(tenant, day + hour * hourMs + 1)));
    await flush(tenant);
    await writer.deleteOld([{ accountId, days: retentionDays }], Date.now());
    while (await deleteOldUsage(env.ACTIVITY_0, [accountId], Date.now()));
    await write([entryOf(tenant, day + 5 * hourMs + 2)]);
    await flush(tenant);
    const [stored] = await readDays(readingLog(accountId), day, 1);
    const cells = [...(stored?.tallies.values() ?? [])].flatMap((tally) => [...tally.cells.values()]);
    expect(
      cells.reduce((sum, cell) => sum + cell.requests, 0),
      `${age} days`,
    ).toBe(requests);
  }
});

it("A scheduled job with more work than one run may do continues in the next run", async () => {
  const { accountId } = await makeTenant();
  await insertOldEvents(accountId, 21_000);
  await insertOldDeliveries(accountId, 6000);
  // Each run of a job is an invocation of its own.
  const run = (name: string, context: ReturnType<typeof jobContext>) => invocation(`a run of ${name}`, () => jobNamed(name).run(context));
  expect((await run("delete_old_deliveries", jobContext(env, 5000))).next).not.toBeNull();
  expect((await run("delete_old_deliveries", jobContext(env, 5000))).next).toBeNull();
  const first = await run("delete_old_history", jobContext(env, 100_000));
  expect(first.next).not.toBeNull();
  // A round reaches all accounts, and other tests have made thousands of them. It can take many runs.
  for (let { next } = first, runs = 0; next !== null && runs < 100; runs++)
    ({ next } = await run("delete_old_history", { ...jobContext(env, 100_000), cursor: next }));
  // One event is too recent to be deleted: the event about the creation of the account's key.
  expect(await readStoredCounts(accountId)).toMatchObject({ events: 1 });
});

it("While the queue is unavailable, the sweep starts deliveries directly, and webhooks take turns", async () => {
  const { accountId } = await makeTenant();
  const webhookIds = Array.from({ length: 5 }, (_, index) => `whk_000away${index}`);
  for (const webhookId of webhookIds) await insertOverdueDeliveries(accountId, webhookId);
  const delivered: string[] = [];
  const queue = { sendBatch: () => Promise.reject(new Error("queue down")) } as unknown as Queue<{ deliveryId: string }>;
  const deliver = async (deliveryId: string) => void delivered.push(await markDelivered(deliveryId));
  await sweepDeliveries({ db, queue, deliver }, Date.now(), "whk_000a", 1000);
  expect(delivered.length).toBe(25);
  const counts = webhookIds.map((webhookId) => delivered.filter((each) => each === webhookId).length);
  // After these webhooks, webhooks of other tests may also get turns.
  expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
  expect(Math.min(...counts)).toBeGreaterThan(0);
  await deleteDeliveriesOf(accountId);
});
