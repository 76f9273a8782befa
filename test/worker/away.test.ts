import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { operatorOn } from "../../src/accounts/actor.ts";
import type { ActivityWriter } from "../../src/activity/activity-writer.ts";
import { leastFullStore } from "../../src/activity/databases.ts";
import { deleteOldEntries } from "../../src/activity/retention.ts";
import { writeEntries } from "../../src/activity/write-entries.ts";
import { connect } from "../../src/db/client.ts";
import { measureDatabases } from "../../src/db/database-sizes.ts";
import { jobs } from "../../src/scheduled/jobs.ts";
import { dayMs, dayStart, hourMs, hourStart } from "../../src/time/clock.ts";
import { readLastUse } from "../../src/usage/last-uses.ts";
import { foldAccount } from "../../src/usage/refresh-roll-ups.ts";
import { deleteOldUsage } from "../../src/usage/retention.ts";
import { sweepDeliveries } from "../../src/webhooks/sweep.ts";
import { db, makeTenant } from "./support/client.ts";
import { entryOf, write } from "./support/entries.ts";

// A database or a queue that hangs, fails or has too much to do: nobody else waits for it.

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
const D1 = env.ACTIVITY_0;

let next = 300;
const ownWriter = () => {
  const number = next++;
  return { number, writer: env.ACTIVITY_WRITER.getByName(`ACTIVITY_0/${number}`) };
};
const withD1 = (writer: DurableObjectStub<ActivityWriter>, ACTIVITY_0: D1Database) =>
  runInDurableObject(writer, (instance) => void Object.assign(instance, { env: { ...env, ACTIVITY_0 } }));

const never = () => new Promise(() => {});
const hangingStatement = { bind: () => hangingStatement, all: never, first: never, run: never, raw: never };
const hanging = { prepare: () => hangingStatement, batch: never } as unknown as D1Database;

/** D1 that does with some statements what it is told to, and with others what it does. */
const d1Where = (isMeant: (query: string) => boolean, instead: (query: string) => D1PreparedStatement) =>
  new Proxy(D1, {
    get: (target, name) =>
      name === "prepare"
        ? (query: string) => (isMeant(query) ? instead(query) : target.prepare(query))
        : Reflect.get(target, name).bind(target),
  });

const job = (name: string) => {
  const found = jobs.find((each) => each.name === name);
  if (!found) throw new Error(`there is no job ${name}`);
  return found;
};
const run = (bindings: Env, atMost: number) => ({
  env: bindings,
  now: Date.now(),
  outbox: { db },
  deliver: async () => {},
  cursor: "",
  atMost,
  endsAt: Date.now() + 5000,
});

