import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import * as fc from "fast-check";
import { expect, inject, it } from "vitest";
import type { StoredKey } from "../../../src/db/areas/usage/log-tables.ts";
import { connect, type Db } from "../../../src/db/client.ts";
import { timeOfId } from "../../../src/lib/ids.ts";
import { hourMs, minuteMs, secondMs } from "../../../src/lib/time/clock.ts";
import type { Batch } from "../../../src/log/batch.ts";
import type { Entry } from "../../../src/log/entry.ts";
import { searchSegments } from "../../../src/log/segments/read-segments.ts";
import { combine, type Query } from "../../../src/log/segments/scan.ts";
import { AccountLogs } from "../../../src/log/writer/account-logs.ts";
import { flushAccount, flushDue, flushLargest } from "../../../src/log/writer/flush.ts";
import { readOpenRollups, searchMemtable } from "../../../src/log/writer/read-memtable.ts";
import { storeFlushes } from "../../../src/log/writer/store-flushes.ts";
import { addByHour, addEntryByHour, type HourlyRollups, rollupsFrom, storedKeys } from "../../../src/usage/rollups.ts";
import { batchOf, entryOf } from "../support/entries.ts";

// Runs the log of one writer step by step, on real storage and real D1, and compares it after each step with a plain list of entries.

/** A database that can fail in the ways in which D1 fails. `next`: what happens to the next batch. */
interface FaultyDb {
  db: Db;
  next: "works" | "fails" | "hangs" | "unanswered";
  /** The batches that were given up. D1 may still run them. */
  givenUp: (() => Promise<unknown>)[];
  /** The number of batches since the start of the current store. */
  batches: number;
}

function faultyDb(): FaultyDb {
  const faulty: FaultyDb = { db: connect(env.ACTIVITY_0), next: "works", givenUp: [], batches: 0 };
  const real = connect(env.ACTIVITY_0);
  faulty.db = new Proxy(real, {
    get: (target, name) =>
      name === "batch"
        ? async (statements: Parameters<Db["batch"]>[0]) => {
            // The first batch of a store reads, and the second batch writes.
            const isWrite = faulty.batches++ === 1;
            if (!isWrite || faulty.next === "works") return target.batch(statements);
            if (faulty.next === "hangs") faulty.givenUp.push(() => target.batch(statements));
            if (faulty.next === "unanswered") await target.batch(statements);
            throw new Error("D1_ERROR: not available");
          }
        : Reflect.get(target, name),
  });
  return faulty;
}

/** The log under test. `restart` forgets everything that is only in memory. */
class Log {
  readonly accountId = `acc_${crypto.randomUUID()}`;
  readonly #storage: DurableObjectStorage;
  readonly d1 = faultyDb();
  logs: AccountLogs;
  now = Math.floor(Date.now() / hourMs) * hourMs - 5 * hourMs;
  /** What the log should contain, by id. */
  readonly expected = new Map<string, Entry>();
  readonly sent: Batch[] = [];
  seen = 0;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    this.logs = new AccountLogs(storage);
  }

  get own() {
    return this.logs.of(this.accountId);
  }

  restart(): void {
    this.logs = new AccountLogs(this.#storage);
  }

  /** Sends a new batch from one of three isolates. A batch that `isLost` reaches the log writer only when it is sent again. */
  append(entries: readonly Entry[], isLost: boolean): void {
    const batch = batchOf(entries, { id: { isolate: `isolate_${this.sent.length % 3}`, sequence: Math.floor(this.sent.length / 3) } });
    this.sent.push(batch);
    if (!isLost) this.send(batch);
  }

  send(batch: Batch): void {
    this.logs.append([batch], this.now);
    for (const entry of batch.entries) if (!this.expected.has(entry.id)) this.expected.set(entry.id, entry);
  }

  report(id: string, status: number, durationMs: number): void {
    const entry = this.expected.get(id);
    if (entry?.status !== null) return;
    const [outcome] = this.logs.report([{ entry, status, durationMs }], { flush: new Map(), now: this.now });
    if (outcome === "closed") return;
    this.expected.set(id, { ...entry, status, durationMs });
  }

  async store(): Promise<void> {
    const [flush] = this.own.waiting;
    if (!flush) return;
    const { number, id, at, completeTo } = flush;
    const toStore = {
      ...this.logs.wal.flushes.totalsOf(flush),
      number,
      id,
      at,
      completeTo,
      startId: "",
      segments: this.logs.wal.flushes.segmentsOf(flush),
    };
    this.d1.batches = 0;
    try {
      const [stored] = await storeFlushes({ db: this.d1.db, owner: 0 }, [toStore]);
      if (stored?.outcome !== "stored") return;
      expect(stored.lost).toBe(0);
      this.logs.removeFlushes([flush]);
    } catch {
      // The flush stays and is stored later.
    }
  }

  /** Reads the whole list, page by page. */
  async list(limit: number, filter: Query["filter"] = {}): Promise<Entry[]> {
    const all: Entry[] = [];
    for (let before: string | null = null; ; ) {
      const query: Query = { filter, before, from: null, limit };
      const page = combine(
        [await searchMemtable(this.logs, this.own, query), await searchSegments(connect(env.ACTIVITY_0), this.accountId, query)],
        limit,
      );
      expect(page.entries.length).toBeLessThanOrEqual(limit);
      all.push(...page.entries);
      if (page.completeFrom === null) return all;
      before = page.completeFrom;
    }
  }

  /** Adds up the figures: the totals in D1, the pending flushes that D1 does not have, and the memtable. */
  async figures(): Promise<HourlyRollups> {
    const open = readOpenRollups(this.logs, this.own);
    const { results } = await env.ACTIVITY_0.prepare("SELECT start, keys FROM hour_totals WHERE account_id = ?")
      .bind(this.accountId)
      .all<{ start: number; keys: string }>();
    const flush = await env.ACTIVITY_0.prepare("SELECT flush FROM activity_logs WHERE account_id = ?")
      .bind(this.accountId)
      .first<number>("flush");
    const sum: HourlyRollups = new Map();
    for (const { start, keys } of results) addByHour(sum, new Map([[start, rollupsFrom(JSON.parse(keys) as StoredKey[])]]));
    for (const { number, rollups } of open.waiting) if (number > (flush ?? 0)) addByHour(sum, rollups);
    addByHour(sum, open.memtable);
    return sum;
  }

  async compare(): Promise<void> {
    const expected = [...this.expected.values()].sort((a, b) => (a.id < b.id ? 1 : -1));
    expect(await this.list(7)).toEqual(expected);
    expect(await this.list(50, { statuses: [404] })).toEqual(expected.filter(({ status }) => status === 404));
    const rollups: HourlyRollups = new Map();
    for (const entry of expected) addEntryByHour(rollups, entry, timeOfId(entry.id));
    expect(plain(await this.figures())).toEqual(plain(rollups));
  }
}

