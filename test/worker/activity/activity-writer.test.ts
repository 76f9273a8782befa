import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import type { ActivityWriter } from "../../../src/activity/activity-writer.ts";
import type { Entry } from "../../../src/activity/entry.ts";
import { minuteMs, sliceMs, sliceStart } from "../../../src/time/clock.ts";
import { readUsage } from "../../../src/usage/read-usage.ts";
import { refreshRollUps } from "../../../src/usage/refresh-roll-ups.ts";
import { call, cron, makeTenant, readingLog, type Tenant } from "../support/client.ts";
import { entryOf } from "../support/entries.ts";

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** A writer that nobody else has: tests run beside each other. */
let next = 100;
const ownWriter = () => env.ACTIVITY_WRITER.getByName(`ACTIVITY_0/${next++}`);

const D1 = env.ACTIVITY_0;
const withD1 = (writer: DurableObjectStub<ActivityWriter>, ACTIVITY_0: D1Database) =>
  runInDurableObject(writer, (instance) => void Object.assign(instance, { env: { ...env, ACTIVITY_0 } }));

/** D1 whose batches go as they are made to. */
const d1With = (batch: (statements: D1PreparedStatement[]) => Promise<unknown>) =>
  new Proxy(D1, { get: (target, name) => (name === "batch" ? batch : Reflect.get(target, name).bind(target)) });
const outOfOrder = d1With(() => Promise.reject(new Error("D1_ERROR: out of order")));

const logOf = async ({ accountId }: Tenant) =>
  (await D1.prepare("SELECT id FROM activity WHERE account_id = ?").bind(accountId).all<{ id: string }>()).results.map(({ id }) => id);

const many = (tenant: Tenant, count: number): Entry[] => Array.from({ length: count }, (_, index) => entryOf(tenant, Date.now() - index));

const drained = async (writer: DurableObjectStub<ActivityWriter>) => {
  for (let tries = 0; tries < 50 && (await writer.status()).journalled > 0; tries++) {
    await runDurableObjectAlarm(writer);
    await sleep(20);
  }
};

