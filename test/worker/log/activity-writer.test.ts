import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { minuteMs, secondMs } from "../../../src/lib/time/clock.ts";
import type { Batch } from "../../../src/log/batch.ts";
import type { Entry } from "../../../src/log/entry.ts";
import { AccountLogs } from "../../../src/log/writer/account-logs.ts";
import type { ActivityWriter } from "../../../src/log/writer/activity-writer.ts";
import { flushAccount, flushLargest } from "../../../src/log/writer/flush.ts";
import type { Report } from "../../../src/log/writer/memtable.ts";
import { logOf } from "../../../src/log/writers.ts";
import { readLastUse } from "../../../src/usage/last-uses.ts";
import { readUsage } from "../../../src/usage/read-usage.ts";
import { openSnapshot } from "../../../src/usage/usage-snapshot.ts";
import { makeTenant, readingLog, type Tenant } from "../support/client.ts";
import { d1Away, d1With, d1WithoutBatches } from "../support/d1.ts";
import { batchOf, entryOf } from "../support/entries.ts";
import { readEntries } from "../support/log-rows.ts";
import { countSegments, entriesOf, idsOf, makeOwned, readIds, readRequests, replaceD1 } from "../support/log-writers.ts";

const D1 = env.ACTIVITY_0;
/** The size of a full database, in bytes. */
const fullBytes = 9.6e9;

/** Returns D1 with another size in the metadata of each result. */
const d1WithSize = (size: number): D1Database =>
  d1With(D1, {
    prepare: (query: string) => {
      const statement = D1.prepare(query);
      return Object.assign(statement, {
        run: async () => {
          const result = await D1.prepare(query).all();
          return { ...result, meta: { ...result.meta, size_after: size } };
        },
      });
    },
  });

