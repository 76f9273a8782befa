import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { ActivityBuffer, NotStored } from "../../src/activity/buffer.ts";
import type { Entry } from "../../src/activity/entry.ts";
import { RefusalAggregator } from "../../src/activity/refusal-aggregator.ts";
import { storeEntries } from "../../src/activity/store-entries.ts";
import { writeEntries } from "../../src/activity/write-entries.ts";
import { call, db, makeTenant } from "./client.ts";
import { entryOf } from "./entries.ts";

const someone = { accountId: "acc_1", keyId: "key_1" };
const refusal = (timeMs: number, more: Partial<Entry> = {}) =>
  entryOf(someone, timeMs, { status: 429, errorCode: "rate_limit_exceeded", admitted: false, counted: false, ...more });

describe("The buffer of an isolate", () => {
  it("writes what many requests have added in one batch, by the one that flushes", async () => {
    const buffer = new ActivityBuffer();
    const batches: Entry[][] = [];
    const store = async (entries: Entry[]) => void batches.push(entries);
    await Promise.all(
      Array.from({ length: 30 }, () => {
        buffer.add(entryOf(someone, Date.now()));
        return buffer.flush(store);
      }),
    );
    expect(batches.map(({ length }) => length)).toEqual([30]);
  });

  it("keeps what could not be stored for the next flush, and loses none", async () => {
    const buffer = new ActivityBuffer();
    const entries = Array.from({ length: 6 }, (_, index) => entryOf(someone, Date.now() + index));
    for (const entry of entries) buffer.add(entry);
    const stored: Entry[] = [];
    let tries = 0;
    await buffer.flush(async (batch) => {
      tries++;
      if (tries === 1) throw new Error("nobody takes them");
      if (tries === 2) {
        stored.push(...batch.slice(0, 4));
        throw new NotStored(batch.slice(4), new Error("some are left"));
      }
      stored.push(...batch);
    });
    expect(tries).toBe(3);
    expect(new Set(stored.map(({ id }) => id))).toEqual(new Set(entries.map(({ id }) => id)));
    expect(stored.length).toBe(6);
  });

  it("is taken over from a request that ended early, a second after it was due", async () => {
    const buffer = new ActivityBuffer();
    buffer.add(entryOf(someone, Date.now()));
    // The first request's timer never fires, as when the platform has cancelled it.
    const real = globalThis.setTimeout;
    globalThis.setTimeout = (() => 0) as unknown as typeof setTimeout;
    void buffer.flush(async () => {});
    globalThis.setTimeout = real;
    const stored: Entry[] = [];
    const store = async (batch: Entry[]) => void stored.push(...batch);
    await buffer.flush(store);
    expect(stored.length).toBe(0);
    await new Promise((resolve) => setTimeout(resolve, 1100));
    buffer.add(entryOf(someone, Date.now()));
    await buffer.flush(store);
    expect(stored.length).toBe(2);
  });
});

describe("The buffer while D1 is slow", () => {
  const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

  it("does not let an entry wait for a second of refusals to end", async () => {
    const buffer = new ActivityBuffer();
    const stored: { id: string; at: number }[] = [];
    const store = async (batch: Entry[]) => void stored.push(...batch.map(({ id }) => ({ id, at: Date.now() })));
    const refuse = () => {
      const entry = refusal(Date.now());
      buffer.addRefusal(entry, Date.now(), () => entry);
      return buffer.flush(store);
    };
    await sleep(1000 - (Date.now() % 1000));
    const flushes = [refuse(), refuse()];
    await sleep(150);
    const own = entryOf(someone, Date.now());
    const addedAt = Date.now();
    buffer.add(own);
    await Promise.all([...flushes, buffer.flush(store)]);
    expect((stored.find(({ id }) => id === own.id)?.at ?? 0) - addedAt).toBeLessThan(400);
  });

  it("waits longer between batches, instead of asking D1 for ever more at once", async () => {
    const buffer = new ActivityBuffer();
    let running = 0;
    let most = 0;
    const store = async () => {
      most = Math.max(most, ++running);
      await sleep(1500);
      running--;
    };
    const flushes: Promise<void>[] = [];
    for (let n = 0; n < 100; n++) {
      buffer.add(entryOf(someone, Date.now()));
      flushes.push(buffer.flush(store));
      await sleep(20);
    }
    await Promise.all(flushes);
    expect(most).toBeLessThanOrEqual(6);
  });

  it("takes a batch up again whose request was ended in the middle of it", async () => {
    const buffer = new ActivityBuffer();
    const lost = entryOf(someone, Date.now());
    buffer.add(lost);
    void buffer.flush(() => new Promise(() => {}));
    await sleep(100);
    const now = vi.spyOn(Date, "now").mockReturnValue(Date.now() + 60_000);
    const stored: Entry[] = [];
    buffer.add(entryOf(someone, Date.now()));
    await buffer.flush(async (batch) => void stored.push(...batch));
    now.mockRestore();
    expect(stored.map(({ id }) => id)).toContain(lost.id);
    expect(stored.length).toBe(2);
  });
});

