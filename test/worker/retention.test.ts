import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { forgetOldEntries } from "../../src/activity/forget-old-entries.ts";
import { writeEntries } from "../../src/activity/write-entries.ts";
import { dayMs, hourMs } from "../../src/clock.ts";
import worker from "../../src/index.ts";
import { foldMarks } from "../../src/usage/fold-marks.ts";
import { readUsage } from "../../src/usage/read-usage.ts";
import { db, makeTenant } from "./client.ts";
import { entryOf, write } from "./entries.ts";

const rows = async (accountId: string) =>
  (await env.DB.prepare("SELECT id, ip FROM activity WHERE account_id = ? ORDER BY id").bind(accountId).all()).results;

it("Entries are deleted after 31 days and lose their address after 7; figures that are still shown stay as they were", async () => {
  const tenant = await makeTenant();
  const now = Date.now() - (Date.now() % hourMs);
  const at = (days: number) => entryOf(tenant, now - days * dayMs - 1, { ip: "198.51.100.1" });
  const entries = [at(59), at(40), at(31.1), at(30.9), at(7.1), at(6.9), at(0)];
  await write(entries);
  const reading = { db, now, actor: { accountId: tenant.accountId, keyId: null } };
  const before = await readUsage(await foldMarks(reading), { window: "30d" });
  await worker.scheduled({ scheduledTime: now, cron: "* * * * *", noRetry() {} }, env);
  expect(await rows(tenant.accountId)).toEqual(entries.slice(3).map(({ id }, index) => ({ id, ip: index === 1 ? null : "198.51.100.1" })));
  const after = await readUsage(await foldMarks(reading), { window: "30d" });
  expect(after).toEqual(before);
  expect([after.totalRequests.value, after.totalRequests.previous]).toEqual([3, 4]);
});

it("Old entries go in bounded chunks", async () => {
  const tenant = await makeTenant();
  const now = Date.now();
  await write(Array.from({ length: 5200 }, (_, index) => entryOf(tenant, now - 40 * dayMs + index)));
  await forgetOldEntries(db, tenant.accountId, now);
  expect((await rows(tenant.accountId)).length).toBe(200);
  await forgetOldEntries(db, tenant.accountId, now);
  expect((await rows(tenant.accountId)).length).toBe(0);
});

it("An entry older than 30 days is refused, and the rest of its batch is written", async () => {
  const tenant = await makeTenant();
  const now = Date.now();
  const fresh = entryOf(tenant, now - 29 * dayMs);
  await writeEntries(db, [entryOf(tenant, now - 30.1 * dayMs), fresh], now);
  expect((await rows(tenant.accountId)).map(({ id }) => id)).toEqual([fresh.id]);
});
