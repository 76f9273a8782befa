import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { hashOf } from "../../../src/crypto/hash.ts";
import { call, makeKey, makeTenant, type Tenant } from "../support/client.ts";

const post = (key: string, path: string, body: unknown, idempotencyKey: string) =>
  call("POST", `/api/v1${path}`, { key, body, "Idempotency-Key": idempotencyKey });
const countTasks = async (key: string) => (await call("GET", "/api/v1/tasks?limit=100", { key })).body.data.length;

const webhook = { url: "https://hooks.acme.dev/", event_types: ["task.created"] };
const webhookOf = async ({ key }: Tenant) => (await call("POST", "/api/v1/webhooks", { key, body: webhook })).body.id as string;

describe("An Idempotency-Key", () => {
  it("makes a POST happen once and be answered alike again", async () => {
    const { key } = await makeTenant();
    const first = await post(key, "/tasks", { title: "x" }, "one");
    const again = await post(key, "/tasks", { title: "x" }, "one");
    expect([first.status, again.status]).toEqual([201, 201]);
    expect(again.text).toBe(first.text);
    for (const name of ["Location", "ETag", "Content-Type"]) expect(again.headers.get(name)).toBe(first.headers.get(name));
    expect([first.headers.get("Idempotent-Replayed"), again.headers.get("Idempotent-Replayed")]).toEqual([null, "true"]);
    expect(again.headers.get("X-Request-Id")).not.toBe(first.headers.get("X-Request-Id"));
    expect(Number(again.headers.get("X-RateLimit-Used"))).toBe(Number(first.headers.get("X-RateLimit-Used")) + 1);
    expect(await countTasks(key)).toBe(1);
  });

  it("has one effect though it comes many times at once", async () => {
    const { key } = await makeTenant();
    const answers = await Promise.all(Array.from({ length: 12 }, () => post(key, "/tasks", { title: "x" }, "same")));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]));
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    expect(answers.filter(({ headers }) => headers.get("Idempotent-Replayed") === null).length).toBe(1);
    expect(await countTasks(key)).toBe(1);
  });

  it("is refused for another body or query", async () => {
    const { key } = await makeTenant();
    await post(key, "/tasks", { title: "x" }, "one");
    const other = await post(key, "/tasks", { title: "y" }, "one");
    expect([other.status, other.body.code, other.body.errors[0].header]).toEqual([422, "idempotency_key_reused", "Idempotency-Key"]);
    const racing = await Promise.all(["a", "b", "c", "d"].map((title) => post(key, "/tasks", { title }, "two")));
    expect(racing.map(({ status }) => status).toSorted()).toEqual([201, 422, 422, 422]);
    expect(await countTasks(key)).toBe(2);
  });

  it("takes the same JSON in another way of writing as the same request, and nothing else", async () => {
    const { key } = await makeTenant();
    const first = await post(key, "/tasks", '{"title":"é","labels":["a","b"],"description":""}', "one");
    for (const body of [
      ' {\n  "labels": ["a", "b"],\t"description": "", "title": "\\u00e9" }\r\n',
      '\ufeff{"description":"","title":"é","labels":["a","b"]}',
    ]) {
      const again = await post(key, "/tasks", body, "one");
      expect([again.status, again.text, again.headers.get("Idempotent-Replayed")]).toEqual([201, first.text, "true"]);
    }
    for (const body of [
      '{"title":"é","labels":["b","a"],"description":""}',
      '{"title":"é","labels":["a","b"]}',
      '{"title":"e\u0301","labels":["a","b"],"description":""}',
    ])
      expect((await post(key, "/tasks", body, "one")).body.code, body).toBe("idempotency_key_reused");
    expect(await countTasks(key)).toBe(1);
  });

  it("takes a number in another way of writing as the same, and another number as another", async () => {
    const { key, accountId } = await makeTenant();
    const { keyId } = await makeKey(accountId);
    const rotate = (seconds: string) => post(key, `/keys/${keyId}/rotate`, `{"overlap_seconds":${seconds}}`, "one");
    expect((await rotate("100")).headers.get("Idempotent-Replayed")).toBeNull();
    for (const same of ["100.0", "1e2", "10E1"]) expect((await rotate(same)).headers.get("Idempotent-Replayed"), same).toBe("true");
    expect((await rotate("101")).body.code).toBe("idempotency_key_reused");
  });

  it("is still known if the release before stored the first request, by the bytes of its body", async () => {
    const { key, accountId } = await makeTenant();
    const [body, other] = ['{ "title": "x" }', '{"title":"x"}'];
    const first = await post(key, "/tasks", body, "one");
    const fingerprint = hashOf(`\n${body}`);
    await env.DB.prepare("UPDATE idempotency_keys SET fingerprint = ? WHERE account_id = ?").bind(fingerprint, accountId).run();
    expect((await post(key, "/tasks", body, "one")).text).toBe(first.text);
    expect((await post(key, "/tasks", other, "one")).body.code).toBe("idempotency_key_reused");
  });

  it("belongs to the account and the path", async () => {
    const [one, other] = [await makeTenant(), await makeTenant()];
    const second = await makeKey(one.accountId);
    const first = await post(one.key, "/tasks", { title: "x" }, "k");
    expect((await post(second.key, "/tasks", { title: "x" }, "k")).text).toBe(first.text);
    expect((await post(other.key, "/tasks", { title: "x" }, "k")).headers.get("Idempotent-Replayed")).toBeNull();
    expect((await post(one.key, "/users", { name: "A", email: "a@example.com" }, "k")).status).toBe(201);
  });

  it("keeps no refusal", async () => {
    const { key } = await makeTenant();
    expect((await post(key, "/tasks", { title: "x", assignee_id: "usr_1" }, "k")).status).toBe(422);
    await call("POST", "/api/v1/users", { key, body: { name: "A", email: "a@example.com" } });
    expect((await post(key, "/users", { name: "A", email: "a@example.com" }, "k")).status).toBe(409);
    expect((await post(key, "/users", { name: "A", email: "b@example.com" }, "k")).status).toBe(201);
    expect((await post(key, "/tasks", { title: "x" }, "k")).status).toBe(201);
  });

  it("keeps no answer of a change that found, in its own transaction, that it could not be made", async () => {
    const { key, accountId } = await makeTenant();
    const spare = await makeKey(accountId);
    for (let made = 2; made < 50; made++) await makeKey(accountId);
    expect((await post(key, "/keys", { name: "x" }, "k")).body.code).toBe("limit_reached");
    await call("DELETE", `/api/v1/keys/${spare.keyId}`, { key });
    const made = await post(key, "/keys", { name: "x" }, "k");
    expect([made.status, made.headers.get("Idempotent-Replayed")]).toEqual([201, null]);
    expect((await call("GET", "/api/v1/me", { key: made.body.secret_key })).status).toBe(200);
  });

  it("lets each of several rotations at once through, and keeps for each what it answered", async () => {
    const { key, accountId } = await makeTenant();
    const other = await makeKey(accountId);
    const rotate = (n: number) => post(key, `/keys/${other.keyId}/rotate`, { overlap_seconds: 0 }, `r${n}`);
    const first = await Promise.all([1, 2, 3].map(rotate));
    const again = await Promise.all([1, 2, 3].map(rotate));
    expect(first.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(again.map(({ body }) => body)).toEqual(first.map(({ body }) => ({ ...body, secret_key: null })));
    const works = await Promise.all(first.map(({ body }) => call("GET", "/api/v1/me", { key: body.secret_key })));
    expect(works.map(({ status }) => status).toSorted()).toEqual([200, 401, 401]);
  });

  it("shows a secret once: a replay has null in its place, and rotates nothing", async () => {
    const { key, accountId } = await makeTenant();
    const made = await post(key, "/keys", { name: "x" }, "k");
    const again = await post(key, "/keys", { name: "x" }, "k");
    expect(again.body).toEqual({ ...made.body, secret_key: null });
    const other = await makeKey(accountId);
    const rotated = await post(key, `/keys/${other.keyId}/rotate`, { overlap_seconds: 0 }, "r");
    const replayed = await post(key, `/keys/${other.keyId}/rotate`, { overlap_seconds: 0 }, "r");
    expect(replayed.body).toEqual({ ...rotated.body, secret_key: null });
    expect((await call("GET", "/api/v1/me", { key: rotated.body.secret_key })).status).toBe(200);
    const stored = await env.DB.prepare("SELECT body FROM idempotency_keys").all<{ body: string }>();
    for (const { body } of stored.results) expect(body).not.toMatch(/dvo_[0-9A-Za-z]{16}_/);
  });

  it("is forgotten after 24 hours", async () => {
    const { key, accountId } = await makeTenant();
    await post(key, "/tasks", { title: "x" }, "k");
    await env.DB.prepare("UPDATE idempotency_keys SET created_at = created_at - 86400000 WHERE account_id = ?").bind(accountId).run();
    expect((await post(key, "/tasks", { title: "y" }, "k")).status).toBe(201);
    expect((await post(key, "/tasks", { title: "y" }, "k")).headers.get("Idempotent-Replayed")).toBe("true");
    expect(await countTasks(key)).toBe(2);
  });

  it.each(["", "x".repeat(256), "naïve"])("is refused as %j", async (value) => {
    const { key } = await makeTenant();
    const answer = await post(key, "/tasks", { title: "x" }, value);
    expect([answer.status, answer.body.code, answer.body.errors[0].header]).toEqual([400, "invalid_header", "Idempotency-Key"]);
  });

  it.each<[string, string, (tenant: Tenant) => Promise<string>, unknown]>([
    ["make such a key", "keys:write", async () => "/keys", { name: "Wide", scopes: ["users:read", "users:write"] }],
    ["rotate such a key", "keys:write", async ({ accountId }) => `/keys/${(await makeKey(accountId)).keyId}/rotate`, {}],
    ["make such a webhook", "webhooks:write", async () => "/webhooks", webhook],
    ["rotate such a secret", "webhooks:write", async (tenant) => `/webhooks/${await webhookOf(tenant)}/rotate-secret`, {}],
    ["send such a test", "webhooks:write", async (tenant) => `/webhooks/${await webhookOf(tenant)}/test`, { event_type: "task.created" }],
    [
      "redeliver such events",
      "webhooks:write",
      async (tenant) => `/webhooks/${await webhookOf(tenant)}/redeliver`,
      { from: "2026-01-31T09:30:00Z", event_types: ["task.created"] },
    ],
  ])("shows nothing to a key that may not %s itself", async (_, scope, path, body) => {
    const tenant = await makeTenant();
    const lesser = await makeKey(tenant.accountId, { scopes: [scope] });
    const at = await path(tenant);
    expect((await post(tenant.key, at, body, "once")).status).toBeLessThan(300);
    const replayed = await post(lesser.key, at, body, "once");
    expect([replayed.status, replayed.body.code, replayed.headers.has("Idempotent-Replayed")]).toEqual([403, "forbidden", false]);
    expect((await post(tenant.key, at, body, "once")).headers.get("Idempotent-Replayed")).toBe("true");
  });

  it("shows nothing of a redelivery to a key that may not read what it has sent, though nothing matches any more", async () => {
    const tenant = await makeTenant();
    const lesser = await makeKey(tenant.accountId, { scopes: ["webhooks:write"] });
    const id = await webhookOf(tenant);
    const patch = (status: string) => call("PATCH", `/api/v1/webhooks/${id}`, { key: tenant.key, body: { status } });
    await patch("disabled");
    await call("POST", "/api/v1/tasks", { key: tenant.key, body: { title: "x" } });
    await patch("active");
    const body = { from: new Date(Date.now() - 60_000).toISOString() };
    expect((await post(tenant.key, `/webhooks/${id}/redeliver`, body, "once")).body.count).toBe(1);
    const replayed = await post(lesser.key, `/webhooks/${id}/redeliver`, body, "once");
    expect([replayed.status, replayed.body.code]).toEqual([403, "forbidden"]);
    expect((await post(tenant.key, `/webhooks/${id}/redeliver`, body, "once")).body.count).toBe(1);
  });
});
