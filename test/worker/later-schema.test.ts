import { env } from "cloudflare:workers";
import { afterAll, beforeAll, expect, it } from "vitest";
import { call, cron, makeKey, makeTenant, within2s } from "./support/client.ts";
import { deliveriesOf, receivedAt, register, until } from "./support/receiver.ts";

// A migration comes before the release that needs it: for a while the Worker that runs is older than its tables. Here each table has
// two columns more than the code knows, one of them in need of a value that it does not give.

const databases = [env.DB, env.ACTIVITY_0];

const tablesOfOurs = async (database: D1Database) => {
  const { results } = await database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all<{ name: string }>();
  return results.map(({ name }) => name).filter((name) => !/^(sqlite|d1|_cf)_/.test(name));
};

beforeAll(async () => {
  expect(await tablesOfOurs(env.ACTIVITY_0)).toContain("activity");
  for (const database of databases)
    for (const table of await tablesOfOurs(database)) {
      await database.prepare(`ALTER TABLE ${table} ADD COLUMN from_later TEXT`).run();
      await database.prepare(`ALTER TABLE ${table} ADD COLUMN needed_later INTEGER NOT NULL DEFAULT 7`).run();
    }
});

// Other tests have the same D1 after this one.
afterAll(async () => {
  for (const database of databases)
    for (const table of await tablesOfOurs(database))
      for (const column of ["from_later", "needed_later"]) await database.prepare(`ALTER TABLE ${table} DROP COLUMN ${column}`).run();
});

it("A Worker goes on with all that it does, on tables that have columns of a later release", async () => {
  const tenant = await makeTenant();
  const { key } = tenant;
  const webhook = await register(key, { event_types: ["*"] });
  const user = await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } });
  const task = await call("POST", "/api/v1/tasks", {
    key,
    body: { title: "x", assignee_id: user.body.id },
    "Idempotency-Key": "once",
  });
  const again = await call("POST", "/api/v1/tasks", { key, body: { title: "x", assignee_id: user.body.id }, "Idempotency-Key": "once" });
  expect([user.status, task.status, again.body.id, again.headers.get("Idempotent-Replayed")]).toEqual([201, 201, task.body.id, "true"]);
  expect((await call("PATCH", `/api/v1/tasks/${task.body.id}`, { key, body: { status: "done" } })).status).toBe(200);
  expect((await call("DELETE", `/api/v1/users/${user.body.id}`, { key })).status).toBe(204);

  const made = await call("POST", "/api/v1/keys", { key, body: { name: "Made" } });
  const path = `/api/v1/keys/${made.body.id}`;
  expect((await call("PATCH", path, { key, body: { hourly_limit: 9 } })).status).toBe(200);
  expect((await call("POST", `${path}/rotate`, { key, body: {} })).status).toBe(200);
  expect((await call("DELETE", path, { key })).status).toBe(204);

  const received = await until(
    () => receivedAt(webhook.path),
    (seen) => seen.length >= 10,
  );
  expect(received.length).toBeGreaterThanOrEqual(10);
  const deliveries = await until(
    () => deliveriesOf(tenant, webhook.id, "?limit=100"),
    (seen) => seen.every(({ status }: { status: string }) => status === "delivered"),
  );
  expect(new Set(deliveries.map(({ status }: { status: string }) => status))).toEqual(new Set(["delivered"]));
  await call("PATCH", `/api/v1/webhooks/${webhook.id}`, { key, body: { status: "disabled" } });
  await call("POST", "/api/v1/tasks", { key, body: { title: "held" } });
  await call("PATCH", `/api/v1/webhooks/${webhook.id}`, { key, body: { status: "active" } });
  const redelivery = { from: new Date(Date.now() - 60_000).toISOString() };
  expect((await call("POST", `/api/v1/webhooks/${webhook.id}/redeliver`, { key, body: redelivery })).body.count).toBeGreaterThan(0);

  const { key: watcher } = await makeKey(tenant.accountId);
  const { body } = await within2s(
    () => call("GET", `/api/v1/usage?key_id=${tenant.keyId}&window=24h`, { key: watcher }),
    (seen) => seen.body.total_requests.value >= 12,
  );
  expect(body.total_requests.value).toBeGreaterThanOrEqual(12);
  expect((await call("GET", "/api/v1/activity?limit=100", { key: watcher })).body.data.length).toBeGreaterThanOrEqual(12);
  expect((await call("GET", "/api/v1/usage/breakdown?by=route", { key: watcher })).body.data.length).toBeGreaterThan(3);
  await cron();
});