describe("A writer", () => {
  it("answers once D1 has the entries, and writes what many have sent in one batch", async () => {
    const [writer, tenant] = [ownWriter(), await makeTenant()];
    let batches = 0;
    await withD1(
      writer,
      d1With((statements) => {
        batches++;
        return D1.batch(statements);
      }),
    );
    await writer.write([entryOf(tenant, Date.now())]);
    expect((await logOf(tenant)).length).toBe(1);
    // Within the object, so that all of them arrive at once on a slow machine too.
    await runInDurableObject(writer, async (object) => {
      await Promise.all(Array.from({ length: 40 }, () => object.write([entryOf(tenant, Date.now())])));
    });
    expect((await logOf(tenant)).length).toBe(41);
    expect(batches).toBe(2);
  });

  it("takes a batch that is repeated, or that another has written too, as one", async () => {
    const [writer, other, tenant] = [ownWriter(), ownWriter(), await makeTenant()];
    const entries = many(tenant, 10);
    await Promise.all([writer.write(entries), writer.write(entries), other.write(entries)]);
    expect((await logOf(tenant)).length).toBe(10);
  });

  it("keeps what D1 does not take, answers all the same, and writes it by alarm, however often that has failed", async () => {
    const [writer, tenant] = [ownWriter(), await makeTenant()];
    await withD1(writer, outOfOrder);
    for (let n = 0; n < 3; n++) await writer.write(many(tenant, 2));
    expect(await writer.status()).toEqual({ journalled: 6, dropped: 0, isFull: false });
    for (let failed = 0; failed < 8; failed++) {
      expect(await runDurableObjectAlarm(writer)).toBe(true);
      expect(await runInDurableObject(writer, (_, state) => state.storage.getAlarm())).toBeGreaterThan(Date.now() - 1000);
    }
    await withD1(writer, D1);
    await drained(writer);
    expect((await logOf(tenant)).length).toBe(6);
  });

  it("still has what it kept after it was put to sleep, and drains it in full batches", async () => {
    const [writer, tenant] = [ownWriter(), await makeTenant()];
    await withD1(writer, outOfOrder);
    const entries = many(tenant, 1200);
    for (let from = 0; from < entries.length; from += 100) await writer.write(entries.slice(from, from + 100));
    await evictDurableObject(writer);
    let batches = 0;
    await withD1(
      writer,
      d1With((statements) => {
        batches++;
        return D1.batch(statements);
      }),
    );
    expect((await writer.status()).journalled).toBe(1200);
    await drained(writer);
    expect((await logOf(tenant)).length).toBe(1200);
    expect(batches).toBeLessThan(6);
  });

  it("answers within half a second while D1 hangs, and forgets what it kept once D1 has confirmed after all", async () => {
    const [writer, tenant] = [ownWriter(), await makeTenant()];
    await withD1(
      writer,
      d1With(async (statements) => {
        await sleep(1000);
        return D1.batch(statements);
      }),
    );
    const startedAt = Date.now();
    await writer.write([entryOf(tenant, Date.now())]);
    expect(Date.now() - startedAt).toBeLessThan(900);
    expect((await writer.status()).journalled).toBe(1);
    await sleep(1000);
    expect([(await writer.status()).journalled, (await logOf(tenant)).length]).toEqual([0, 1]);
  });

  it("writes a batch without the entry that no row can be made of, and reports that one", async () => {
    const [writer, tenant] = [ownWriter(), await makeTenant()];
    // No number, so NULL in its row, which no column takes.
    const entries = many(tenant, 9).map((entry, index) => (index === 4 ? { ...entry, durationMs: Number.NaN } : entry));
    const reported = vi.spyOn(console, "error");
    await writer.write(entries);
    expect(reported.mock.calls.flat().join(" ")).toContain(entries[4]?.id);
    reported.mockRestore();
    expect(new Set(await logOf(tenant))).toEqual(new Set(entries.filter((_, index) => index !== 4).map(({ id }) => id)));
  });

  it("keeps entries from 9.5 GB on, and says so", async () => {
    const [writer, tenant] = [ownWriter(), await makeTenant()];
    await withD1(
      writer,
      d1With(async (statements) =>
        (await D1.batch(statements)).map((outcome) => ({ ...outcome, meta: { ...outcome.meta, size_after: 9.6e9 } })),
      ),
    );
    await writer.write([entryOf(tenant, Date.now())]);
    await writer.write([entryOf(tenant, Date.now())]);
    expect(await writer.status()).toEqual({ journalled: 1, dropped: 0, isFull: true });
    await withD1(writer, D1);
    await drained(writer);
    expect((await logOf(tenant)).length).toBe(2);
    expect((await writer.status()).isFull).toBe(false);
  });

  it("goes on folding while its database is full, and does not ring again and again", async () => {
    const [writer, tenant] = [ownWriter(), await makeTenant()];
    let reads = 0;
    const full = new Proxy(D1, {
      get: (target, name) => {
        if (name === "prepare")
          return (query: string) => {
            reads++;
            return query === "SELECT 1" ? { run: async () => ({ meta: { size_after: 9.6e9 } }) } : target.prepare(query);
          };
        if (name !== "batch") return Reflect.get(target, name).bind(target);
        return async (statements: D1PreparedStatement[]) =>
          (await D1.batch(statements)).map((outcome) => ({ ...outcome, meta: { ...outcome.meta, size_after: 9.6e9 } }));
      },
    });
    await withD1(writer, full);
    await writer.write([entryOf(tenant, Date.now() - 20 * minuteMs)]);
    await writer.write([entryOf(tenant, Date.now())]);
    expect(await writer.status()).toMatchObject({ journalled: 1, isFull: true });
    await writer.wake();
    const folded = () =>
      D1.prepare("SELECT sum(requests) AS requests FROM usage_hours WHERE account_id = ?").bind(tenant.accountId).first("requests");
    for (let tries = 0; tries < 100 && (await folded()) === null; tries++) await sleep(20);
    expect(await folded()).toBe(1);
    reads = 0;
    await sleep(1500);
    expect(reads).toBeLessThan(20);
  });

  it("reports what isolates had to drop", async () => {
    const writer = ownWriter();
    await writer.write([], 7);
    expect((await writer.status()).dropped).toBe(7);
  });
});

