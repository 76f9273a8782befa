import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { operatorOn } from "../../src/accounts/actor.ts";
import { deleteOldEntries } from "../../src/activity/retention.ts";
import { writeEntries } from "../../src/activity/write-entries.ts";
import { dayMs, dayStart, hourMs, hourStart } from "../../src/clock.ts";
import { connect } from "../../src/db/client.ts";
import { readUsage } from "../../src/usage/read-usage.ts";
import { refreshRollUps } from "../../src/usage/refresh-roll-ups.ts";
import { cron, db, makeTenant } from "./client.ts";
import { entryOf, write } from "./entries.ts";

const rows = async (accountId: string) =>
  (await env.DB.prepare("SELECT id, ip FROM activity WHERE account_id = ? ORDER BY id").bind(accountId).all()).results;

it("Entries are deleted after 31 days and lose their address after 7; figures that are still shown stay as they were", async () => {
  const tenant = await makeTenant();
  // At noon, so that the windows begin in the middle of a day, whose hours they need.
  const now = dayStart(Date.now()) - 12 * hourMs;
  const at = (days: number) => entryOf(tenant, now - days * dayMs - 1, { ip: "198.51.100.1" });
  const entries = [at(59.9), at(40), at(31.1), at(30.9), at(29.9), at(7.1), at(6.9), at(0)];
  await write(entries);
  const reading = { db, now, actor: operatorOn(tenant.accountId) };
  const before = await readUsage(await refreshRollUps(reading), { window: "30d" });
  await cron(now);
  const kept = ["198.51.100.1", "198.51.100.1"];
  expect((await rows(tenant.accountId)).map(({ id, ip }) => [id, ip])).toEqual(
    entries.slice(3).map(({ id }, index) => [id, [null, null, null, ...kept][index]]),
  );
  const after = await readUsage(await refreshRollUps(reading), { window: "30d" });
  expect(after).toEqual(before);
  expect([after.totalRequests.value, after.totalRequests.previous]).toEqual([4, 4]);
});

it("One run of the job deletes as much as all keys of an account may have added since the last, and what a long pause has left", async () => {
  const tenant = await makeTenant();
  const now = hourStart(Date.now());
  const many = (days: number) =>
    Array.from({ length: 6000 }, (_, index) => entryOf(tenant, now - days * dayMs + index, { ip: "198.51.100.1" }));
  await write([...many(40), ...many(20), ...many(8)]);
  await cron(now);
  const left = await rows(tenant.accountId);
  expect([left.length, left.filter(({ ip }) => ip !== null).length]).toEqual([12_000, 0]);
});

it("Entries go in chunks of 5,000, each of which stands though the next one fails; the next run goes on from there", async () => {
  const tenant = await makeTenant();
  const now = Date.now();
  await write(Array.from({ length: 5200 }, (_, index) => entryOf(tenant, now - 40 * dayMs + index)));
  let deletes = 0;
  const failing = new Proxy(env.DB, {
    get: (target, name) => {
      if (name !== "prepare") return Reflect.get(target, name).bind(target);
      return (query: string) => {
        if (query.startsWith("DELETE FROM activity") && deletes++ === 1) throw new Error("D1_ERROR: out of order");
        return target.prepare(query);
      };
    },
  });
  await expect(deleteOldEntries(connect(failing), tenant.accountId, now, 500_000)).rejects.toThrow();
  expect((await rows(tenant.accountId)).length).toBe(200);
  await deleteOldEntries(db, tenant.accountId, now, 500_000);
  expect((await rows(tenant.accountId)).length).toBe(0);
});

it("An entry that comes after its address would have been cleared is written without it", async () => {
  const tenant = await makeTenant();
  const now = Date.now();
  const entries = [entryOf(tenant, now - 8 * dayMs, { ip: "198.51.100.1" }), entryOf(tenant, now - 6 * dayMs, { ip: "198.51.100.1" })];
  await writeEntries(db, entries, now);
  expect((await rows(tenant.accountId)).map(({ ip }) => ip)).toEqual([null, "198.51.100.1"]);
});

it("An entry older than 30 days is refused, and the rest of its batch is written", async () => {
  const tenant = await makeTenant();
  const now = Date.now();
  const fresh = entryOf(tenant, now - 29 * dayMs);
  await writeEntries(db, [entryOf(tenant, now - 30.1 * dayMs), fresh], now);
  expect((await rows(tenant.accountId)).map(({ id }) => id)).toEqual([fresh.id]);
});
