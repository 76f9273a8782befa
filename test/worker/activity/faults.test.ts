import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import type { Entry } from "../../../src/activity/entry.ts";
import { minuteMs, secondMs } from "../../../src/time/clock.ts";
import { makeTenant } from "../support/client.ts";
import { d1With, d1WithoutBatches } from "../support/d1.ts";
import { countSegments, entriesOf, idsOf, makeOwned, readIds, readRequests, replaceD1 } from "../support/log-writers.ts";

const D1 = env.ACTIVITY_0;
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe("The log", () => {
  it("loses nothing while D1 is away for an hour, and stores all cuts of this hour afterwards", async () => {
    const { name, writer, tenant } = await makeOwned();
    const written: Entry[] = [];
    for (let cut = 0; cut < 12; cut++) {
      await replaceD1(writer, d1WithoutBatches(D1));
      const entries = entriesOf(tenant, 120, (60 - 5 * cut) * minuteMs);
      const writing = writer.write(entries);
      // A read commits the entries, so the test does not wait for the group commit.
      await writer.openTallies(tenant.accountId);
      await writing;
      written.push(...entries);
      await runDurableObjectAlarm(writer);
      if (cut % 4 === 3) await evictDurableObject(writer);
      if (cut % 3 === 2) expect([await readIds(tenant, name), await readRequests(tenant, name)]).toEqual([idsOf(written), written.length]);
    }
    expect([await countSegments(tenant.accountId), (await writer.status()).headEntries]).toEqual([0, 0]);
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
    await writer.write(others.flatMap((other) => entriesOf(other, 120, minuteMs)));
    let isStored = false;
    const storing = runDurableObjectAlarm(writer).then(() => {
      isStored = true;
    });
    const written: Entry[] = [];
    let slowestMs = 0;
    while (!isStored) {
      const entries = entriesOf(tenant, 5);
      const startedAt = Date.now();
      await writer.write(entries);
      slowestMs = Math.max(slowestMs, Date.now() - startedAt);
      written.push(...entries);
      expect(await readIds(tenant, name)).toEqual(idsOf(written));
    }
    await storing;
    expect(written.length).toBeGreaterThan(5);
    expect(slowestMs).toBeLessThan(2 * secondMs);
    expect(await Promise.all(others.map(({ accountId }) => countSegments(accountId)))).toEqual(others.map(() => 1));
  });

  it("stores the cuts of all accounts with one alarm, although one account is ten times as busy as all others together", async () => {
    const { name, writer, tenant } = await makeOwned();
    const others = await Promise.all(Array.from({ length: 20 }, () => makeTenant({}, name)));
    const busy = entriesOf(tenant, 20 * 120 * 10, minuteMs);
    for (let from = 0; from < busy.length; from += 12_000) await writer.write(busy.slice(from, from + 12_000));
    await writer.write(others.flatMap((other) => entriesOf(other, 120, minuteMs)));
    await runDurableObjectAlarm(writer);
    expect((await writer.status()).oldestWaitingAt).toBeNull();
    expect(await Promise.all(others.map((other) => readRequests(other, name)))).toEqual(others.map(() => 120));
    expect(await Promise.all(others.map(({ accountId }) => countSegments(accountId)))).toEqual(others.map(() => 1));
    expect([(await readIds(tenant, name)).length, await readRequests(tenant, name)]).toEqual([busy.length, busy.length]);
  });
});