describe("The aggregator of refusals", () => {
  const second = Date.UTC(2026, 10, 21, 7, 30);
  const aggregate = (aggregator: RefusalAggregator, timeMs: number, more?: Partial<Entry>) => {
    const entry = refusal(timeMs, more);
    return aggregator.aggregate(entry, timeMs, () => entry);
  };

  it("lets the first of a second stand alone and counts the rest in one", () => {
    const aggregator = new RefusalAggregator();
    const own = Array.from({ length: 10 }, (_, index) => aggregate(aggregator, second + index));
    expect(own.filter((entry) => entry !== null).length).toBe(1);
    expect(aggregator.close(second + 999)).toEqual([]);
    expect(aggregator.close(second + 1000).map(({ count }) => count)).toEqual([9]);
    expect(aggregator.closesAt).toBeNull();
  });

  it("asks for no more entries than it hands out", () => {
    const aggregator = new RefusalAggregator();
    let made = 0;
    const make = () => refusal(second + made++);
    for (let index = 0; index < 100; index++) aggregator.aggregate(refusal(second), second + index, make);
    expect(made).toBe(2);
    expect(aggregator.close(second + 1000).map(({ count }) => count)).toEqual([99]);
  });

  it("begins anew with each second, and keeps what differs apart", () => {
    const aggregator = new RefusalAggregator();
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

describe("Entries that D1 does not take", () => {
  const failing = { prepare: () => db.$client.prepare("SELECT 1"), batch: () => Promise.reject(new Error("D1_ERROR: out of order")) };
  const brokenDb = new Proxy(db, { get: (target, name) => (name === "batch" ? failing.batch : Reflect.get(target, name)) });

  it("are journalled by the guards of their keys and drained by alarm, each exactly once", async () => {
    const [one, other] = [await makeTenant(), await makeTenant()];
    const entries = [one, one, other].map((tenant, index) => entryOf(tenant, Date.now() - 1000 + index));
    const handToGuard = async (keyId: string, own: Entry[]) => env.KEY_GUARD.getByName(keyId).journal(own);
    await storeEntries({ db: brokenDb, handToGuard }, entries);
    await storeEntries({ db: brokenDb, handToGuard }, entries);
    const logOf = async (tenant: typeof one) =>
      (await call("GET", "/api/v1/activity", { key: tenant.key })).body.data.filter(({ id }: Entry) =>
        entries.some((entry) => entry.id === id),
      );
    expect((await logOf(one)).length).toBe(0);
    for (const tenant of [one, other]) {
      const guard = env.KEY_GUARD.getByName(tenant.keyId);
      expect(await runInDurableObject(guard, (_, state) => state.storage.getAlarm())).not.toBeNull();
      await runDurableObjectAlarm(guard);
      expect(await runInDurableObject(guard, (_, state) => [...state.storage.sql.exec("SELECT id FROM journal")].length)).toBe(0);
    }
    expect([(await logOf(one)).length, (await logOf(other)).length]).toEqual([2, 1]);
  });

  it("for what is in one of them are written without that one", async () => {
    const tenant = await makeTenant();
    // No number, so NULL in its row, which no column takes.
    const poison = { durationMs: Number.NaN };
    const entries = Array.from({ length: 9 }, (_, index) => entryOf(tenant, Date.now() - index, index === 4 ? poison : {}));
    const reported = vi.spyOn(console, "error");
    await writeEntries(db, entries, Date.now());
    expect(reported.mock.calls.flat().join(" ")).toContain(entries[4]?.id);
    reported.mockRestore();
    const { results } = await env.DB.prepare("SELECT id FROM activity WHERE account_id = ?").bind(tenant.accountId).all<{ id: string }>();
    expect(new Set(results.map(({ id }) => id))).toEqual(new Set(entries.filter((_, index) => index !== 4).map(({ id }) => id)));
  });

  it("since it hangs, go to the guards after five seconds, and those that hang too leave them to the next flush", async () => {
    const [tenant, other] = [await makeTenant(), await makeTenant()];
    const entries = [entryOf(tenant, Date.now()), entryOf(other, Date.now())];
    const hanging = new Proxy(db, { get: (target, name) => (name === "batch" ? () => new Promise(() => {}) : Reflect.get(target, name)) });
    const handed: string[] = [];
    const handToGuard = async (keyId: string) => {
      handed.push(keyId);
      if (keyId === tenant.keyId) await new Promise(() => {});
    };
    const failure = await storeEntries({ db: hanging, handToGuard }, entries).catch((error: unknown) => error);
    expect(handed).toEqual([tenant.keyId, other.keyId]);
    expect((failure as NotStored).unstored).toEqual([entries[0]]);
  }, 15_000);

  it("are named where the guards will not take them either", async () => {
    const tenant = await makeTenant();
    const other = await makeTenant();
    const entries = [entryOf(tenant, Date.now()), entryOf(other, Date.now())];
    const handToGuard = async (keyId: string) => {
      if (keyId === tenant.keyId) throw new Error("no object");
    };
    const failure = await storeEntries({ db: brokenDb, handToGuard }, entries).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(NotStored);
    expect((failure as NotStored).unstored).toEqual([entries[0]]);
  });
});
