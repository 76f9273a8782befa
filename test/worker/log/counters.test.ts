import { abortAllDurableObjects, evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { bucketsMs, type RequestCounters } from "../../../src/log/writer/request-counters.ts";
import { batchOf } from "../support/entries.ts";
import { entriesOf, makeOwned } from "../support/log-writers.ts";

const totalOf = (served: RequestCounters) =>
  Object.values(served).reduce((sum, { requests }) => sum + Object.values(requests).reduce((all, count) => all + count, 0), 0);

describe("The counters of a log writer", () => {
  it("count requests by class, status and response time, and stay the same through a flush and a restart", async () => {
    const { name, writer, tenant } = await makeOwned();
    const given = entriesOf(tenant, 5, 60_000);
    const changes = [
      { method: "GET", status: 200, durationMs: 4 },
      { method: "POST", status: 201, durationMs: 90 },
      { method: "POST", status: 500, durationMs: 20_000 },
      { method: "GET", status: 429, durationMs: 1, count: 10, admitted: false, counted: false },
      { method: "POST", route: "/orders", status: null, durationMs: null },
    ];
    const entries = given.map((entry, index) => ({ ...entry, route: "/api/v1/users", ...changes[index] }));
    await writer.write(batchOf(entries), "version-1");
    const counted = await writer.counts();
    const { read, write, verified } = counted.served;
    expect([read.requests, write.requests, verified.requests]).toEqual([{ 2: 1, 4: 10 }, { 2: 1, 5: 1 }, {}]);
    expect([read.buckets[0], write.buckets.at(-1), write.buckets[bucketsMs.indexOf(100)]]).toEqual([11, 1, 1]);
    expect(write.durationMs).toBe(20_090);
    await writer.flush(tenant.accountId);
    expect((await writer.counts()).served).toEqual(counted.served);
    await abortAllDurableObjects();
    expect((await env.ACTIVITY_WRITER.getByName(name).counts()).served).toEqual(counted.served);
  });

  it("count a batch once, even if an isolate sends it again", async () => {
    const { writer, tenant } = await makeOwned();
    const batch = batchOf(entriesOf(tenant, 3));
    await writer.write(batch, "version-1");
    await writer.write(batch, "version-1");
    const { served, versions } = await writer.counts();
    expect(totalOf(served)).toBe(3);
    await evictDurableObject(writer);
    expect(totalOf((await writer.counts()).served)).toBe(3);
    expect(versions["version-1"]?.requests ?? 3).toBe(3);
  });

  it("keep the requests of an erased account", async () => {
    const { writer, tenant } = await makeOwned();
    await writer.write(batchOf(entriesOf(tenant, 3)));
    await writer.erase(tenant.accountId);
    expect(totalOf((await writer.counts()).served)).toBe(3);
  });
});