describe("A database that hangs", () => {
  it("keeps no other from being measured", async () => {
    await env.DB.prepare("DELETE FROM database_sizes").run();
    await measureDatabases(
      db,
      [
        ["DB", env.DB],
        ["ACTIVITY_7", hanging],
      ],
      Date.now(),
    );
    expect((await env.DB.prepare("SELECT binding FROM database_sizes").all()).results).toEqual([{ binding: "DB" }]);
  });

  it("keeps no key from being changed: its last use is not known", async () => {
    const { accountId, keyId } = await makeTenant();
    const startedAt = Date.now();
    expect(await readLastUse({ activity: connect(hanging), actor: operatorOn(accountId) }, keyId)).toMatchObject({ isUseKnown: false });
    expect(Date.now() - startedAt).toBeLessThan(3000);
  });

  it("keeps no account of another one from its retention", async () => {
    const [stuck, after] = [await makeTenant({}, "ACTIVITY_7"), await makeTenant()];
    await write([entryOf(after, hourStart(Date.now()) - 40 * dayMs)]);
    try {
      const { run: deleteEntries } = job("delete_old_log_entries");
      // From these two on: with those of all other tests before them, a run may end before it comes to them.
      const cursor = stuck.accountId.slice(0, -1);
      const given = { ...run({ ...env, ACTIVITY_7: hanging } as unknown as Env, 60), cursor };
      const outcome = await deleteEntries(given).finally(() =>
        env.DB.prepare("UPDATE accounts SET activity_store = 'ACTIVITY_0' WHERE id = ?").bind(stuck.accountId).run(),
      );
      expect(outcome.errors).not.toEqual([]);
    } finally {
      const left = await D1.prepare("SELECT count(*) AS count FROM activity WHERE account_id = ?").bind(after.accountId).first("count");
      expect(left).toBe(0);
    }
  }, 60_000);

  it("keeps no account from being made in another", async () => {
    const away = { prepare: () => ({ run: () => Promise.reject(new Error("D1_ERROR: away")) }) };
    expect(await leastFullStore({ ...env, ACTIVITY_1: away })).toBe("ACTIVITY_0");
  });

  it("keeps no writer from what it has to write, though it does not answer which slices are stale", async () => {
    const [{ writer }, tenant] = [ownWriter(), await makeTenant()];
    let isHanging = true;
    const instead = () => {
      isHanging = false;
      return hangingStatement as unknown as D1PreparedStatement;
    };
    await withD1(
      writer,
      d1Where((query) => isHanging && query.includes("FROM stale_slices WHERE writer"), instead),
    );
    await writer.wake();
    while (isHanging) await sleep(20);
    await withD1(
      writer,
      new Proxy(D1, {
        get: (target, name) =>
          name === "batch" ? () => Promise.reject(new Error("D1_ERROR: away")) : Reflect.get(target, name).bind(target),
      }),
    );
    await writer.write([entryOf(tenant, Date.now())]);
    await withD1(writer, D1);
    for (let waited = 0; waited < 12_000 && (await writer.status()).journalled > 0; waited += 200) await sleep(200);
    expect((await writer.status()).journalled).toBe(0);
  });
});

describe("What cannot be folded", () => {
  it("holds up no other slice of its writer", async () => {
    const [{ writer, number }, bad, good] = [ownWriter(), await makeTenant(), await makeTenant()];
    const at = Date.now() - hourMs;
    await writeEntries({ d1: D1, writer: number, now: at }, [entryOf(bad, at - hourMs)]);
    await writeEntries({ d1: D1, writer: number, now: at }, [entryOf(good, at)]);
    const failsFor = (query: string) =>
      ({
        bind: (...values: unknown[]) =>
          D1.prepare(String(values[0]).includes(bad.accountId) ? "SELECT json_extract('{}', 'too much at once')" : query).bind(
            ...(String(values[0]).includes(bad.accountId) ? [] : values),
          ),
      }) as unknown as D1PreparedStatement;
    await withD1(
      writer,
      d1Where((query) => query.startsWith("INSERT INTO usage_slices"), failsFor),
    );
    await writer.wake();
    const left = async (accountId: string) =>
      await D1.prepare("SELECT count(*) AS count FROM stale_slices WHERE account_id = ?").bind(accountId).first("count");
    for (let waited = 0; waited < 8000 && (await left(good.accountId)) !== 0; waited += 100) await sleep(100);
    expect([await left(bad.accountId), await left(good.accountId)]).toEqual([1, 0]);
  });

  it("is not asked of D1 again and again by its readers", async () => {
    const [{ writer }, tenant] = [ownWriter(), await makeTenant()];
    await write([entryOf(tenant, Date.now())]);
    let folds = 0;
    const batch = async () => {
      folds++;
      throw new Error("D1_ERROR: too long");
    };
    await withD1(writer, new Proxy(D1, { get: (target, name) => (name === "batch" ? batch : Reflect.get(target, name).bind(target)) }));
    for (let asked = 0; asked < 20; asked++) await writer.refresh(tenant.accountId).catch(() => {});
    expect(folds).toBe(1);
  });

  it("is no day that has lost some hours or entries: what comes late for it changes no figure that is complete", async () => {
    const figureOf = (accountId: string, day: number) =>
      D1.prepare("SELECT sum(requests) AS requests FROM usage_days WHERE account_id = ? AND start = ?")
        .bind(accountId, day)
        .first("requests");
    for (const [age, days, expected] of [
      // Refused: the log begins later.
      [62, 31, 24],
      [94, 31, 24],
      // Taken: the log of this account is kept for longer than two windows.
      [63, 90, 25],
    ] as const) {
      const { accountId, keyId } = await makeTenant();
      const day = dayStart(Date.now()) - age * dayMs;
      const noon = day + age * dayMs + 12 * hourMs;
      await write(Array.from({ length: 24 }, (_, hour) => entryOf({ accountId, keyId }, day + hour * hourMs + 1)));
      await foldAccount(D1, accountId);
      await deleteOldEntries(D1, [{ accountId, days }], noon);
      while (await deleteOldUsage(D1, [accountId], noon));
      await write([entryOf({ accountId, keyId }, day + 5 * hourMs + 2)]);
      await foldAccount(D1, accountId);
      expect(await figureOf(accountId, day), `${age} days`).toBe(expected);
    }
  });
});

