import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { minuteMs, secondMs } from "../../../src/lib/time/clock.ts";
import type { Batch, BatchId } from "../../../src/log/batch.ts";
import type { Entry } from "../../../src/log/entry.ts";
import { ActivityBuffer } from "../../../src/log/isolate/buffer.ts";
import { EntryAggregator } from "../../../src/log/isolate/entry-aggregator.ts";
import { FairQueue } from "../../../src/log/isolate/fair-queue.ts";
import { sendEntries } from "../../../src/log/writers.ts";
import { makeTenant, within2s } from "../support/client.ts";
import { batchOf, entryOf } from "../support/entries.ts";
import { readEntries } from "../support/log-rows.ts";

const apiKey = { accountId: "acc_1", keyId: "key_1" };
const newEntry = () => entryOf(apiKey, Date.now());
const deniedEntry = (timeMs: number, more: Partial<Entry> = {}) =>
  entryOf(apiKey, timeMs, { status: 429, errorCode: "rate_limit_exceeded", admitted: false, counted: false, ...more });

/** Returns a function `send` that accepts every batch, and a list `sent` of all accepted entries. */
function makeSender() {
  const sent: Entry[] = [];
  const send = async ({ entries }: Batch) => {
    sent.push(...entries);
  };
  return { sent, send };
}

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/**
 * Returns a function `send` that takes `ms` milliseconds of real time for each batch. `counts` contains the number of sent entries, and the highest
 * number of batches that were in flight at the same time.
 */
function makeSlowSender(ms: number) {
  const counts = { sent: 0, inFlight: 0, maxInFlight: 0 };
  const send = async ({ entries }: Batch) => {
    counts.maxInFlight = Math.max(counts.maxInFlight, ++counts.inFlight);
    await sleep(ms);
    counts.sent += entries.length;
    counts.inFlight--;
  };
  return { counts, send };
}

/** Moves `Date.now` forward by `ms` milliseconds, until the end of the test. Timers still run in real time. */
function moveClock(ms: number): void {
  const realNow = Date.now.bind(Date);
  vi.spyOn(Date, "now").mockImplementation(() => realNow() + ms);
}

