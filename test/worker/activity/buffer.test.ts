import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { ActivityBuffer } from "../../../src/activity/buffer.ts";
import type { Entry } from "../../../src/activity/entry.ts";
import { EntryAggregator } from "../../../src/activity/entry-aggregator.ts";
import { sendEntries } from "../../../src/activity/writers.ts";
import { makeTenant } from "../support/client.ts";
import { entryOf } from "../support/entries.ts";

const someone = { accountId: "acc_1", keyId: "key_1" };
const refusal = (timeMs: number, more: Partial<Entry> = {}) =>
  entryOf(someone, timeMs, { status: 429, errorCode: "rate_limit_exceeded", admitted: false, counted: false, ...more });
const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

describe("The buffer of an isolate", () => {
  it("sends at once after a silence, then what many requests have added in 200 ms, by the one that flushes", async () => {
    const buffer = new ActivityBuffer();
    const batches: { count: number; at: number }[] = [];
    const send = async (entries: Entry[]) => {
      batches.push({ count: entries.length, at: Date.now() });
      return 0;
    };
    const startedAt = Date.now();
    const add = () => {
      buffer.add(entryOf(someone, Date.now()));
      return buffer.flush(send);
    };
    await Promise.all([add(), ...Array.from({ length: 29 }, add)]);
    expect(batches.map(({ count }) => count)).toEqual([1, 29]);
    expect((batches[0]?.at ?? 0) - startedAt).toBeLessThan(50);
    expect((batches[1]?.at ?? 0) - startedAt).toBeGreaterThanOrEqual(195);
  });

  it("never sends two batches at a time, nor more than 500 entries in one", async () => {
    const buffer = new ActivityBuffer();
    let [running, most, sent] = [0, 0, 0];
    const send = async (entries: Entry[]) => {
      most = Math.max(most, ++running);
      expect(entries.length).toBeLessThanOrEqual(500);
      await sleep(300);
      sent += entries.length;
      running--;
      return 0;
    };
    const flushes: Promise<void>[] = [];
    for (let n = 0; n < 1200; n++) {
      buffer.add(entryOf(someone, Date.now()));
      flushes.push(buffer.flush(send));
      if (n % 100 === 0) await sleep(20);
    }
    await Promise.all(flushes);
    expect([most, sent]).toEqual([1, 1200]);
  });

  it("keeps what could not be sent for the next flush, and loses none", async () => {
    const buffer = new ActivityBuffer();
    const entries = Array.from({ length: 6 }, (_, index) => entryOf(someone, Date.now() + index));
    for (const entry of entries) buffer.add(entry);
    const sent: Entry[] = [];
    let tries = 0;
    await buffer.flush(async (batch) => {
      if (++tries < 3) throw new Error("nobody takes them");
      sent.push(...batch);
      return 0;
    });
    expect(tries).toBe(3);
    expect(sent.map(({ id }) => id)).toEqual(entries.map(({ id }) => id));
  });

  it("is bounded: what is too much is dropped and counted, and the next batch says how much", async () => {
    const buffer = new ActivityBuffer();
    for (let n = 0; n < 10_007; n++) buffer.add(entryOf(someone, 1));
    const told: number[] = [];
    // Of those that go past the writers, nobody is told: the next one is.
    await buffer.flush(async (_, dropped) => {
      told.push(dropped);
      return told.length < 3 ? 0 : dropped;
    });
    expect(told.slice(0, 4)).toEqual([7, 7, 7, 0]);
  });

  it("is taken over from a request that ended early, a second after it was due", async () => {
    const buffer = new ActivityBuffer();
    await buffer.flush(async () => 0);
    buffer.add(entryOf(someone, Date.now()));
    await buffer.flush(async () => 0);
    // The next one has to wait, and its timer never fires, as when the platform has cancelled it.
    buffer.add(entryOf(someone, Date.now()));
    const real = globalThis.setTimeout;
    globalThis.setTimeout = (() => 0) as unknown as typeof setTimeout;
    void buffer.flush(async () => 0);
    globalThis.setTimeout = real;
    const sent: Entry[] = [];
    const send = async (batch: Entry[]) => {
      sent.push(...batch);
      return 0;
    };
    await buffer.flush(send);
    expect(sent.length).toBe(0);
    await sleep(1300);
    buffer.add(entryOf(someone, Date.now()));
    await buffer.flush(send);
    expect(sent.length).toBe(2);
  });

  it("leaves nothing behind when it ends: a request that comes while its last batch is on its way takes over", async () => {
    const buffer = new ActivityBuffer();
    let [added, sent, running, most] = [0, 0, 0, 0];
    const send = async (entries: Entry[]) => {
      most = Math.max(most, ++running);
      await sleep(300);
      running--;
      sent += entries.length;
      return 0;
    };
    const flushes: Promise<void>[] = [];
    const add = () => {
      buffer.add(entryOf(someone, Date.now()));
      added++;
      if (!buffer.isFlushing(Date.now())) flushes.push(buffer.flush(send));
    };
    add();
    let isOver = false;
    void flushes[0]?.then(() => {
      isOver = true;
    });
    while (!isOver) {
      await sleep(40);
      add();
    }
    await Promise.all(flushes);
    expect([sent, most]).toEqual([added, 1]);
  });

  it("does not let an entry wait for a second of shared ones to end", async () => {
    const buffer = new ActivityBuffer();
    const sent: { id: string; at: number }[] = [];
    const send = async (batch: Entry[]) => {
      sent.push(...batch.map(({ id }) => ({ id, at: Date.now() })));
      return 0;
    };
    const refuse = () => {
      const entry = refusal(Date.now());
      buffer.addShared(entry, { startedAt: Date.now(), endedAt: Date.now() }, () => entry);
      return buffer.flush(send);
    };
    await sleep(1000 - (Date.now() % 1000));
    const flushes = [refuse(), refuse()];
    await sleep(150);
    const own = entryOf(someone, Date.now());
    const addedAt = Date.now();
    buffer.add(own);
    await Promise.all([...flushes, buffer.flush(send)]);
    expect((sent.find(({ id }) => id === own.id)?.at ?? 0) - addedAt).toBeLessThan(400);
  });

  it("takes a batch up again whose request was ended in the middle of it", async () => {
    const buffer = new ActivityBuffer();
    const lost = entryOf(someone, Date.now());
    buffer.add(lost);
    void buffer.flush(() => new Promise(() => {}));
    await sleep(50);
    const now = vi.spyOn(Date, "now").mockReturnValue(Date.now() + 60_000);
    const sent: Entry[] = [];
    buffer.add(entryOf(someone, Date.now()));
    await buffer.flush(async (batch) => {
      sent.push(...batch);
      return 0;
    });
    now.mockRestore();
    expect(sent.map(({ id }) => id)).toContain(lost.id);
    expect(sent.length).toBe(2);
  });
});