describe("A job that had more to do than it may", () => {
  it("goes on in the next minute, not in the next hour", async () => {
    const { accountId } = await makeTenant();
    const old = JSON.stringify(Array.from({ length: 21_000 }, (_, index) => index));
    await env.DB.batch([
      env.DB.prepare(
        "INSERT INTO events (account_id, id, type, data, created_at, sequence) SELECT ?1, 'evt_000000000001' || printf('%020x', value), 'task.created', '{}', 1, value FROM json_each(?2)",
      ).bind(accountId, old),
      env.DB.prepare(
        `INSERT INTO deliveries (id, account_id, webhook_id, event_id, event_type, status, attempts_made, claimed_until, created_at)
        SELECT 'dlv_000000000001' || printf('%020x', value), ?1, 'whk_1', 'evt_1', 'task.created', 'delivered', 1, 0, 1 FROM json_each(?2) LIMIT 6000`,
      ).bind(accountId, old),
    ]);
    expect((await job("delete_old_deliveries").run(run(env, 5000))).next).not.toBeNull();
    expect((await job("delete_old_deliveries").run(run(env, 5000))).next).toBeNull();
    const events = job("delete_old_history");
    const first = await events.run(run(env, 100_000));
    expect(first.next).not.toBeNull();
    for (let { next } = first, minutes = 0; next !== null && minutes < 10; minutes++)
      ({ next } = await events.run({ ...run(env, 100_000), cursor: next }));
    // The event of its key, made now, stays.
    expect(await env.DB.prepare("SELECT events FROM account_storage WHERE account_id = ?").bind(accountId).first("events")).toBe(1);
  });
});

it("While the queue is away, the sweep delivers by hand, of each webhook in turn", async () => {
  const { accountId } = await makeTenant();
  const webhooks = Array.from({ length: 5 }, (_, index) => `whk_000away${index}`);
  for (const webhook of webhooks)
    await env.DB.prepare(
      `INSERT INTO deliveries (id, account_id, webhook_id, event_id, event_type, status, attempts_made, next_attempt_at, claimed_until, created_at)
      SELECT 'dlv_away' || lower(hex(randomblob(12))), ?, ?, 'evt_1', 'task.created', 'pending', 0, 1000, 0, 1000 FROM json_each('[1,2,3,4,5,6,7,8,9,10,11,12]')`,
    )
      .bind(accountId, webhook)
      .run();
  const delivered: string[] = [];
  const queue = { sendBatch: () => Promise.reject(new Error("queue down")) } as unknown as Queue<{ deliveryId: string }>;
  const deliver = async (id: string) => {
    const sql = "UPDATE deliveries SET status = 'delivered' WHERE id = ? RETURNING webhook_id AS webhook";
    delivered.push((await env.DB.prepare(sql).bind(id).first<string>("webhook")) ?? "");
  };
  await sweepDeliveries({ db, queue, deliver }, Date.now(), "whk_000a", 1000);
  expect(delivered.length).toBe(25);
  const counts = webhooks.map((webhook) => delivered.filter((each) => each === webhook).length);
  // Webhooks of other tests may have a turn, after these.
  expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
  expect(Math.min(...counts)).toBeGreaterThan(0);
  await env.DB.prepare("DELETE FROM deliveries WHERE account_id = ?").bind(accountId).run();
});
