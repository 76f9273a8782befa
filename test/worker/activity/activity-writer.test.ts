import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { ActivityWriter } from "../../../src/activity/activity-writer.ts";
import type { Entry } from "../../../src/activity/entry.ts";
import { bucketMs, bucketStart, dayMs, minuteMs, secondMs } from "../../../src/time/clock.ts";
import { readUsage } from "../../../src/usage/read-usage.ts";
import { refreshRollUps } from "../../../src/usage/refresh-roll-ups.ts";
import { browse } from "../support/browse.ts";
import { call, cron, makeTenant, readingLog, type Tenant } from "../support/client.ts";
import { d1With, d1WithoutBatches } from "../support/d1.ts";
import { entryOf, logDelay } from "../support/entries.ts";
import { countActivityRows, readActivityIds, readDirtyBuckets, sumHourlyRequests } from "../support/log-rows.ts";
import { deleteJobs } from "../support/storage-rows.ts";

type Writer = DurableObjectStub<ActivityWriter>;

const D1 = env.ACTIVITY_0;
/** The size of a full database, in bytes. */
const fullBytes = 9.6e9;

let nextNumber = 100;
/** Returns a log writer that no other test uses. */
const newWriter = () => env.ACTIVITY_WRITER.getByName(`ACTIVITY_0/${nextNumber++}`);

/** Replaces the database that a log writer uses. The replacement lasts until the log writer is evicted. */
const replaceD1 = (writer: Writer, ACTIVITY_0: D1Database) =>
  runInDurableObject(writer, (instance) => void Object.assign(instance, { env: { ...env, ACTIVITY_0 } }));

/** Runs a batch in D1. Replaces the fields of `meta` in the metadata of each result. */
const batchWithMeta = async (statements: D1PreparedStatement[], meta: Partial<D1Meta>) =>
  (await D1.batch(statements)).map((result) => ({ ...result, meta: { ...result.meta, ...meta } }));

/** Starts to count the batches that a log writer sends to D1. Returns the counter. */
async function countBatches(writer: Writer, meta: Partial<D1Meta> = {}): Promise<{ count: number }> {
  const batches = { count: 0 };
  const batch = (statements: D1PreparedStatement[]) => {
    batches.count++;
    return batchWithMeta(statements, meta);
  };
  await replaceD1(writer, d1With(D1, { batch }));
  return batches;
}

const entriesOf = (tenant: Tenant, count: number): Entry[] =>
  Array.from({ length: count }, (_, index) => entryOf(tenant, Date.now() - index));

/** Runs the alarm of a log writer until its journal is empty. */
const drainJournal = (writer: Writer) =>
  vi.waitFor(
    async () => {
      await runDurableObjectAlarm(writer);
      expect((await writer.status()).journalled).toBe(0);
    },
    { timeout: 5000, interval: 20 },
  );

const readAlarm = (writer: Writer) => runInDurableObject(writer, (_, state) => state.storage.getAlarm());