describe("The aggregator of entries", () => {
  const second = Date.UTC(2026, 10, 21, 7, 30);
  const aggregate = (aggregator: EntryAggregator, timeMs: number, more?: Partial<Entry>) => {
    const entry = refusal(timeMs, more);
    return aggregator.aggregate(entry, { startedAt: timeMs, endedAt: timeMs }, () => entry);
  };

  it("lets the first of a second stand alone and counts the rest in one", () => {
    const aggregator = new EntryAggregator();
    const own = Array.from({ length: 10 }, (_, index) => aggregate(aggregator, second + index));
    expect(own.filter((entry) => entry !== null).length).toBe(1);
    expect(aggregator.close(second + 999)).toEqual([]);
    expect(aggregator.close(second + 1000).map(({ count }) => count)).toEqual([9]);
    expect(aggregator.closesAt).toBeNull();
  });

  it("asks for no more entries than it hands out", () => {
    const aggregator = new EntryAggregator();
    let made = 0;
    const make = () => refusal(second + made++);
    for (let index = 0; index < 100; index++)
      aggregator.aggregate(refusal(second), { startedAt: second + index, endedAt: second + index }, make);
    expect(made).toBe(2);
    expect(aggregator.close(second + 1000).map(({ count }) => count)).toEqual([99]);
  });

  it("gives a shared entry the mean of its requests' durations", () => {
    const aggregator = new EntryAggregator();
    for (const durationMs of [900, 10, 20, 45]) {
      const entry = refusal(second, { durationMs });
      aggregator.aggregate(entry, { startedAt: second, endedAt: second + durationMs }, () => entry);
    }
    expect(aggregator.close(second + 1000)).toMatchObject([{ count: 3, durationMs: 25 }]);
  });

  it("begins anew with each second, and keeps what differs apart", () => {
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
    for (const at of [second, second + 1000]) {
      for (const difference of differences) {
        expect(aggregate(aggregator, at, difference)).not.toBeNull();
        expect(aggregate(aggregator, at + 1, difference)).toBeNull();
      }
    }
    expect(aggregator.close(second + 2000).length).toBe(2 * differences.length);
  });
});

describe("Entries on their way to a writer", () => {
  /** Writers, where some cannot be reached: by their number, how often each was called. */
  function writers(isReachable: (number: number) => boolean) {
    const asked: number[] = [];
    const ACTIVITY_WRITER = {
      getByName: (name: string) => {
        const number = Number(name.split("/")[1]);
        asked.push(number);
        return isReachable(number) ? env.ACTIVITY_WRITER.getByName(name) : { write: () => Promise.reject(new Error("object reset")) };
      },
    } as unknown as typeof env.ACTIVITY_WRITER;
    return { asked, bindings: { ...env, ACTIVITY_WRITER } };
  }

  const logged = async (entries: Entry[]) => {
    const { results } = await env.ACTIVITY_0.prepare("SELECT id FROM activity WHERE account_id = ? ORDER BY id")
      .bind(entries[0]?.accountId)
      .all();
    return results.map(({ id }) => id);
  };

  it.each([
    ["the one of their account", () => true, [3]],
    ["the next one, where it fails twice", (number: number) => number !== 3, [3, 3, 0]],
    ["D1 itself, where both do", () => false, [3, 3, 0]],
  ])("go to %s", async (_, isReachable, expected) => {
    const tenant = await makeTenant();
    const entries = [0, 1, 2].map((n) => entryOf(tenant, Date.now() + n));
    const { asked, bindings } = writers(isReachable);
    await sendEntries(bindings, { store: "ACTIVITY_0", number: 3 }, entries);
    expect(asked).toEqual(expected);
    expect(await logged(entries)).toEqual(entries.map(({ id }) => id));
  });

  it("stay with the isolate where D1 cannot be reached either", async () => {
    const tenant = await makeTenant();
    const { bindings } = writers(() => false);
    const batch = () => Promise.reject(new Error("D1_ERROR: out of order"));
    const broken = new Proxy(env.ACTIVITY_0, {
      get: (target, name) => (name === "batch" ? batch : Reflect.get(target, name).bind(target)),
    });
    const send = sendEntries({ ...bindings, ACTIVITY_0: broken }, { store: "ACTIVITY_0", number: 0 }, [entryOf(tenant, Date.now())]);
    await expect(send).rejects.toThrow("out of order");
  });
});
