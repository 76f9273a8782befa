import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { timeOfId } from "../../../src/lib/ids.ts";
import { dayMs, dayStart, hourMs, minuteMs, secondMs } from "../../../src/lib/time/clock.ts";
import type { Entry } from "../../../src/log/entry.ts";
import { AccountLogs } from "../../../src/log/writer/account-logs.ts";
import type { ActivityWriter } from "../../../src/log/writer/activity-writer.ts";
import { logOf } from "../../../src/log/writers.ts";
import { readLastUse } from "../../../src/usage/last-uses.ts";
import { makeTenant, readingLog, type Tenant } from "../support/client.ts";
import { d1Away, d1With, d1WithoutBatches } from "../support/d1.ts";
import { batchOf, entryOf } from "../support/entries.ts";
import {
  countSegments,
  damageFirstSegment,
  entriesOf,
  idsOf,
  makeOwned,
  readIds,
  readRequests,
  replaceD1,
} from "../support/log-writers.ts";

const D1 = env.ACTIVITY_0;
/** Flushes the entries of an account. The next alarm flushes them too, but only each five minutes. */
const cutWithoutD1 = (writer: DurableObjectStub<ActivityWriter>, { accountId }: Tenant) =>
  runInDurableObject(writer, (object: ActivityWriter) => object.flush(accountId));
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe("The log", () => {
  it("loses nothing while D1 is away for an hour, and stores all flushes of this hour afterwards", async () => {
    const { name, writer, tenant } = await makeOwned();
    const written: Entry[] = [];
    for (let flush = 0; flush < 12; flush++) {
      await replaceD1(writer, d1WithoutBatches(D1));
      const entries = entriesOf(tenant, 120, (60 - 5 * flush) * minuteMs);
      const writing = writer.write(batchOf(entries));
      // A read commits the entries, so the test does not wait for the group commit.
      await writer.openRollups(tenant.accountId);
      await writing;
      written.push(...entries);
      await expect(cutWithoutD1(writer, tenant)).rejects.toThrow("out of order");
      for (let failures = 0; failures < 2; failures++) expect(await runDurableObjectAlarm(writer)).toBe(true);
      if (flush % 4 === 3) await evictDurableObject(writer);
      if (flush % 3 === 2)
        expect([await readIds(tenant, name), await readRequests(tenant, name)]).toEqual([idsOf(written), written.length]);
    }
    const { memtableEntries, oldestWaitingAt } = await writer.status();
    expect([await countSegments(tenant.accountId), memtableEntries, oldestWaitingAt]).toEqual([0, 0, expect.any(Number)]);
    await replaceD1(writer, d1WithoutBatches(D1));
    const lastUse = await readLastUse({ ...readingLog(tenant.accountId), ...logOf(env, name) }, tenant.keyId);
    expect(lastUse).toMatchObject({ isUseKnown: true, lastUsedAt: timeOfId(idsOf(written).at(-1) ?? "") });
    await evictDurableObject(writer);
    await runDurableObjectAlarm(writer);
    expect([await countSegments(tenant.accountId), (await writer.status()).oldestWaitingAt]).toEqual([12, null]);
    expect([await readIds(tenant, name), await readRequests(tenant, name)]).toEqual([idsOf(written), written.length]);
  });

  it("accepts and shows entries at its usual speed while D1 takes 400 ms for a batch", async () => {
    const { name, writer, tenant } = await makeOwned();
    const others = await Promise.all(Array.from({ length: 60 }, () => makeTenant({}, name)));
    const slowD1 = d1With(D1, { batch: (statements) => sleep(400).then(() => D1.batch(statements)) });
    await replaceD1(writer, slowD1);
    await writer.write(batchOf(others.flatMap((other) => entriesOf(other, 120, minuteMs))));
    let isStored = false;
    const storing = runDurableObjectAlarm(writer).then(() => {
      isStored = true;
    });
    const written: Entry[] = [];
    let slowestMs = 0;
    while (!isStored) {
      const entries = entriesOf(tenant, 5);
      const startedAt = Date.now();
      await writer.write(batchOf(entries));
      slowestMs = Math.max(slowestMs, Date.now() - startedAt);
      written.push(...entries);
      expect(await readIds(tenant, name)).toEqual(idsOf(written));
    }
    await storing;
    expect(written.length).toBeGreaterThan(5);
    expect(slowestMs).toBeLessThan(2 * secondMs);
    expect(await Promise.all(others.map(({ accountId }) => countSegments(accountId)))).toEqual(others.map(() => 1));
  });

  it("stores the flushes of all accounts with one alarm, although one account is ten times as busy as all others together", async () => {
    const { name, writer, tenant } = await makeOwned();
    const others = await Promise.all(Array.from({ length: 20 }, () => makeTenant({}, name)));
    const busy = entriesOf(tenant, 20 * 120 * 10, minuteMs);
    for (let from = 0; from < busy.length; from += 12_000) await writer.write(batchOf(busy.slice(from, from + 12_000)));
    await writer.write(batchOf(others.flatMap((other) => entriesOf(other, 120, minuteMs))));
    await runDurableObjectAlarm(writer);
    const { memtableEntries, oldestWaitingAt } = await writer.status();
    expect([memtableEntries, oldestWaitingAt]).toEqual([0, null]);
    expect(await Promise.all(others.map((other) => readRequests(other, name)))).toEqual(others.map(() => 120));
    expect(await Promise.all(others.map(({ accountId }) => countSegments(accountId)))).toEqual(others.map(() => 1));
    expect([(await readIds(tenant, name)).length, await readRequests(tenant, name)]).toEqual([busy.length, busy.length]);
  });

  it("accepts and shows late entries at once while D1 is away, and stores them when D1 is back", async () => {
    const { name, writer, tenant } = await makeOwned();
    const [first, late] = [entriesOf(tenant, 2), entriesOf(tenant, 3, 20 * minuteMs)];
    await writer.write(batchOf(first));
    await writer.flush(tenant.accountId);
    await replaceD1(writer, d1Away);
    await writer.write(batchOf(late));
    expect((await writer.search(tenant.accountId, { filter: {}, before: null, from: null, limit: 9 })).entries.length).toBe(3);
    await replaceD1(writer, D1);
    await writer.flush(tenant.accountId);
    expect([await readIds(tenant, name), await readRequests(tenant, name)]).toEqual([idsOf([...first, ...late]), 5]);
  });

  it("goes on with other hints, and erases accounts, although a later release has written a hint that this release cannot read", async () => {
    const [next, { name, writer, tenant }] = [await makeOwned(), await makeOwned()];
    const owner = Number(name.split("/")[1]);
    const entries = entriesOf(tenant, 2);
    await next.writer.keepFor(owner, batchOf(entries));
    await runInDurableObject(next.writer, (_, { storage }) => storage.sql.exec("UPDATE hints SET entries = X'ff00'"));
    const other = await makeTenant({}, name);
    await next.writer.keepFor(owner, batchOf(entriesOf(other, 3)));
    await runDurableObjectAlarm(next.writer);
    expect([await readRequests(other, name), (await next.writer.status()).hinted]).toEqual([3, 2]);
    expect(await next.writer.erase(tenant.accountId)).toBe(0);
    expect((await writer.status()).memtableEntries).toBe(3);
  });

  it("rejects the entries of an erased account that are still on disk", async () => {
    const { writer, tenant } = await makeOwned();
    await runInDurableObject(writer, (_, { storage }) => {
      const logs = new AccountLogs(storage);
      logs.erase(tenant.accountId, Date.now());
      logs.wal.append({ entries: entriesOf(tenant, 1) });
      expect(new AccountLogs(storage).of(tenant.accountId).memtable.entries.size).toBe(0);
    });
  });

  it("does not show entries that are past their retention, although their flush waits for D1", async () => {
    const { name, writer, tenant } = await makeOwned();
    const [old, recent] = [entriesOf(tenant, 120, 3 * dayMs), entriesOf(tenant, 2)];
    await replaceD1(writer, d1WithoutBatches(D1));
    await writer.write(batchOf(old));
    await runDurableObjectAlarm(writer);
    await writer.write(batchOf(recent));
    const retention = [{ accountId: tenant.accountId, days: 2 }];
    await writer.deleteOld(retention, Date.now()).catch(() => {});
    expect(await readIds(tenant, name)).toEqual(idsOf(recent));
    await evictDurableObject(writer);
    await runDurableObjectAlarm(writer);
    expect([await countSegments(tenant.accountId), await readIds(tenant, name)]).toEqual([1, idsOf(recent)]);
  });

  it("merges the segments of a day although one of them is damaged", async () => {
    const { name, writer, tenant } = await makeOwned();
    // All entries are of the same day.
    const noon = dayStart(Date.now() - 4 * dayMs) + 12 * hourMs;
    for (let part = 0; part < 4; part++) {
      const writing = writer.write(batchOf(Array.from({ length: 3 }, (_, at) => entryOf(tenant, noon + part * minuteMs + at))));
      await writer.openRollups(tenant.accountId);
      await writing;
      await writer.flush(tenant.accountId);
    }
    await damageFirstSegment(tenant.accountId);
    await writer.write(batchOf(entriesOf(tenant, 1)));
    await runDurableObjectAlarm(writer);
    expect([await countSegments(tenant.accountId), (await readIds(tenant, name)).length]).toEqual([2, 10]);
  });
});