describe("A log writer", () => {
  it("responds once D1 has stored the entries, and writes the entries of concurrent calls in one batch", async () => {
    const [writer, tenant] = [newWriter(), await makeTenant()];
    const batches = await countBatches(writer);
    await writer.write([entryOf(tenant, Date.now())]);
    expect(await countActivityRows(tenant.accountId)).toBe(1);
    // These calls start inside the Durable Object. The calls therefore arrive at the same time, even on a slow machine.
    await runInDurableObject(writer, async (object) => {
      await Promise.all(Array.from({ length: 40 }, () => object.write([entryOf(tenant, Date.now())])));
    });
    expect(await countActivityRows(tenant.accountId)).toBe(41);
    expect(batches.count).toBe(2);
  });

  it("stores a batch once, even if the batch is repeated or another log writer has written it", async () => {
    const [writer, other, tenant] = [newWriter(), newWriter(), await makeTenant()];
    const entries = entriesOf(tenant, 10);
    await Promise.all([writer.write(entries), writer.write(entries), other.write(entries)]);
    expect(await countActivityRows(tenant.accountId)).toBe(10);
  });

  it("accepts entries while D1 fails, and its alarm writes them to D1 even after repeated failures", async () => {
    const [writer, tenant] = [newWriter(), await makeTenant()];
    await replaceD1(writer, d1WithoutBatches(D1));
    for (let n = 0; n < 3; n++) await writer.write(entriesOf(tenant, 2));
    expect(await writer.status()).toEqual({ journalled: 6, dropped: 0, isFull: false });
    for (let failures = 0; failures < 8; failures++) {
      expect(await runDurableObjectAlarm(writer)).toBe(true);
      expect(await readAlarm(writer)).toBeGreaterThan(Date.now() - 1000);
    }
    await replaceD1(writer, D1);
    await drainJournal(writer);
    expect(await countActivityRows(tenant.accountId)).toBe(6);
  });

  it("keeps its journal across an eviction and drains the journal in full batches", async () => {
    const [writer, tenant] = [newWriter(), await makeTenant()];
    await replaceD1(writer, d1WithoutBatches(D1));
    const entries = entriesOf(tenant, 1200);
    for (let from = 0; from < entries.length; from += 100) await writer.write(entries.slice(from, from + 100));
    await evictDurableObject(writer);
    const batches = await countBatches(writer);
    expect((await writer.status()).journalled).toBe(1200);
    await drainJournal(writer);
    expect(await countActivityRows(tenant.accountId)).toBe(1200);
    expect(batches.count).toBeLessThan(6);
  });

  it("responds within half a second while D1 hangs, and removes entries from its journal when D1 confirms them late", async () => {
    const [writer, tenant] = [newWriter(), await makeTenant()];
    let confirm = () => {};
    const batch = async (statements: D1PreparedStatement[]) => {
      await new Promise<void>((resolve) => {
        confirm = resolve;
      });
      return D1.batch(statements);
    };
    await replaceD1(writer, d1With(D1, { batch }));
    const startedAt = Date.now();
    await writer.write([entryOf(tenant, Date.now())]);
    expect(Date.now() - startedAt).toBeLessThan(900);
    expect((await writer.status()).journalled).toBe(1);
    await runInDurableObject(writer, () => confirm());
    await vi.waitFor(async () => expect([(await writer.status()).journalled, await countActivityRows(tenant.accountId)]).toEqual([0, 1]));
  });

  it("reports an entry that D1 rejects, and writes the rest of its batch", async () => {
    const [writer, tenant] = [newWriter(), await makeTenant()];
    // D1 converts NaN to NULL. The column does not accept NULL, so D1 rejects the row.
    const entries = entriesOf(tenant, 9).map((entry, index) => (index === 4 ? { ...entry, durationMs: Number.NaN } : entry));
    const reported = vi.spyOn(console, "error");
    await writer.write(entries);
    expect(reported.mock.calls.flat().join(" ")).toContain(entries[4]?.id);
    reported.mockRestore();
    expect(new Set(await readActivityIds(tenant.accountId))).toEqual(
      new Set(entries.filter((_, index) => index !== 4).map(({ id }) => id)),
    );
  });

  it("reports a full database and keeps new entries in its journal until there is room", async () => {
    const [writer, tenant] = [newWriter(), await makeTenant()];
    await replaceD1(writer, d1With(D1, { batch: (statements) => batchWithMeta(statements, { size_after: fullBytes }) }));
    await writer.write([entryOf(tenant, Date.now())]);
    await writer.write([entryOf(tenant, Date.now())]);
    expect(await writer.status()).toEqual({ journalled: 1, dropped: 0, isFull: true });
    await replaceD1(writer, D1);
    await drainJournal(writer);
    expect(await countActivityRows(tenant.accountId)).toBe(2);
    expect((await writer.status()).isFull).toBe(false);
  });

  it("rolls up buckets while its database is full, and does not set its alarm too early", async () => {
    const [writer, tenant] = [newWriter(), await makeTenant()];
    let prepared = 0;
    const fullD1 = d1With(D1, {
      batch: (statements) => batchWithMeta(statements, { size_after: fullBytes }),
      prepare: (query) => {
        prepared++;
        return query === "SELECT 1" ? { run: async () => ({ meta: { size_after: fullBytes } }) } : D1.prepare(query);
      },
    });
    await replaceD1(writer, fullD1);
    await writer.write([entryOf(tenant, Date.now() - 20 * minuteMs)]);
    await writer.write([entryOf(tenant, Date.now())]);
    expect(await writer.status()).toMatchObject({ journalled: 1, isFull: true });
    await runDurableObjectAlarm(writer);
    expect(await sumHourlyRequests(tenant.accountId)).toBe(1);
    expect(await readAlarm(writer)).toBeGreaterThan(Date.now() + 30 * secondMs);
    prepared = 0;
    await runDurableObjectAlarm(writer);
    expect(prepared).toBeLessThan(20);
    expect(await readAlarm(writer)).toBeGreaterThan(Date.now() + 30 * secondMs);
  });

  it("reports the entries that isolates had to drop", async () => {
    const writer = newWriter();
    await writer.write([], 7);
    expect((await writer.status()).dropped).toBe(7);
  });
});