describe("The slices of a writer", () => {
  const stale = async ({ accountId }: Tenant) =>
    (await D1.prepare("SELECT start, writer FROM stale_slices WHERE account_id = ? ORDER BY start").bind(accountId).all()).results;
  const hoursOf = async ({ accountId }: Tenant) =>
    await D1.prepare("SELECT sum(requests) AS requests FROM usage_hours WHERE account_id = ?").bind(accountId).first<number>("requests");

  it("are folded by its alarm once they have ended, and left open until then", async () => {
    const [writer, tenant] = [ownWriter(), await makeTenant()];
    const now = Date.now();
    await writer.write([entryOf(tenant, now - 20 * minuteMs), entryOf(tenant, now)]);
    expect(await stale(tenant)).toHaveLength(2);
    const alarm = await runInDurableObject(writer, (_, state) => state.storage.getAlarm());
    expect((alarm ?? 0) - (sliceStart(now) + sliceMs)).toBeGreaterThan(0);
    await runDurableObjectAlarm(writer);
    expect((await stale(tenant)).map(({ start }) => start)).toEqual([sliceStart(now)]);
    expect(await hoursOf(tenant)).toBe(1);
  });

  it("are folded though it was killed, and though there are fewer writers now: the clock wakes it", async () => {
    const [writer, tenant] = [env.ACTIVITY_WRITER.getByName("ACTIVITY_0/31"), await makeTenant()];
    await writer.write([entryOf(tenant, Date.now() - 20 * minuteMs)]);
    await runInDurableObject(writer, (_, state) => state.storage.deleteAlarm());
    await evictDurableObject(writer);
    await cron();
    for (let tries = 0; tries < 100 && (await stale(tenant)).length > 0; tries++) await sleep(20);
    expect([await stale(tenant), await hoursOf(tenant)]).toEqual([[], 1]);
  });

  it("of many accounts are folded together, the oldest first", async () => {
    const writer = ownWriter();
    const tenants = await Promise.all(Array.from({ length: 60 }, () => makeTenant()));
    await writer.write(tenants.map((tenant, index) => entryOf(tenant, Date.now() - (index + 2) * sliceMs)));
    let folds = 0;
    await withD1(
      writer,
      d1With((statements) => {
        folds++;
        return D1.batch(statements);
      }),
    );
    await runDurableObjectAlarm(writer);
    expect(folds).toBe(2);
    for (const tenant of tenants) expect(await stale(tenant)).toEqual([]);
  });

  it("are refreshed for who reads, once for all who ask, and not again while that is fresh for what it took", async () => {
    const [writer, tenant] = [ownWriter(), await makeTenant()];
    let folds = 0;
    await withD1(
      writer,
      d1With(async (statements) => {
        folds++;
        return (await D1.batch(statements)).map((outcome) => ({ ...outcome, meta: { ...outcome.meta, duration: 10 } }));
      }),
    );
    await writer.write([entryOf(tenant, Date.now())]);
    folds = 0;
    await Promise.all(Array.from({ length: 20 }, () => writer.refresh(tenant.accountId)));
    expect([folds, await hoursOf(tenant)]).toEqual([1, 1]);
    // Seven statements of 10 ms: for three seconds and a half, what is stored is good enough.
    await writer.write([entryOf(tenant, Date.now())]);
    await writer.refresh(tenant.accountId);
    expect(await hoursOf(tenant)).toBe(1);
    await sleep(3700);
    await writer.refresh(tenant.accountId);
    expect(await hoursOf(tenant)).toBe(2);
  });
});