describe("The buffer of an isolate", () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  it("sends the first entry at once, and 200 ms later the entries of all other requests in one batch", async () => {
    const buffer = new ActivityBuffer();
    const batches: { count: number; at: number }[] = [];
    const send = async ({ entries }: Batch) => {
      batches.push({ count: entries.length, at: Date.now() });
    };
    const startedAt = Date.now();
    const add = () => {
      buffer.add(newEntry());
      return buffer.flush(send);
    };
    await Promise.all([add(), ...Array.from({ length: 29 }, add)]);
    expect(batches.map(({ count }) => count)).toEqual([1, 29]);
    expect((batches[0]?.at ?? 0) - startedAt).toBeLessThan(50);
    expect((batches[1]?.at ?? 0) - startedAt).toBeGreaterThanOrEqual(195);
  });

  it("has at most five batches in flight, and never sends more than 500 entries in one batch", async () => {
    const buffer = new ActivityBuffer();
    const { counts, send } = makeSlowSender(2000);
    const sizes: number[] = [];
    const sendCounted = (batch: Batch) => {
      sizes.push(batch.entries.length);
      return send(batch);
    };
    const flushes: Promise<void>[] = [];
    for (let n = 0; n < 1200; n++) {
      buffer.add(newEntry());
      flushes.push(buffer.flush(sendCounted));
      // These pauses spread the requests over 1.8 s. The buffer could send nine batches in this time.
      if (n % 100 === 0) await sleep(150);
    }
    await Promise.all(flushes);
    expect([counts.maxInFlight, counts.sent]).toEqual([5, 1200]);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(500);
  });

  it("sends a batch again after a failed send, with its id and its entries, and makes at most four others meanwhile", async () => {
    const buffer = new ActivityBuffer();
    const attempts: { id: BatchId; ids: string[] }[] = [];
    const added: Entry[] = [];
    const acknowledged = new Map<number, readonly Entry[]>();
    let isFailing = true;
    const send = async ({ id, entries }: Batch) => {
      attempts.push({ id, ids: entries.map((entry) => entry.id) });
      if (isFailing) throw new Error("the send failed");
      acknowledged.set(id.sequence, entries);
    };
    const flushes: Promise<void>[] = [];
    for (let round = 0; round < 8; round++) {
      const entry = entryOf(apiKey, Date.now());
      added.push(entry);
      buffer.add(entry);
      flushes.push(buffer.flush(send));
      await sleep(210);
    }
    const sequences = () => [...new Set(attempts.map(({ id }) => id.sequence))];
    expect(sequences()).toEqual([1, 2, 3, 4, 5]);
    isFailing = false;
    await Promise.all(flushes);
    expect(sequences()).toEqual([1, 2, 3, 4, 5, 6]);
    expect(new Set(attempts.map(({ id }) => id.isolate)).size).toBe(1);
    const contents = Map.groupBy(attempts, ({ id }) => id.sequence);
    for (const ofBatch of contents.values()) expect(new Set(ofBatch.map(({ ids }) => ids.join())).size).toBe(1);
    const stored = [...acknowledged].toSorted(([one], [other]) => one - other).flatMap(([, entries]) => entries);
    expect(stored.map(({ id }) => id)).toEqual(added.map(({ id }) => id));
  });

  it("gives its batches ids that no other buffer gives", async () => {
    const ids: BatchId[] = [];
    for (const buffer of [new ActivityBuffer(), new ActivityBuffer()]) {
      buffer.add(newEntry());
      await buffer.flush(async ({ id }) => void ids.push(id));
    }
    expect(ids.map(({ sequence }) => sequence)).toEqual([1, 1]);
    expect(ids[0]?.isolate).not.toBe(ids[1]?.isolate);
  });

  it("drops entries beyond its maximum size, and reports their number with one batch, in each attempt", async () => {
    const buffer = new ActivityBuffer();
    for (let n = 0; n < 10_007; n++) buffer.add(entryOf(apiKey, 1));
    const sent: [sequence: number, dropped: number][] = [];
    await buffer.flush(async ({ id, dropped }) => {
      sent.push([id.sequence, dropped]);
      if (sent.length === 1) throw new Error("the send failed");
    });
    const ofFirst = sent.filter(([sequence]) => sequence === 1);
    expect([ofFirst.length, new Set(ofFirst.map(([, dropped]) => dropped))]).toEqual([2, new Set([7])]);
    expect(new Set(sent.filter(([sequence]) => sequence > 1).map(([, dropped]) => dropped))).toEqual(new Set([0]));
  });

  it("is flushed by another request a second after the due time, if the flushing request ended early", async () => {
    const buffer = new ActivityBuffer();
    await buffer.flush(async () => {});
    buffer.add(newEntry());
    await buffer.flush(async () => {});
    buffer.add(newEntry());
    // The next flush waits for a timer. The timer never fires, as if the platform had ended the request.
    const realSetTimeout = globalThis.setTimeout;
    globalThis.setTimeout = (() => 0) as unknown as typeof setTimeout;
    void buffer.flush(async () => {});
    globalThis.setTimeout = realSetTimeout;
    const { sent, send } = makeSender();
    await buffer.flush(send);
    expect(sent.length).toBe(0);
    await vi.waitUntil(() => !buffer.isFlushing(Date.now()), { timeout: 1300, interval: 10 });
    buffer.add(newEntry());
    await buffer.flush(send);
    expect(sent.length).toBe(2);
  });

  it("leaves no entry behind when a flush ends, because a request that arrives during its last batch takes over", async () => {
    const buffer = new ActivityBuffer();
    const { counts, send } = makeSlowSender(300);
    const flushes: Promise<void>[] = [];
    let added = 0;
    const add = () => {
      buffer.add(newEntry());
      added++;
      if (!buffer.isFlushing(Date.now())) flushes.push(buffer.flush(send));
    };
    add();
    let hasEnded = false;
    void flushes[0]?.then(() => {
      hasEnded = true;
    });
    const addUntil = (condition: () => boolean) =>
      vi.waitUntil(
        () => {
          add();
          return condition();
        },
        { timeout: 5000, interval: 40 },
      );
    await addUntil(() => counts.sent > 0 && counts.inFlight > 0);
    // A request flushes the buffer for at most ten seconds. The test moves the clock forward by ten seconds, so the first flush sends only
    // one more batch.
    moveClock(10 * secondMs);
    await addUntil(() => hasEnded);
    await Promise.all(flushes);
    expect(flushes.length).toBeGreaterThan(1);
    expect(counts.sent).toBe(added);
  });

  it("sends the entry of a request before the second of a shared entry ends", async () => {
    const buffer = new ActivityBuffer();
    const sent: { id: string; at: number }[] = [];
    const send = async ({ entries }: Batch) => {
      sent.push(...entries.map(({ id }) => ({ id, at: Date.now() })));
    };
    // These requests share one log entry. The entry collects requests for at least a second.
    const nextSecond = Date.now() + secondMs;
    const deny = () => {
      const entry = deniedEntry(nextSecond);
      buffer.addShared(entry, { startedAt: nextSecond, endedAt: nextSecond }, () => entry);
      return buffer.flush(send);
    };
    const flushes = [deny(), deny()];
    // While the buffer sends a batch, `isFlushing` stays true for up to 20 s. While the buffer waits, `isFlushing` stays true for at most
    // 1.2 s.
    await vi.waitUntil(() => !buffer.isFlushing(Date.now() + 5 * secondMs), { timeout: 1000, interval: 10 });
    expect(sent.length).toBe(1);
    const entry = newEntry();
    const addedAt = Date.now();
    buffer.add(entry);
    await Promise.all([...flushes, buffer.flush(send)]);
    expect((sent.find(({ id }) => id === entry.id)?.at ?? 0) - addedAt).toBeLessThan(400);
  });

  it("sends a batch again if the request that sent it ended before the send was complete", async () => {
    const buffer = new ActivityBuffer();
    const lost = newEntry();
    buffer.add(lost);
    const neverEndingSend = vi.fn(() => new Promise<void>(() => {}));
    void buffer.flush(neverEndingSend);
    expect(neverEndingSend).toHaveBeenCalledOnce();
    moveClock(minuteMs);
    const { sent, send } = makeSender();
    buffer.add(newEntry());
    await buffer.flush(send);
    expect(sent.map(({ id }) => id)).toContain(lost.id);
    expect(sent.length).toBe(2);
  });
});

