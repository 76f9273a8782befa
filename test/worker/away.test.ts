import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { operatorOn } from "../../src/accounts/actor.ts";
import type { ActivityWriter } from "../../src/activity/activity-writer.ts";
import { leastFullStore } from "../../src/activity/databases.ts";
import { deleteOldEntries } from "../../src/activity/retention.ts";
import { writeEntries } from "../../src/activity/write-entries.ts";
import { connect } from "../../src/db/client.ts";
import { measureDatabases } from "../../src/db/database-sizes.ts";
import { onDelete } from "../../src/references/on-delete.ts";
import { jobs } from "../../src/scheduled/jobs.ts";
import { dayMs, dayStart, hourMs, hourStart } from "../../src/time/clock.ts";
import { readLastUse } from "../../src/usage/last-uses.ts";
import { deleteOldUsage } from "../../src/usage/retention.ts";
import { rollUpAccount } from "../../src/usage/roll-up-buckets.ts";
import { sweepDeliveries } from "../../src/webhooks/sweep.ts";
import { db, makeTenant } from "./support/client.ts";
import { d1With, d1WithoutBatches } from "./support/d1.ts";
import { entryOf, write } from "./support/entries.ts";
import { countActivityRows, readDirtyBuckets } from "./support/log-rows.ts";
import { readStoredCounts } from "./support/storage-rows.ts";

// If a database or a queue hangs, fails or is overloaded, other work is not delayed.

const D1 = env.ACTIVITY_0;

let nextWriter = 300;
/** Returns a log writer that no other test uses. */
const newWriter = () => {
  const number = nextWriter++;
  return { number, writer: env.ACTIVITY_WRITER.getByName(`ACTIVITY_0/${number}`) };
};
const setWriterD1 = (writer: DurableObjectStub<ActivityWriter>, ACTIVITY_0: D1Database) =>
  runInDurableObject(writer, (instance) => void Object.assign(instance, { env: { ...env, ACTIVITY_0 } }));

const never = () => new Promise(() => {});
const hangingStatement = { bind: () => hangingStatement, all: never, first: never, run: never, raw: never };
const hangingD1 = { prepare: () => hangingStatement, batch: never } as unknown as D1Database;

/** Returns a database that uses `prepare` for the statements that `matches` selects. All other statements use the real database. */
const d1WithStatements = (matches: (query: string) => boolean, prepare: (query: string) => D1PreparedStatement) =>
  d1With(D1, { prepare: (query) => (matches(query) ? prepare(query) : D1.prepare(query)) });

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

const setActivityStore = (accountId: string, store: string) =>
  env.DB.prepare("UPDATE accounts SET activity_store = ? WHERE id = ?").bind(store, accountId).run();

/** Reads the number of an account's requests on one day from the daily roll-ups. */
const sumRequestsOfDay = (accountId: string, day: number) =>
  D1.prepare("SELECT sum(requests) AS requests FROM usage_days WHERE account_id = ? AND start = ?")
    .bind(accountId, day)
    .first<number>("requests");

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

/** Marks a delivery as delivered. Returns the id of its webhook. */
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
    expect(await readLastUse({ activity: connect(hangingD1), actor: operatorOn(accountId) }, keyId)).toMatchObject({ isUseKnown: false });
    expect(Date.now() - startedAt).toBeLessThan(3000);
  });

  it("does not prevent the retention of accounts in other databases", async () => {
    const [hanging, other] = [await makeTenant({}, "ACTIVITY_7"), await makeTenant()];
    await write([entryOf(other, hourStart(Date.now()) - 40 * dayMs)]);
    const context = {
      ...jobContext({ ...env, ACTIVITY_7: hangingD1 } as unknown as Env, 60),
      // The run starts at these two accounts. Otherwise, the run would first process the accounts of all other tests, and could end before
      // these two accounts.
      cursor: hanging.accountId.slice(0, -1),
    };
    const outcome = await jobNamed("delete_old_log_entries")
      .run(context)
      .finally(() => setActivityStore(hanging.accountId, "ACTIVITY_0"));
    expect(outcome.errors).not.toEqual([]);
    expect(await countActivityRows(other.accountId)).toBe(0);
  }, 60_000);

  it("does not prevent the creation of accounts in another database", async () => {
    const failingD1 = { prepare: () => ({ run: () => Promise.reject(new Error("D1_ERROR: away")) }) };
    expect(await leastFullStore({ ...env, ACTIVITY_1: failingD1 })).toBe("ACTIVITY_0");
  });

  it("does not prevent a log writer from writing its journal, even if the query for dirty buckets hangs", async () => {
    const [{ writer }, tenant] = [newWriter(), await makeTenant()];
    let hasQueried = false;
    const hangOnce = () => {
      hasQueried = true;
      return hangingStatement as unknown as D1PreparedStatement;
    };
    await setWriterD1(
      writer,
      d1WithStatements((query) => !hasQueried && query.includes("FROM stale_slices WHERE writer"), hangOnce),
    );
    await writer.wake();
    await vi.waitUntil(() => hasQueried, { timeout: 10_000, interval: 20 });
    await setWriterD1(writer, d1WithoutBatches(D1));
    await writer.write([entryOf(tenant, Date.now())]);
    await setWriterD1(writer, D1);
    await vi.waitFor(async () => expect((await writer.status()).journalled).toBe(0), { timeout: 12_000, interval: 200 });
  });
});