describe("A log writer", () => {
  it("shows entries in the list, the figures and the last uses as soon as it has acknowledged them, and after it was evicted", async () => {
    const { name, writer, tenant } = await makeOwned();
    const entries = entriesOf(tenant, 30);
    await writer.write(batchOf(entries));
    const expectShown = async () => {
      expect(await readIds(tenant, name)).toEqual(idsOf(entries));
      expect(await readRequests(tenant, name)).toBe(30);
      const lastUse = await readLastUse({ ...readingLog(tenant.accountId), ...logOf(env, name) }, tenant.keyId);
      expect(lastUse).toMatchObject({ isUseKnown: true, lastUsedPath: "/api/v1/tasks" });
    };
    await expectShown();
    await evictDurableObject(writer);
    await expectShown();
    await writer.flush(tenant.accountId);
    await expectShown();
    expect(await countSegments(tenant.accountId)).toBe(1);
  });

  it("commits the calls of a second together, but the first call after a quiet period at once", async () => {
    const { writer, tenant } = await makeOwned();
    const startedAt = Date.now();
    await writer.write(batchOf(entriesOf(tenant, 1)));
    expect(Date.now() - startedAt).toBeLessThan(secondMs);
    await runInDurableObject(writer, async (object: ActivityWriter, { storage }) => {
      await Promise.all(Array.from({ length: 40 }, () => object.write(batchOf(entriesOf(tenant, 1)))));
      expect(storage.sql.exec("SELECT count(*) AS rows FROM wal").one()).toEqual({ rows: 2 });
    });
    expect(Date.now() - startedAt).toBeGreaterThanOrEqual(secondMs);
  });

  it("says that a flush could not be stored only of the account whose flush it is", async () => {
    const { name, writer, tenant } = await makeOwned();
    const quiet = await makeTenant({}, name);
    await replaceD1(writer, d1WithoutBatches(D1));
    await writer.write(batchOf(entriesOf(tenant, 150, minuteMs)));
    const isStored = ({ accountId }: Tenant) =>
      runInDurableObject(writer, (object: ActivityWriter) =>
        object.flush(accountId).then(
          () => true,
          () => false,
        ),
      );
    expect([await isStored(tenant), await isStored(quiet)]).toEqual([false, true]);
  });

  it("flushes an account with a hundred entries, and leaves a quiet account and the latest seconds for a later flush", async () => {
    const { writer, tenant } = await makeOwned();
    const quiet = await makeTenant();
    await writer.write(batchOf([...entriesOf(tenant, 120, minuteMs), ...entriesOf(tenant, 30), ...entriesOf(quiet, 20, minuteMs)]));
    await runDurableObjectAlarm(writer);
    const { results } = await D1.prepare("SELECT account_id AS id, entries FROM activity_segments WHERE account_id IN (?, ?)")
      .bind(tenant.accountId, quiet.accountId)
      .all();
    expect(results).toEqual([{ id: tenant.accountId, entries: 120 }]);
    expect((await writer.status()).memtableEntries).toBe(50);
  });

  it("stores the time up to which D1 has all entries, even if later flushes wait", async () => {
    const { writer, tenant } = await makeOwned();
    const now = Date.now();
    const readAsOf = () => D1.prepare("SELECT as_of FROM activity_logs WHERE account_id = ?").bind(tenant.accountId).first<number>("as_of");
    await replaceD1(writer, d1WithoutBatches(D1));
    await writer.write(batchOf(entriesOf(tenant, 8050, 20 * minuteMs)));
    await runDurableObjectAlarm(writer);
    const openAt = now - 3 * minuteMs;
    await writer.write(batchOf([entryOf(tenant, openAt, { status: null, durationMs: null }), ...entriesOf(tenant, 5, 2 * minuteMs)]));
    const flushes: (number | null)[] = [];
    const storing = d1With(D1, { batch: async (statements) => D1.batch(statements).finally(async () => flushes.push(await readAsOf())) });
    await replaceD1(writer, storing);
    await writer.flush(tenant.accountId);
    const [first, second, third] = [...new Set(flushes.filter((asOf) => asOf !== 0))];
    // The oldest 8,000 of 8,050 entries are in the first flush. The ages of the others are 20 minutes and 0 to 49 ms.
    expect(Math.abs((first ?? 0) - (now - 20 * minuteMs - 49))).toBeLessThan(50);
    expect(second).toBeGreaterThan(now - minuteMs);
    expect(third).toBe(openAt);
  });

  it("flushes accounts only each five minutes, although its alarm also runs to retry and to merge", async () => {
    const { writer, tenant } = await makeOwned();
    await writer.write(batchOf(entriesOf(tenant, 120, minuteMs)));
    await runDurableObjectAlarm(writer);
    await writer.write(batchOf(entriesOf(tenant, 120, minuteMs)));
    await runDurableObjectAlarm(writer);
    expect([(await writer.status()).memtableEntries, await countSegments(tenant.accountId)]).toEqual([120, 1]);
  });

  it("counts the entries that an isolate has dropped once, even if it has to refuse the call that reports them", async () => {
    const { writer, tenant } = await makeOwned();
    const refused = runInDurableObject(writer, async (object: ActivityWriter) =>
      object.write(batchOf(entriesOf(tenant, 20_001), { dropped: 7 })),
    );
    await expect(refused).rejects.toThrow("wait for a commit already");
    await writer.write(batchOf(entriesOf(tenant, 1), { dropped: 7 }));
    expect((await writer.status()).lost.dropped).toBe(7);
  });

  it("stores a batch once, even if it is sent again after its entries were flushed and stored, and after the log writer was evicted", async () => {
    const { name, writer, tenant } = await makeOwned();
    const batch = batchOf(entriesOf(tenant, 501, minuteMs), { dropped: 7 });
    const expectOnce = async () => {
      expect([await readIds(tenant, name), await readRequests(tenant, name)]).toEqual([idsOf(batch.entries), 501]);
      expect((await writer.status()).lost).toMatchObject({ dropped: 7, droppedAt: expect.any(Number) });
    };
    await Promise.all([writer.write(batch), writer.write(batch)]);
    await expectOnce();
    await evictDurableObject(writer);
    await writer.write(batch);
    await expectOnce();
    await writer.flush(tenant.accountId);
    await writer.write(batch);
    expect((await writer.status()).memtableEntries).toBe(0);
    await evictDurableObject(writer);
    await writer.write(batch);
    expect((await writer.status()).memtableEntries).toBe(0);
    await writer.flush(tenant.accountId);
    await expectOnce();
  });

  it("stores batches of two isolates with equal sequences, and late batches that are new, although later ones are stored in D1", async () => {
    const { name, writer, tenant } = await makeOwned();
    const isolates = ["one", "other"].map((isolate) => `${isolate}_${crypto.randomUUID()}`);
    const batches = isolates.flatMap((isolate) =>
      [1, 2, 3].map((sequence) => batchOf(entriesOf(tenant, 2, (10 - sequence) * minuteMs), { id: { isolate, sequence } })),
    );
    const [late, ...others] = batches.toSorted((a, b) => a.id.sequence - b.id.sequence) as [Batch, ...Batch[]];
    for (const batch of others) void writer.write(batch);
    await writer.flush(tenant.accountId);
    await evictDurableObject(writer);
    await writer.write(late);
    const all = batches.flatMap(({ entries }) => entries);
    const expectAll = async () => expect([await readIds(tenant, name), await readRequests(tenant, name)]).toEqual([idsOf(all), all.length]);
    await expectAll();
    await evictDurableObject(writer);
    await expectAll();
    await writer.flush(tenant.accountId);
    for (const batch of batches) void writer.write(batch);
    await expectAll();
    expect((await writer.status()).memtableEntries).toBe(0);
  });

  it("stores a batch that a hint brings after a thousand later batches of its isolate, and stores it once", async () => {
    const [next, { name, writer, tenant }] = [await makeOwned(), await makeOwned()];
    const isolate = crypto.randomUUID();
    const batchAt = (sequence: number) => batchOf([entryOf(tenant, Date.now() - 2 * minuteMs + sequence)], { id: { isolate, sequence } });
    const [first, hinted] = [batchAt(1), batchAt(2)];
    const later = Array.from({ length: 1000 }, (_, index) => batchAt(index + 3));
    await runInDurableObject(writer, async (object: ActivityWriter) => {
      await Promise.all([first, ...later].map((batch) => object.write(batch)));
    });
    await writer.flush(tenant.accountId);
    await evictDurableObject(writer);
    await next.writer.keepFor(Number(name.split("/")[1]), hinted);
    await evictDurableObject(next.writer);
    await runDurableObjectAlarm(next.writer);
    expect((await writer.status()).memtableEntries).toBe(1);
    await writer.write(hinted);
    expect((await writer.status()).memtableEntries).toBe(1);
    expect([(await readIds(tenant, name)).length, await readRequests(tenant, name)]).toEqual([1002, 1002]);
  });

  it("drops an entry that cannot be stored, counts it, and stores the rest of its batch", async () => {
    const { name, writer, tenant } = await makeOwned();
    const [first, second, third] = entriesOf(tenant, 3) as [Entry, Entry, Entry];
    await writer.write(batchOf([first, { ...second, durationMs: Number.NaN }, { ...third, id: "req_1" }]));
    expect([(await writer.status()).lost.dropped, await readIds(tenant, name)]).toEqual([2, [first.id]]);
  });

  it("takes no more entries of the account that fills its disk, and goes on taking those of other accounts", async () => {
    const { writer, tenant: flood } = await makeOwned();
    const quiet = await makeTenant();
    await runInDurableObject(writer, (_, { storage }) => {
      const logs = new AccountLogs(storage);
      const keptOf = (maxBytes: number) => logs.withinShare([...entriesOf(flood, 3), ...entriesOf(quiet, 2)], maxBytes);
      logs.append([batchOf([...entriesOf(flood, 4000, minuteMs), ...entriesOf(quiet, 10, minuteMs)])], Date.now());
      for (const { accountId } of [flood, quiet]) flushAccount(logs, logs.of(accountId), Date.now());
      const used = logs.wal.bytes;
      const accountsIn = (entries: readonly Entry[]) => [...new Set(entries.map(({ accountId }) => accountId))];
      expect(accountsIn(keptOf(10 * used))).toEqual([flood.accountId, quiet.accountId]);
      expect(accountsIn(keptOf(used + 4000))).toEqual([quiet.accountId]);
      expect(keptOf(used)).toEqual([]);
    });
  });

  it("reports a full database, and stores its flushes when there is room again", async () => {
    const { writer, tenant } = await makeOwned();
    await replaceD1(writer, d1WithSize(fullBytes));
    await writer.write(batchOf(entriesOf(tenant, 120, minuteMs)));
    await runDurableObjectAlarm(writer);
    expect([(await writer.status()).isFull, await countSegments(tenant.accountId)]).toEqual([true, 0]);
    // The size is measured again after a minute, or after a restart.
    await evictDurableObject(writer);
    await runDurableObjectAlarm(writer);
    expect([(await writer.status()).isFull, await countSegments(tenant.accountId)]).toEqual([false, 1]);
  });

  it("goes on above the flushes in D1 if its own disk is lost", async () => {
    const { name, writer, tenant } = await makeOwned();
    const before = entriesOf(tenant, 2, 10 * minuteMs);
    await writer.write(batchOf(before));
    await writer.flush(tenant.accountId);
    await runInDurableObject(writer, (_, { storage }) => storage.deleteAll());
    await evictDurableObject(writer);
    const after = entriesOf(tenant, 2);
    await writer.write(batchOf(after));
    await vi.waitFor(() => writer.flush(tenant.accountId), { timeout: 5000, interval: 50 });
    expect([await readIds(tenant, name), await readRequests(tenant, name)]).toEqual([idsOf([...before, ...after]), 4]);
  });

  it("gives the entries of a log that belongs to another log writer to that log writer", async () => {
    const [{ writer, tenant }, owner] = [await makeOwned(), await makeOwned()];
    const first = entriesOf(tenant, 2, 10 * minuteMs);
    await writer.write(batchOf(first));
    await writer.flush(tenant.accountId);
    await D1.prepare("UPDATE activity_logs SET owner = ? WHERE account_id = ?")
      .bind(Number(owner.name.split("/")[1]), tenant.accountId)
      .run();
    const second = entriesOf(tenant, 120, minuteMs);
    await writer.write(batchOf(second));
    await runDurableObjectAlarm(writer);
    expect((await writer.status()).hinted).toBe(0);
    expect(await readIds(tenant, owner.name)).toEqual(idsOf([...first, ...second]));
  });

  it("looks for small segments of an account once a day, also after a restart", async () => {
    const { writer, tenant } = await makeOwned();
    const days = 4 * 24 * 60 * minuteMs;
    const writeOld = async () => {
      await writer.write(batchOf(entriesOf(tenant, 3, days)));
      await writer.flush(tenant.accountId);
    };
    await writeOld();
    await runDurableObjectAlarm(writer);
    await writeOld();
    await evictDurableObject(writer);
    await writer.write(batchOf(entriesOf(tenant, 1)));
    await runDurableObjectAlarm(writer);
    expect(await countSegments(tenant.accountId)).toBe(2);
  });

  it("gives a new account to the log writer with the least traffic", async () => {
    const { leastBusyWriter } = await import("../../../src/log/writers.ts");
    const busy = env.ACTIVITY_WRITER.getByName("ACTIVITY_0/2");
    const tenant = await makeTenant({}, "ACTIVITY_0/2");
    await busy.write(batchOf(entriesOf(tenant, 5000)));
    expect(await leastBusyWriter(env)).not.toBe("ACTIVITY_0/2");
  });
});