describe("The entries that wait in an isolate", () => {
  const ownedBy = (accountId: string, count: number, more: Partial<Entry> = {}) =>
    Array.from({ length: count }, () => entryOf({ accountId, keyId: `key_of_${accountId}` }, 1, more));

  /** Adds entries to a queue in the given order. Returns the number of entries of each account that it holds, and the number of dropped entries. */
  function queue(entries: readonly Entry[]): Record<string, number> {
    const queued = new FairQueue();
    const dropped = entries.reduce((sum, entry) => sum + queued.add(entry), 0);
    const byAccount = Map.groupBy(queued.take(queued.length), ({ accountId }) => accountId);
    return { dropped, ...Object.fromEntries([...byAccount].map(([accountId, { length }]) => [accountId, length])) };
  }

  it("lose only entries of the account that holds the most if there is no room, and the lost entries are counted", () => {
    const flood = ownedBy("acc_flood", 12_000);
    const others = { acc_1: 40, acc_2: 60, acc_3: 900 };
    const [first, ...later] = Object.entries(others).map(([accountId, count]) => ownedBy(accountId, count));
    expect(queue([...(first ?? []), ...flood, ...later.flat()])).toEqual({ ...others, acc_flood: 9000, dropped: 3000 });
  });

  it("lose only entries of an account with large entries, even if it has few of them", () => {
    const problem = { detail: "x".repeat(400), errors: [] };
    const entries = [...ownedBy("acc_large", 2000, { problem }), ...ownedBy("acc_1", 1500)];
    expect(queue(entries)).toEqual({ acc_large: 1700, acc_1: 1500, dropped: 300 });
  });
});