describe("A bucket that cannot be rolled up", () => {
  it("does not block the other buckets of its log writer", async () => {
    const [{ writer, number }, failing, other] = [newWriter(), await makeTenant(), await makeTenant()];
    const at = Date.now() - hourMs;
    await writeEntries({ d1: D1, writer: number, now: at }, [entryOf(failing, at - hourMs)]);
    await writeEntries({ d1: D1, writer: number, now: at }, [entryOf(other, at)]);
    const isOfFailing = (values: unknown[]) => String(values[0]).includes(failing.accountId);
    const prepare = (query: string) =>
      ({
        bind: (...values: unknown[]) =>
          isOfFailing(values) ? D1.prepare("SELECT json_extract('{}', 'too much at once')") : D1.prepare(query).bind(...values),
      }) as unknown as D1PreparedStatement;
    await setWriterD1(
      writer,
      d1WithStatements((query) => query.startsWith("INSERT INTO usage_slices"), prepare),
    );
    await writer.wake();
    await vi.waitFor(async () => expect(await readDirtyBuckets(other.accountId)).toHaveLength(0), { timeout: 8000, interval: 100 });
    expect(await readDirtyBuckets(failing.accountId)).toHaveLength(1);
  });

  it("is tried once if twenty readers in a row request a refresh", async () => {
    const [{ writer }, tenant] = [newWriter(), await makeTenant()];
    await write([entryOf(tenant, Date.now())]);
    const batch = vi.fn(() => Promise.reject(new Error("D1_ERROR: too long")));
    await setWriterD1(writer, d1With(D1, { batch }));
    for (let reader = 0; reader < 20; reader++) await writer.refresh(tenant.accountId).catch(() => {});
    expect(batch).toHaveBeenCalledTimes(1);
  });
});

it("A late entry changes the usage of a day only while the log keeps the whole day", async () => {
  for (const [age, retentionDays, requests] of [
    // The log of this account no longer contains the day, so the late entry is rejected.
    [62, 31, 24],
    [94, 31, 24],
    // The log retention of this account is longer than two usage windows. The log still keeps the day, so the late entry is accepted.
    [63, 90, 25],
  ] as const) {
    const tenant = await makeTenant();
    const { accountId } = tenant;
    const day = dayStart(Date.now()) - age * dayMs;
    const noonToday = day + age * dayMs + 12 * hourMs;
    await write(Array.from({ length: 24 }, (_, hour) => entryOf(tenant, day + hour * hourMs + 1)));
    await rollUpAccount(D1, accountId);
    await deleteOldEntries(D1, [{ accountId, days: retentionDays }], noonToday);
    while (await deleteOldUsage(D1, [accountId], noonToday));
    await write([entryOf(tenant, day + 5 * hourMs + 2)]);
    await rollUpAccount(D1, accountId);
    expect(await sumRequestsOfDay(accountId, day), `${age} days`).toBe(requests);
  }
});

it("A scheduled job with more work than one run may do continues in the next run", async () => {
  const { accountId } = await makeTenant();
  await insertOldEvents(accountId, 21_000);
  await insertOldDeliveries(accountId, 6000);
  expect((await jobNamed("delete_old_deliveries").run(jobContext(env, 5000))).next).not.toBeNull();
  expect((await jobNamed("delete_old_deliveries").run(jobContext(env, 5000))).next).toBeNull();
  const deleteEvents = jobNamed("delete_old_history");
  const first = await deleteEvents.run(jobContext(env, 100_000));
  expect(first.next).not.toBeNull();
  for (let { next } = first, runs = 0; next !== null && runs < 10; runs++)
    ({ next } = await deleteEvents.run({ ...jobContext(env, 100_000), cursor: next }));
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