describe("The dirty buckets of a log writer", () => {
  it("are rolled up by its alarm after they have ended, and not before", async () => {
    const [writer, tenant] = [newWriter(), await makeTenant()];
    const now = Date.now();
    await writer.write([entryOf(tenant, now - 20 * minuteMs), entryOf(tenant, now)]);
    expect(await readDirtyBuckets(tenant.accountId)).toHaveLength(2);
    expect((await readAlarm(writer)) ?? 0).toBeGreaterThan(bucketStart(now) + bucketMs);
    await runDurableObjectAlarm(writer);
    expect(await readDirtyBuckets(tenant.accountId)).toEqual([bucketStart(now)]);
    expect(await sumHourlyRequests(tenant.accountId)).toBe(1);
  });

  it("are rolled up when the cron job wakes a log writer that has no alarm and gets no more entries", async () => {
    const [writer, tenant] = [env.ACTIVITY_WRITER.getByName("ACTIVITY_0/31"), await makeTenant()];
    await writer.write([entryOf(tenant, Date.now() - 20 * minuteMs)]);
    await runInDurableObject(writer, (_, state) => state.storage.deleteAlarm());
    await evictDurableObject(writer);
    await cron();
    await vi.waitFor(async () => expect(await readDirtyBuckets(tenant.accountId)).toEqual([]), logDelay);
    expect(await sumHourlyRequests(tenant.accountId)).toBe(1);
  });

  it("are rolled up in two batches if they belong to 60 accounts", async () => {
    const writer = newWriter();
    const tenants = await Promise.all(Array.from({ length: 60 }, () => makeTenant()));
    await writer.write(tenants.map((tenant, index) => entryOf(tenant, Date.now() - (index + 2) * bucketMs)));
    const batches = await countBatches(writer);
    await runDurableObjectAlarm(writer);
    // One batch rolls up at most 50 buckets.
    expect(batches.count).toBe(2);
    for (const { accountId } of tenants) expect(await readDirtyBuckets(accountId)).toEqual([]);
  });

  it("are rolled up once for concurrent readers, and again only after a pause of 50 times the roll-up's duration", async () => {
    const [writer, tenant] = [newWriter(), await makeTenant()];
    const batches = await countBatches(writer, { duration: 100 });
    await writer.write([entryOf(tenant, Date.now())]);
    batches.count = 0;
    const startedAt = Date.now();
    await Promise.all(Array.from({ length: 20 }, () => writer.refresh(tenant.accountId)));
    // The roll-up runs seven statements. According to the replaced metadata, each statement takes 100 ms.
    const maxPauseMs = 50 * Math.max(7 * 100, Date.now() - startedAt);
    expect([batches.count, await sumHourlyRequests(tenant.accountId)]).toEqual([1, 1]);
    await writer.write([entryOf(tenant, Date.now())]);
    await writer.refresh(tenant.accountId);
    expect(await sumHourlyRequests(tenant.accountId)).toBe(1);
    try {
      vi.setSystemTime(Date.now() + maxPauseMs);
      await writer.refresh(tenant.accountId);
    } finally {
      vi.useRealTimers();
    }
    expect(await sumHourlyRequests(tenant.accountId)).toBe(2);
  });
});