describe("Usage", () => {
  it("says as of when it is, where it cannot be refreshed", async () => {
    const tenant = await makeTenant();
    const before = Date.now();
    await env.ACTIVITY_WRITER.getByName("ACTIVITY_0/0").write([entryOf(tenant, before)]);
    const broken = { ...readingLog(tenant.accountId, Date.now() + 1000), refresh: () => Promise.reject(new Error("object reset")) };
    const asking = await refreshRollUps(broken);
    expect(asking.asOf).toBeGreaterThanOrEqual(before);
    expect(asking.asOf).toBeLessThan(asking.now);
    expect((await readUsage(asking, { window: "24h" })).totalRequests.value).toBe(0);
    const refreshed = await refreshRollUps(readingLog(tenant.accountId, Date.now()));
    expect(refreshed.asOf).toBe(refreshed.now);
    expect((await readUsage(refreshed, { window: "24h" })).totalRequests.value).toBe(1);
  });

  it("of an account in another database is read from there, and only there", async () => {
    const tenant = await makeTenant({}, "ACTIVITY_1");
    expect((await call("GET", "/api/v1/me", { key: tenant.key })).status).toBe(200);
    const second = (env as unknown as { ACTIVITY_1: D1Database }).ACTIVITY_1;
    const count = (database: D1Database) =>
      database.prepare("SELECT count(*) AS count FROM activity WHERE account_id = ?").bind(tenant.accountId).first<number>("count");
    for (let tries = 0; tries < 100 && (await count(second)) === 0; tries++) await sleep(20);
    expect([await count(second), await count(D1)]).toEqual([1, 0]);
    const { body } = await call("GET", "/api/v1/usage?window=24h", { key: tenant.key });
    expect(body.total_requests.value).toBe(1);
    expect((await call("GET", "/api/v1/activity", { key: tenant.key })).body.data.at(-1)).toMatchObject({
      path: "/api/v1/me",
      key_name: "Test key",
    });
  });

  it("of an account whose database is not bound is away; its keys are admitted, listed and disabled", async () => {
    const tenant = await makeTenant({}, "ACTIVITY_7");
    const { key } = tenant;
    expect((await call("GET", "/api/v1/users", { key })).status).toBe(200);
    expect([(await call("GET", "/api/v1/usage", { key })).status, (await call("GET", "/api/v1/activity", { key })).status]).toEqual([
      503, 503,
    ]);
    const made = await call("POST", "/api/v1/keys", { key, body: { name: "Other" } });
    expect(made.status).toBe(201);
    expect((await call("GET", "/api/v1/keys", { key })).body.data).toHaveLength(2);
    expect((await call("PATCH", `/api/v1/keys/${made.body.id}`, { key, body: { status: "disabled" } })).body.status).toBe("disabled");
    expect((await call("GET", "/api/v1/me", { key: made.body.secret_key })).body.code).toBe("disabled_key");
    const page = (path: string) =>
      exports.default.fetch(
        new Request(`http://localhost${path}`, { headers: { "Sec-Fetch-Site": "none", Cookie: `account=${tenant.accountId}` } }),
      );
    for (const path of ["/keys", `/keys/${made.body.id}`, `/keys/${made.body.id}/rotate`, `/keys/${tenant.keyId}/revoke`])
      expect((await page(path)).status, path).toBe(200);
    // The jobs say so, and go on with the accounts of other databases.
    const old = await makeTenant();
    await env.ACTIVITY_WRITER.getByName("ACTIVITY_0/0").write([entryOf(old, Date.now() - 40 * 24 * 60 * minuteMs)]);
    await env.DB.prepare("DELETE FROM jobs").run();
    await expect(cron()).rejects.toThrow("delete_old_log_entries");
    expect(await logOf(old)).toEqual([]);
    await env.DB.prepare("UPDATE accounts SET activity_store = 'ACTIVITY_0' WHERE id = ?").bind(tenant.accountId).run();
  });
});
