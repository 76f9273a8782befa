import { describe, expect, it } from "vitest";
import { dayMs } from "../../../src/lib/time/clock.ts";
import { call, makeKey, makeTenant, type Tenant } from "../support/client.ts";
import { ageStoredResponses, readStoredBodies } from "../support/storage-rows.ts";

const post = (key: string, path: string, body: unknown, idempotencyKey: string) =>
  call("POST", `/api/v1${path}`, { key, body, "Idempotency-Key": idempotencyKey });
const countTasks = async (key: string) => (await call("GET", "/api/v1/tasks?limit=100", { key })).body.data.length;

const webhookBody = { url: "https://hooks.acme.dev/", event_types: ["task.created"] };
const makeWebhook = async ({ key }: Tenant) => (await call("POST", "/api/v1/webhooks", { key, body: webhookBody })).body.id as string;

describe("An Idempotency-Key", () => {
  it("makes a repeated POST take effect once and return the same response", async () => {
    const { key } = await makeTenant();
    const first = await post(key, "/tasks", { title: "x" }, "one");
    const repeated = await post(key, "/tasks", { title: "x" }, "one");
    expect([first.status, repeated.status]).toEqual([201, 201]);
    expect(repeated.text).toBe(first.text);
    for (const name of ["Location", "ETag", "Content-Type"]) expect(repeated.headers.get(name)).toBe(first.headers.get(name));
    expect([first.headers.get("Idempotent-Replayed"), repeated.headers.get("Idempotent-Replayed")]).toEqual([null, "true"]);
    expect(repeated.headers.get("X-Request-Id")).not.toBe(first.headers.get("X-Request-Id"));
    expect(Number(repeated.headers.get("X-RateLimit-Used"))).toBe(Number(first.headers.get("X-RateLimit-Used")) + 1);
    expect(await countTasks(key)).toBe(1);
  });

  it("makes 12 identical requests at once take effect once", async () => {
    const { key } = await makeTenant();
    const responses = await Promise.all(Array.from({ length: 12 }, () => post(key, "/tasks", { title: "x" }, "same")));
    expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([201]));
    expect(new Set(responses.map(({ text }) => text)).size).toBe(1);
    expect(responses.filter(({ headers }) => headers.get("Idempotent-Replayed") === null).length).toBe(1);
    expect(await countTasks(key)).toBe(1);
  });

  it("cannot be reused for a request with a different body", async () => {
    const { key } = await makeTenant();
    await post(key, "/tasks", { title: "x" }, "one");
    const reused = await post(key, "/tasks", { title: "y" }, "one");
    expect([reused.status, reused.body.code, reused.body.errors[0].header]).toEqual([422, "idempotency_key_reused", "Idempotency-Key"]);
    const concurrent = await Promise.all(["a", "b", "c", "d"].map((title) => post(key, "/tasks", { title }, "two")));
    expect(concurrent.map(({ status }) => status).toSorted()).toEqual([201, 422, 422, 422]);
    expect(await countTasks(key)).toBe(2);
  });

  it("accepts the same JSON value in a different notation as the same request, and no other value", async () => {
    const { key } = await makeTenant();
    const first = await post(key, "/tasks", '{"title":"é","labels":["a","b"],"description":""}', "one");
    for (const body of [
      ' {\n  "labels": ["a", "b"],\t"description": "", "title": "\\u00e9" }\r\n',
      '\ufeff{"description":"","title":"é","labels":["a","b"]}',
    ]) {
      const repeated = await post(key, "/tasks", body, "one");
      expect([repeated.status, repeated.text, repeated.headers.get("Idempotent-Replayed")]).toEqual([201, first.text, "true"]);
    }
    for (const body of [
      '{"title":"é","labels":["b","a"],"description":""}',
      '{"title":"é","labels":["a","b"]}',
      '{"title":"e\u0301","labels":["a","b"],"description":""}',
    ])
      expect((await post(key, "/tasks", body, "one")).body.code, body).toBe("idempotency_key_reused");
    expect(await countTasks(key)).toBe(1);
  });

  it("applies to one account and one path", async () => {
    const [one, other] = [await makeTenant(), await makeTenant()];
    const second = await makeKey(one.accountId);
    const first = await post(one.key, "/tasks", { title: "x" }, "k");
    expect((await post(second.key, "/tasks", { title: "x" }, "k")).text).toBe(first.text);
    expect((await post(other.key, "/tasks", { title: "x" }, "k")).headers.get("Idempotent-Replayed")).toBeNull();
    expect((await post(one.key, "/users", { name: "A", email: "a@example.com" }, "k")).status).toBe(201);
  });

  it("can be used again after an error response", async () => {
    const { key } = await makeTenant();
    expect((await post(key, "/tasks", { title: "x", assignee_id: "usr_1" }, "k")).status).toBe(422);
    await call("POST", "/api/v1/users", { key, body: { name: "A", email: "a@example.com" } });
    expect((await post(key, "/users", { name: "A", email: "a@example.com" }, "k")).status).toBe(409);
    expect((await post(key, "/users", { name: "A", email: "b@example.com" }, "k")).status).toBe(201);
    expect((await post(key, "/tasks", { title: "x" }, "k")).status).toBe(201);
  });

  it("stores a separate response for each of several concurrent rotations with different keys", async () => {
    const { key, accountId } = await makeTenant();
    const other = await makeKey(accountId);
    const rotate = (n: number) => post(key, `/keys/${other.keyId}/rotate`, { overlap_seconds: 0 }, `r${n}`);
    const first = await Promise.all([1, 2, 3].map(rotate));
    const repeated = await Promise.all([1, 2, 3].map(rotate));
    expect(first.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(repeated.map(({ body }) => body)).toEqual(first.map(({ body }) => ({ ...body, secret_key: null })));
    const uses = await Promise.all(first.map(({ body }) => call("GET", "/api/v1/me", { key: body.secret_key })));
    expect(uses.map(({ status }) => status).toSorted()).toEqual([200, 401, 401]);
  });

  it("replays a response with null in place of a secret, and without a second rotation", async () => {
    const { key, accountId } = await makeTenant();
    const made = await post(key, "/keys", { name: "x" }, "k");
    const repeated = await post(key, "/keys", { name: "x" }, "k");
    expect(repeated.body).toEqual({ ...made.body, secret_key: null });
    const other = await makeKey(accountId);
    const rotated = await post(key, `/keys/${other.keyId}/rotate`, { overlap_seconds: 0 }, "r");
    const replayed = await post(key, `/keys/${other.keyId}/rotate`, { overlap_seconds: 0 }, "r");
    expect(replayed.body).toEqual({ ...rotated.body, secret_key: null });
    expect((await call("GET", "/api/v1/me", { key: rotated.body.secret_key })).status).toBe(200);
    for (const body of await readStoredBodies()) expect(body).not.toMatch(/dvo_[0-9A-Za-z]{16}_/);
  });

  it("expires after 24 hours", async () => {
    const { key, accountId } = await makeTenant();
    await post(key, "/tasks", { title: "x" }, "k");
    await ageStoredResponses(accountId, dayMs);
    expect((await post(key, "/tasks", { title: "y" }, "k")).status).toBe(201);
    expect((await post(key, "/tasks", { title: "y" }, "k")).headers.get("Idempotent-Replayed")).toBe("true");
    expect(await countTasks(key)).toBe(2);
  });

  it.each(["", "x".repeat(256), "naïve"])("is rejected with status 400 if its value is %j", async (value) => {
    const { key } = await makeTenant();
    const { status, body } = await post(key, "/tasks", { title: "x" }, value);
    expect([status, body.code, body.errors[0].header]).toEqual([400, "invalid_header", "Idempotency-Key"]);
  });

  it.each<[string, string, (tenant: Tenant) => Promise<string>, unknown]>([
    ["create a key with more scopes", "keys:write", async () => "/keys", { name: "Wide", scopes: ["users:read", "users:write"] }],
    ["rotate a key with more scopes", "keys:write", async ({ accountId }) => `/keys/${(await makeKey(accountId)).keyId}/rotate`, {}],
    ["create a webhook for task events", "webhooks:write", async () => "/webhooks", webhookBody],
    [
      "rotate the secret of a webhook for task events",
      "webhooks:write",
      async (tenant) => `/webhooks/${await makeWebhook(tenant)}/rotate-secret`,
      {},
    ],
    [
      "send a test of a task event",
      "webhooks:write",
      async (tenant) => `/webhooks/${await makeWebhook(tenant)}/test`,
      { event_type: "task.created" },
    ],
    [
      "redeliver task events",
      "webhooks:write",
      async (tenant) => `/webhooks/${await makeWebhook(tenant)}/redeliver`,
      { from: "2026-01-31T09:30:00Z", event_types: ["task.created"] },
    ],
  ])("replays no response to a key that may not %s itself", async (_, scope, path, body) => {
    const tenant = await makeTenant();
    const narrow = await makeKey(tenant.accountId, { scopes: [scope] });
    const url = await path(tenant);
    expect((await post(tenant.key, url, body, "once")).status).toBeLessThan(300);
    const denied = await post(narrow.key, url, body, "once");
    expect([denied.status, denied.body.code, denied.headers.has("Idempotent-Replayed")]).toEqual([403, "forbidden", false]);
    expect((await post(tenant.key, url, body, "once")).headers.get("Idempotent-Replayed")).toBe("true");
  });

  it("replays no redelivery to a key that may not read its events, even if no delivery matches any more", async () => {
    const tenant = await makeTenant();
    const narrow = await makeKey(tenant.accountId, { scopes: ["webhooks:write"] });
    const id = await makeWebhook(tenant);
    const setStatus = (status: string) => call("PATCH", `/api/v1/webhooks/${id}`, { key: tenant.key, body: { status } });
    await setStatus("disabled");
    await call("POST", "/api/v1/tasks", { key: tenant.key, body: { title: "x" } });
    await setStatus("active");
    const body = { from: new Date(Date.now() - 60_000).toISOString() };
    expect((await post(tenant.key, `/webhooks/${id}/redeliver`, body, "once")).body.count).toBe(1);
    const denied = await post(narrow.key, `/webhooks/${id}/redeliver`, body, "once");
    expect([denied.status, denied.body.code]).toEqual([403, "forbidden"]);
    expect((await post(tenant.key, `/webhooks/${id}/redeliver`, body, "once")).body.count).toBe(1);
  });
});