const plain = (hours: HourlyRollups) =>
  Object.fromEntries(
    [...hours].map(([start, rollups]) => [
      start,
      storedKeys(rollups).map(([keyId, histogram, cells]) => [
        keyId,
        histogram,
        cells.toSorted((a, b) => (String(a) < String(b) ? -1 : 1)),
      ]),
    ]),
  );

type Step = (log: Log) => Promise<void> | void;

const keyIds = ["key_a", "key_b", "__proto__"];
const newEntries = fc
  .record({
    count: fc.integer({ min: 1, max: 150 }),
    isLost: fc.boolean(),
    ageMs: fc.constantFrom(0, 20 * secondMs, 5 * minuteMs, 90 * minuteMs),
    statuses: fc.array(fc.constantFrom(200, 200, 404, 429, null), { minLength: 1, maxLength: 4 }),
  })
  .map(
    ({ count, isLost, ageMs, statuses }): Step =>
      (log) => {
        log.append(
          Array.from({ length: count }, (_, at) => {
            const status = statuses[at % statuses.length] ?? null;
            const keyId = keyIds[at % 3] ?? "";
            return entryOf({ accountId: log.accountId, keyId }, log.now - ageMs - at, {
              status,
              ...(at % 5 === 0 && { route: "constructor" }),
              durationMs: status === null ? null : at,
              admitted: status !== 429,
              counted: status !== 429,
            });
          }),
          isLost,
        );
      },
  );
const resend = fc.nat().map(
  (from): Step =>
    (log) => {
      const batch = log.sent[from % Math.max(1, log.sent.length)];
      if (batch) log.send(batch);
    },
);
const report = fc.nat().map(
  (from): Step =>
    (log) => {
      const open = [...log.expected.values()].filter(({ status, id }) => status === null && log.own.memtable.entries.has(id));
      for (const { id } of open.slice(0, 1 + (from % 5))) log.report(id, 201, from % 1000);
    },
);
const always = (step: Step) => fc.constant<Step>(step);
const step = fc.oneof(
  { arbitrary: newEntries, weight: 4 },
  { arbitrary: resend, weight: 2 },
  { arbitrary: report, weight: 2 },
  // The clock may also step back.
  fc.constantFrom(secondMs, minuteMs, 20 * minuteMs, hourMs, -5 * minuteMs).map(
    (ms): Step =>
      (log) => {
        log.now += ms;
      },
  ),
  { arbitrary: always((log) => void flushDue(log.logs, log.now)), weight: 3 },
  always((log) => void flushLargest(log.logs, log.now, 10_000)),
  always((log) => void flushAccount(log.logs, log.own, log.now)),
  {
    arbitrary: fc.constantFrom("works" as const, "works" as const, "fails" as const, "hangs" as const, "unanswered" as const).map(
      (next): Step =>
        async (log) => {
          log.d1.next = next;
          await log.store();
        },
    ),
    weight: 4,
  },
  always(async (log) => void (await log.d1.givenUp.shift()?.())),
  { arbitrary: always((log) => log.restart()), weight: 2 },
);

it("Each entry is in the log once, and the figures equal the log, even if calls fail or are repeated", {
  timeout: 300_000,
  tags: ["long"],
}, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 30 }), async (steps) => {
      const writer = env.ACTIVITY_WRITER.getByName(`ACTIVITY_0/${crypto.randomUUID()}`);
      await runInDurableObject(writer, async (_, state) => {
        const log = new Log(state.storage);
        for (const each of steps) {
          await each(log);
          await log.compare();
        }
      });
    }),
    { numRuns: inject("isLong") ? 150 : 40 },
  );
});