describe("An open entry", () => {
  const open = (tenant: Tenant, ageMs = 0) => entryOf(tenant, Date.now() - ageMs, { status: null, durationMs: null });
  const reportOf = (entry: Entry, status: number, durationMs: number): Report => ({ entry, status, durationMs });

  it("is completed by the first report, and later reports change nothing, even after an eviction and a flush", async () => {
    const { name, writer, tenant } = await makeOwned();
    const entry = open(tenant);
    await writer.write(batchOf([entry]));
    expect(await writer.report([reportOf(entry, 201, 12)])).toEqual(["completed"]);
    await evictDurableObject(writer);
    expect(await writer.report([reportOf(entry, 201, 12), reportOf(entry, 500, 1)])).toEqual(["completed", "different"]);
    expect(await readEntries(tenant.accountId, name)).toEqual([{ ...entry, status: 201, durationMs: 12 }]);
    await writer.flush(tenant.accountId);
    expect(await writer.report([reportOf(entry, 201, 12), reportOf(entry, 500, 1)])).toEqual(["completed", "different"]);
  });

  it("is added by a report that arrives before it, and is stored once if it arrives later", async () => {
    const { name, writer, tenant } = await makeOwned();
    const [entry, other] = [open(tenant, minuteMs), open(tenant)];
    expect(await writer.report([reportOf(entry, 404, 3), reportOf(entry, 404, 3), reportOf(entry, 500, 1)])).toEqual([
      "completed",
      "completed",
      "different",
    ]);
    const stored = [{ ...entry, status: 404, durationMs: 3 }];
    expect(await readEntries(tenant.accountId, name)).toEqual(stored);
    await evictDurableObject(writer);
    expect(await readEntries(tenant.accountId, name)).toEqual(stored);
    await writer.flush(tenant.accountId);
    await evictDurableObject(writer);
    await writer.write(batchOf([entry, other]));
    expect(await readEntries(tenant.accountId, name)).toEqual([...stored, other]);
    expect(await readRequests(tenant, name)).toBe(2);
  });

  it("is added by a late report, but not while D1 cannot say whether it was flushed before", async () => {
    const { name, writer, tenant } = await makeOwned();
    await writer.write(batchOf(entriesOf(tenant, 1)));
    await writer.flush(tenant.accountId);
    const [late, recent] = [open(tenant, minuteMs), open(tenant, -secondMs)];
    await replaceD1(writer, d1Away);
    expect(await writer.report([reportOf(late, 201, 12), reportOf(recent, 200, 1)])).toEqual(["unavailable", "completed"]);
    await replaceD1(writer, D1);
    expect(await writer.report([reportOf(late, 201, 12), reportOf(late, 500, 1)])).toEqual(["completed", "different"]);
    expect((await readEntries(tenant.accountId, name)).find(({ id }) => id === late.id)).toEqual({ ...late, status: 201, durationMs: 12 });
  });

  it("is closed by a flush and after ten minutes, and its late reports are rejected and counted", async () => {
    const { name, writer, tenant } = await makeOwned();
    const [old, flush] = [open(tenant, 11 * minuteMs), open(tenant, 12 * minuteMs)];
    await writer.write(batchOf([flush]));
    await writer.flush(tenant.accountId);
    await writer.write(batchOf([old]));
    expect(await writer.report([reportOf(flush, 200, 1), reportOf(old, 200, 1)])).toEqual(["closed", "closed"]);
    expect((await writer.status()).lost.closedReports).toBe(2);
    const statuses = (await readEntries(tenant.accountId, name)).map(({ status }) => status);
    expect(statuses).toEqual([null, null]);
  });

  it("waits for its report although the log writer had to flush older entries to free memory", async () => {
    const { writer, tenant } = await makeOwned();
    await runInDurableObject(writer, (_, { storage }) => {
      const logs = new AccountLogs(storage);
      const now = Date.now();
      const entries = Array.from({ length: 20 }, (_, age) => entryOf(tenant, now - age * secondMs, { status: null, durationMs: null }));
      logs.append([batchOf(entries)], Date.now());
      expect(flushLargest(logs, now, 1)).toBe(1);
      const left = [...logs.of(tenant.accountId).memtable.entries.keys()];
      expect(left.toSorted()).toEqual(idsOf(entries.slice(0, 10)));
    });
  });

  it("counts as a request without a status, and stays out of the success rate and the response time", async () => {
    const { name, writer, tenant } = await makeOwned();
    await writer.write(batchOf([open(tenant), entryOf(tenant, Date.now(), { durationMs: 40 })]));
    const context = { ...readingLog(tenant.accountId), ...logOf(env, name) };
    const usage = await readUsage(await openSnapshot(context), { window: "24h" });
    expect([usage.totalRequests.value, usage.successRate.value, usage.avgResponseTimeMs.value]).toEqual([2, 100, 40]);
  });

  it("is not flushed for ten minutes, and then is flushed as not reported", async () => {
    const { writer, tenant } = await makeOwned();
    const [younger, older] = [open(tenant, 9 * minuteMs), open(tenant, 11 * minuteMs)];
    await writer.write(batchOf([younger, older, ...entriesOf(tenant, 120, minuteMs)]));
    await runDurableObjectAlarm(writer);
    // If midnight is within the eleven minutes, the entries are in two segments.
    const stored = await D1.prepare("SELECT sum(entries) AS entries, min(first_id) AS firstId FROM activity_segments WHERE account_id = ?")
      .bind(tenant.accountId)
      .first();
    expect(stored).toEqual({ entries: 121, firstId: older.id });
  });
});
