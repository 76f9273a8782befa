import { env } from "cloudflare:workers";
import { eq } from "drizzle-orm";
import { expect, it, vi } from "vitest";
import type { Entry } from "../../../src/activity/entry.ts";
import { markSampleData } from "../../../src/operations/sample-data.ts";
import { dayMs, hourMs, hourStart } from "../../../src/time/clock.ts";
import { attempts as attemptRows, deliveries as deliveryRows } from "../../../src/webhooks/tables.ts";
import { browse } from "../support/browse.ts";
import { call, db, makeKey, makeTenant } from "../support/client.ts";
import { entryOf, logDelay, write } from "../support/entries.ts";
import { countEntries } from "../support/log-rows.ts";
import { makeOwned, readIds } from "../support/log-writers.ts";

it("Removing sample data keeps the data that were created later, and leaves one audit log entry", async () => {
  const { accountId, key: sampleKey, keyId } = await makeTenant();
  const now = Date.now();
  await write([0, 1, 2].map((day) => entryOf({ accountId, keyId }, now - day * dayMs - 1)));
  const { body: webhook } = await call("POST", "/api/v1/webhooks", {
    key: sampleKey,
    body: { url: "https://hooks.sample.dev/", event_types: ["task.created"] },
  });
  const { body: user } = await call("POST", "/api/v1/users", { key: sampleKey, body: { name: "Ada", email: "ada@example.com" } });
  await call("POST", "/api/v1/tasks", { key: sampleKey, body: { title: "Made up", assignee_id: user.id } });
  await vi.waitFor(async () => expect(await countEntries(accountId)).toBe(6), logDelay);
  const deliveries = await db.select({ id: deliveryRows.id }).from(deliveryRows).where(eq(deliveryRows.webhookId, webhook.id));
  expect(deliveries.length).toBe(1);
  await markSampleData(db, accountId, Date.now());
  const { key } = await makeKey(accountId, {
    scopes: ["users:read", "tasks:read", "tasks:write", "usage:read", "keys:read", "webhooks:read"],
  });
  const { get, post } = browse(accountId);
  expect((await get("/")).text).toContain("Sample data");
  await call("POST", "/api/v1/tasks", { key, body: { title: "My own" } });
  await vi.waitFor(async () => {
    const { body } = await call("GET", "/api/v1/usage", { key });
    expect(body.total_requests.value).toBeGreaterThanOrEqual(7);
  }, logDelay);
  expect((await post("/settings/sample-data")).status).toBe(303);
  expect((await call("GET", "/api/v1/me", { key: sampleKey })).body.code).toBe("revoked_key");
  const list = async (path: string) => (await call("GET", `/api/v1/${path}`, { key })).body.data;
  expect((await list("users")).length).toBe(0);
  expect((await list("tasks")).map(({ title }: { title: string }) => title)).toEqual(["My own"]);
  expect((await list("keys")).length).toBe(1);
  expect(await list("webhooks")).toEqual([]);
  const leftOver = [...(await db.select().from(deliveryRows)), ...(await db.select().from(attemptRows))];
  const [{ id: sampleDelivery } = { id: "" }] = deliveries;
  expect(leftOver.filter((row) => row.id === sampleDelivery || ("deliveryId" in row && row.deliveryId === sampleDelivery))).toEqual([]);
  const { body: usage } = await call("GET", "/api/v1/usage", { key });
  expect(usage.by_class["2xx"]).toBeGreaterThan(0);
  expect(usage.series.slice(0, -1).every(({ requests }: { requests: number }) => requests === 0)).toBe(true);
  // The overview and the audit log do not mention the revocation of sample keys.
  expect((await get("/")).text).not.toMatch(/key “[^”]*” revoked/);
  const audit = (await get("/settings/audit")).text;
  expect([audit.includes("account.sample_data_removed"), audit.includes("key.revoked"), audit.includes("webhook.deleted")]).toEqual([
    true,
    false,
    false,
  ]);
  expect((await get("/settings")).text).not.toContain("Remove sample data");
});

it("Removing sample data that are past their retention keeps the figures of the hour in which they end", async () => {
  const { name, writer, tenant } = await makeOwned();
  const now = Date.now();
  const end = hourStart(now - 40 * dayMs) + hourMs / 2;
  const [before, after, recent] = [end - hourMs, end + 1000, now].map((at) => entryOf(tenant, at));
  await writer.write([before, entryOf(tenant, end - 1000), after, recent] as Entry[]);
  await writer.flush(tenant.accountId);
  while (await writer.deleteOld([{ accountId: tenant.accountId, days: 30 }], now));
  await writer.deleteSample(tenant.accountId, end);
  const { results } = await env.ACTIVITY_0.prepare("SELECT start FROM hour_totals WHERE account_id = ? ORDER BY start")
    .bind(tenant.accountId)
    .all<{ start: number }>();
  // Nothing shows anymore which requests of this hour were sample data.
  expect(results.map(({ start }) => start)).toEqual([hourStart(end), hourStart(now)]);
  expect(await readIds(tenant, name)).toEqual([recent?.id]);
});