describe("The aggregator of log entries", () => {
  const second = Date.UTC(2026, 10, 21, 7, 30);
  const aggregate = (aggregator: EntryAggregator, timeMs: number, more?: Partial<Entry>) => {
    const entry = deniedEntry(timeMs, more);
    return aggregator.aggregate(entry, { startedAt: timeMs, endedAt: timeMs }, () => entry);
  };

  it("gives the first request of a second its own entry, and counts all other requests in one shared entry", () => {
    const aggregator = new EntryAggregator();
    const results = Array.from({ length: 10 }, (_, index) => aggregate(aggregator, second + index));
    expect(results.filter((entry) => entry !== null).length).toBe(1);
    expect(aggregator.close(second + 999)).toEqual([]);
    expect(aggregator.close(second + 1000).map(({ count }) => count)).toEqual([9]);
    expect(aggregator.closesAt).toBeNull();
  });

  it("gives a shared entry the mean duration of its requests", () => {
    const aggregator = new EntryAggregator();
    for (const durationMs of [900, 10, 20, 45]) {
      const entry = deniedEntry(second, { durationMs });
      aggregator.aggregate(entry, { startedAt: second, endedAt: second + durationMs }, () => entry);
    }
    expect(aggregator.close(second + 1000)).toMatchObject([{ count: 3, durationMs: 25 }]);
  });

  it("keeps the problem of a shared entry only if all of its requests have the same reason", () => {
    const problem = { detail: "The limit is used up: 3 per hour.", errors: [] };
    const sharedProblem = (reasons: readonly (string | undefined)[]) => {
      const aggregator = new EntryAggregator();
      for (const reason of reasons)
        aggregator.aggregate({ ...deniedEntry(second), reason }, { startedAt: second, endedAt: second }, () =>
          deniedEntry(second, { problem }),
        );
      return aggregator.close(second + 1000)[0]?.problem;
    };
    expect(sharedProblem(["a", "b", "b"])).toEqual(problem);
    expect(sharedProblem(["a", "b", "c"])).toBeNull();
    expect(sharedProblem(["a", "b", "b", undefined])).toBeNull();
    expect(sharedProblem([undefined, undefined])).toBeNull();
  });

  const sumOf = (entries: readonly Entry[]) => entries.reduce((sum, { count }) => sum + count, 0);
  /** Aggregates requests that are denied in one second, and returns all their entries. */
  function entriesOfFlood(requests: readonly Partial<Entry>[]): Entry[] {
    const aggregator = new EntryAggregator();
    const own = requests.flatMap((more) => aggregate(aggregator, second, more) ?? []);
    return [...own, ...aggregator.close(second + 1000)];
  }

  it("creates at most 20 entries a second for a key, even if its client varies everything, and counts each request by its status", () => {
    const statuses = [401, 403, 429];
    const requests = Array.from({ length: 400 }, (_, index) => ({
      status: statuses[index % 3] ?? 0,
      method: `X${index}`,
      route: `/route-${index}`,
      ip: index % 2 === 0 ? `198.51.100.${index % 256}` : `2001:db8:${index.toString(16)}::1`,
      path: `/${index}`,
      userAgent: `client ${index}`,
    }));
    const entries = entriesOfFlood(requests);
    expect(entries.length).toBeLessThanOrEqual(20);
    const byStatus = statuses.map((status) => sumOf(entries.filter((entry) => entry.status === status)));
    expect(byStatus).toEqual([134, 133, 133]);
  });

  it("shares entries between requests with different tokens as methods, and between addresses of one IPv6 network", () => {
    const methods = Array.from({ length: 50 }, (_, index) => ({ method: `BREW-${index}` }));
    const addresses = Array.from({ length: 50 }, (_, index) => ({ ip: `2001:db8::${(index + 1).toString(16)}` }));
    expect(entriesOfFlood(methods).map(({ count }) => count)).toEqual([1, 49]);
    expect(entriesOfFlood(addresses).map(({ count }) => count)).toEqual([1, 49]);
  });

  it("names no client in the entry for the remaining requests of a key", () => {
    const requests = Array.from({ length: 20 }, (_, index) => ({ ip: `198.51.100.${index}`, userAgent: "client", country: "NL" }));
    expect(entriesOfFlood(requests).at(-1)).toMatchObject({ count: 12, ip: null, userAgent: null, country: null });
  });

  it("creates at most 140 entries a second for the keys of an account, and none of them counts requests of another account", () => {
    const requests = Array.from({ length: 3000 }, (_, index) => ({ keyId: `key_${index % 1000}`, route: `/route-${index % 7}` }));
    const other = { accountId: "acc_2", keyId: "key_other" };
    const entries = entriesOfFlood([...requests, other, other]);
    const ofOther = entries.filter(({ accountId }) => accountId === "acc_2");
    expect(ofOther.map(({ count }) => count)).toEqual([1, 1]);
    expect(entries.length - ofOther.length).toBeLessThanOrEqual(140);
    expect(sumOf(entries) - 2).toBe(3000);
  });

  it("limits the entries of requests that end in one second, even if they started in different seconds", () => {
    const aggregator = new EntryAggregator();
    const entries: Entry[] = [];
    for (let index = 0; index < 400; index++) {
      const startedAt = second - 20 * index;
      const entry = deniedEntry(startedAt, { ip: `198.51.100.${index % 256}` });
      entries.push(...[aggregator.aggregate(entry, { startedAt, endedAt: second + index }, () => entry) ?? []].flat());
      if (index % 50 === 49) entries.push(...aggregator.close(second + index));
    }
    entries.push(...aggregator.close(second + 1000));
    expect(sumOf(entries)).toBe(400);
    expect(entries.length).toBeLessThanOrEqual(70);
  });

  it("shares no entry between two seconds or between requests of different kinds", () => {
    const aggregator = new EntryAggregator();
    const differences: Partial<Entry>[] = [
      {},
      { status: 403 },
      { method: "POST" },
      { route: "/x" },
      { ip: "198.51.100.1" },
      { keyId: "key_2" },
      { errorCode: "x" },
    ];
    for (const startOfSecond of [second, second + 1000]) {
      for (const difference of differences) {
        expect(aggregate(aggregator, startOfSecond, difference)).not.toBeNull();
        expect(aggregate(aggregator, startOfSecond + 1, difference)).toBeNull();
      }
    }
    expect(aggregator.close(second + 2000).length).toBe(2 * differences.length);
  });
});