describe("Usage", () => {
  it("states the time up to which it is complete if a refresh fails", async () => {
    const tenant = await makeTenant();
    const before = Date.now();
    await env.ACTIVITY_WRITER.getByName("ACTIVITY_0/0").write([entryOf(tenant, before)]);
    const refresh = () => Promise.reject(new Error("object reset"));
    const outdated = await refreshRollUps({ ...readingLog(tenant.accountId, Date.now() + 1000), refresh });
    expect(outdated.asOf).toBeGreaterThanOrEqual(before);
    expect(outdated.asOf).toBeLessThan(outdated.now);
    expect((await readUsage(outdated, { window: "24h" })).totalRequests.value).toBe(0);
    const refreshed = await refreshRollUps(readingLog(tenant.accountId, Date.now()));
    expect(refreshed.asOf).toBe(refreshed.now);
    expect((await readUsage(refreshed, { window: "24h" })).totalRequests.value).toBe(1);
  });
});

it("The log of an account is written to and read from the database of the account only", async () => {
  const tenant = await makeTenant({}, "ACTIVITY_1");
  expect((await call("GET", "/api/v1/me", { key: tenant.key })).status).toBe(200);
  const { ACTIVITY_1 } = env as unknown as { ACTIVITY_1: D1Database };
  await vi.waitFor(async () => expect(await countActivityRows(tenant.accountId, ACTIVITY_1)).toBe(1), logDelay);
  expect(await countActivityRows(tenant.accountId, D1)).toBe(0);
  const { body } = await call("GET", "/api/v1/usage?window=24h", { key: tenant.key });
  expect(body.total_requests.value).toBe(1);
  expect((await call("GET", "/api/v1/activity", { key: tenant.key })).body.data.at(-1)).toMatchObject({
    path: "/api/v1/me",
    key_name: "Test key",
  });
});

describe("An account whose activity database is not bound", () => {
  async function setActivityStore(accountId: string, store: string): Promise<void> {
    await env.DB.prepare("UPDATE accounts SET activity_store = ? WHERE id = ?").bind(store, accountId).run();
  }

  /**
   * Creates an account. The Worker has no binding for the activity database of this account. After the test, the account gets a database
   * that has a binding.
   */
  async function makeTenantWithoutDatabase(): Promise<Tenant> {
    const tenant = await makeTenant({}, "ACTIVITY_7");
    onTestFinished(() => setActivityStore(tenant.accountId, "ACTIVITY_0"));
    return tenant;
  }

  it("gets 503 for its usage and its log, but its keys still work and can be changed", async () => {
    const tenant = await makeTenantWithoutDatabase();
    const { key } = tenant;
    expect((await call("GET", "/api/v1/users", { key })).status).toBe(200);
    expect((await call("GET", "/api/v1/usage", { key })).status).toBe(503);
    expect((await call("GET", "/api/v1/activity", { key })).status).toBe(503);
    const created = await call("POST", "/api/v1/keys", { key, body: { name: "Other" } });
    expect(created.status).toBe(201);
    expect((await call("GET", "/api/v1/keys", { key })).body.data).toHaveLength(2);
    const path = `/api/v1/keys/${created.body.id}`;
    expect((await call("PATCH", path, { key, body: { status: "disabled" } })).body.status).toBe("disabled");
    expect((await call("GET", "/api/v1/me", { key: created.body.secret_key })).body.code).toBe("disabled_key");
    const browser = browse(tenant.accountId);
    for (const page of ["/keys", `/keys/${created.body.id}`, `/keys/${created.body.id}/rotate`, `/keys/${tenant.keyId}/revoke`])
      expect((await browser.get(page)).status, page).toBe(200);
  });

  it("makes the cron job fail, but the job still deletes the old log entries of other accounts", async () => {
    await makeTenantWithoutDatabase();
    const other = await makeTenant();
    await env.ACTIVITY_WRITER.getByName("ACTIVITY_0/0").write([entryOf(other, Date.now() - 40 * dayMs)]);
    await deleteJobs();
    await expect(cron()).rejects.toThrow("delete_old_log_entries");
    expect(await readActivityIds(other.accountId)).toEqual([]);
  });
});
