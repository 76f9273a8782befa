import { env } from "cloudflare:workers";
import { afterAll, beforeAll, expect, it } from "vitest";
import { call, cron, makeKey, makeTenant, within2s } from "../support/client.ts";
import { deliveriesOf, receivedAt, register, until } from "../support/receiver.ts";
import { readTables } from "../support/schema.ts";

// A deployment first runs the migrations of a release, and then starts the release. The running Worker can therefore be older than its
// tables. In this test, each table has two columns that the code does not know. One of these columns is NOT NULL and has a default value.

const databases = [env.DB, env.ACTIVITY_0];

/** Adds two columns to each table, like the migrations of a later release. */
async function addColumns(database: D1Database): Promise<void> {
  for (const { name } of await readTables(database)) {
    await database.prepare(`ALTER TABLE ${name} ADD COLUMN from_later TEXT`).run();
    await database.prepare(`ALTER TABLE ${name} ADD COLUMN needed_later INTEGER NOT NULL DEFAULT 7`).run();
  }
}

async function dropColumns(database: D1Database): Promise<void> {
  for (const { name } of await readTables(database))
    for (const column of ["from_later", "needed_later"]) await database.prepare(`ALTER TABLE ${name} DROP COLUMN ${column}`).run();
}

beforeAll(async () => {
  expect((await readTables(env.ACTIVITY_0)).map(({ name }) => name)).toContain("activity_segments");
  for (const database of databases) await addColumns(database);
});

// Later tests use the same databases, so the added columns must be removed.
afterAll(async () => {
  for (const database of databases) await dropColumns(database);
});

it("The Worker works on tables with columns of a later release", async () => {
  const tenant = await makeTenant();
  const { key } = tenant;
  const webhook = await register(key, { event_types: ["*"] });
  const user = await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } });
  const createTask = () =>
    call("POST", "/api/v1/tasks", { key, body: { title: "x", assignee_id: user.body.id }, "Idempotency-Key": "once" });
  const task = await createTask();
  const replay = await createTask();
  expect([user.status, task.status, replay.body.id, replay.headers.get("Idempotent-Replayed")]).toEqual([201, 201, task.body.id, "true"]);
  expect((await call("PATCH", `/api/v1/tasks/${task.body.id}`, { key, body: { status: "done" } })).status).toBe(200);
  expect((await call("DELETE", `/api/v1/users/${user.body.id}`, { key })).status).toBe(204);

  const created = await call("POST", "/api/v1/keys", { key, body: { name: "Made" } });
  const path = `/api/v1/keys/${created.body.id}`;
  expect((await call("PATCH", path, { key, body: { hourly_limit: 9 } })).status).toBe(200);
  expect((await call("POST", `${path}/rotate`, { key, body: {} })).status).toBe(200);
  expect((await call("DELETE", path, { key })).status).toBe(204);

  const received = await until(
    () => receivedAt(webhook.path),
    (requests) => requests.length >= 10,
  );
  expect(received.length).toBeGreaterThanOrEqual(10);
  const deliveries = await until(
    () => deliveriesOf(tenant, webhook.id, "?limit=100"),
    (page) => page.every(({ status }: { status: string }) => status === "delivered"),
  );
  expect(new Set(deliveries.map(({ status }: { status: string }) => status))).toEqual(new Set(["delivered"]));
  await call("PATCH", `/api/v1/webhooks/${webhook.id}`, { key, body: { status: "disabled" } });
  await call("POST", "/api/v1/tasks", { key, body: { title: "held" } });
  await call("PATCH", `/api/v1/webhooks/${webhook.id}`, { key, body: { status: "active" } });
  const redelivery = { from: new Date(Date.now() - 60_000).toISOString() };
  expect((await call("POST", `/api/v1/webhooks/${webhook.id}/redeliver`, { key, body: redelivery })).body.count).toBeGreaterThan(0);

  const { key: reader } = await makeKey(tenant.accountId);
  const { body } = await within2s(
    () => call("GET", `/api/v1/usage?key_id=${tenant.keyId}&window=24h`, { key: reader }),
    (usage) => usage.body.total_requests.value >= 12,
  );
  expect(body.total_requests.value).toBeGreaterThanOrEqual(12);
  expect((await call("GET", "/api/v1/activity?limit=100", { key: reader })).body.data.length).toBeGreaterThanOrEqual(12);
  expect((await call("GET", "/api/v1/usage/breakdown?by=route", { key: reader })).body.data.length).toBeGreaterThan(3);
  await cron();
});