describe("A batch of log entries", () => {
  /**
   * Returns bindings. With these bindings, only the log writers that `isReachable` selects accept batches. `called` lists the numbers of
   * all log writers that were called.
   */
  function makeBindings(isReachable: (number: number) => boolean) {
    const called: number[] = [];
    const ACTIVITY_WRITER = {
      getByName: (name: string) => {
        const number = Number(name.split("/")[1]);
        called.push(number);
        const reject = () => Promise.reject(new Error("object reset"));
        return isReachable(number) ? env.ACTIVITY_WRITER.getByName(name) : { write: reject, keepFor: reject };
      },
    } as unknown as typeof env.ACTIVITY_WRITER;
    return { called, bindings: { ...env, ACTIVITY_WRITER } };
  }

  it.each([
    ["the log writer of the account", () => true, [3]],
    ["the next log writer if the first fails twice, and the next log writer forwards it", (number: number) => number !== 3, [3, 3, 0]],
  ])("is sent to %s", async (_, isReachable, expected) => {
    const tenant = await makeTenant({}, "ACTIVITY_0/3");
    const entries = [0, 1, 2].map((n) => entryOf(tenant, Date.now() + n));
    const { called, bindings } = makeBindings(isReachable);
    await sendEntries(bindings, "ACTIVITY_0/3", batchOf(entries));
    expect(called).toEqual(expected);
    const readIds = async () => (await readEntries(tenant.accountId, "ACTIVITY_0/3")).map(({ id }) => id);
    await within2s(readIds, (ids) => ids.length > 0);
    expect(await readIds()).toEqual(entries.map(({ id }) => id));
  });

  it("is stored once if its log writer stores it but no response arrives, so that the next log writer keeps it too", async () => {
    const tenant = await makeTenant({}, "ACTIVITY_0/3");
    const entries = [0, 1, 2].map((n) => entryOf(tenant, Date.now() - minuteMs - n));
    const owner = env.ACTIVITY_WRITER.getByName("ACTIVITY_0/3");
    let calls = 0;
    const write = async (batch: Batch) => {
      calls++;
      await owner.write(batch);
      await owner.flush(tenant.accountId);
      throw new Error("Network connection lost");
    };
    const getByName = (name: string) => (name === "ACTIVITY_0/3" ? { write } : env.ACTIVITY_WRITER.getByName(name));
    const bindings = { ...env, ACTIVITY_WRITER: { getByName } as unknown as typeof env.ACTIVITY_WRITER };
    await sendEntries(bindings, "ACTIVITY_0/3", batchOf(entries));
    expect(calls).toBe(2);
    const next = env.ACTIVITY_WRITER.getByName("ACTIVITY_0/0");
    await vi.waitFor(async () => expect((await next.status()).hinted).toBe(0), { timeout: 5000, interval: 50 });
    expect((await readEntries(tenant.accountId, "ACTIVITY_0/3")).map(({ id }) => id).toSorted()).toEqual(
      entries.map(({ id }) => id).toSorted(),
    );
    const { results } = await env.ACTIVITY_0.prepare("SELECT sum(entries) AS entries FROM activity_segments WHERE account_id = ?")
      .bind(tenant.accountId)
      .all();
    expect([results, (await owner.openRollups(tenant.accountId)).memtable.size]).toEqual([[{ entries: 3 }], 0]);
  });
});
