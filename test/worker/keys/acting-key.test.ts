import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { createApp } from "../../../src/app.ts";
import { type Answer, answerOf, call, makeKey, makeTenant, type Tenant } from "../support/client.ts";

// A key that is revoked, disabled, expired or narrowed after its request was admitted, and before its change is written. The Worker
// runs on a D1 where that happens just before each batch that writes.

const ctx = createExecutionContext();

/** Calls the Worker, and runs `sql` for the acting key just before the first batch. */
async function callWhile(sql: string, tenant: Tenant, method: string, path: string, body: unknown, headers = {}): Promise<Answer> {
  let isDone = false;
  const meanwhile = new Proxy(env.DB, {
    get: (target, name) => {
      const member = Reflect.get(target, name);
      if (name === "batch")
        return async (statements: D1PreparedStatement[]) => {
          if (!isDone) await target.prepare(sql).bind(tenant.keyId).run();
          isDone = true;
          return target.batch(statements);
        };
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
  const init = {
    method,
    headers: { Authorization: `Bearer ${tenant.key}`, "Content-Type": "application/json", ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  };
  const app = createApp({ isLocal: true });
  return answerOf(await app.fetch(new Request(`http://localhost${path}`, init), { ...env, DB: meanwhile }, ctx));
}

const losses = [
  ["is revoked", "UPDATE api_keys SET state = 'revoked' WHERE id = ?", 401, "revoked_key"],
  ["is disabled", "UPDATE api_keys SET state = 'disabled' WHERE id = ?", 401, "disabled_key"],
  ["expires", "UPDATE api_keys SET expires_at = 1 WHERE id = ?", 401, "expired_key"],
  [
    "loses the scope",
    "UPDATE api_keys SET scopes = (SELECT json_group_array(value) FROM json_each(scopes) WHERE value NOT LIKE '%:write') WHERE id = ?",
    403,
    "insufficient_scope",
  ],
  ["is gone from D1", "DELETE FROM api_keys WHERE id = ?", 401, "revoked_key"],
] as const;

interface Change {
  method: string;
  path: (tenant: Tenant) => Promise<string>;
  body?: unknown;
}

const made = async (path: string, { key }: Tenant, body: unknown) => `${path}/${(await call("POST", path, { key, body })).body.id}`;
const webhookBody = { url: "https://hooks.acme.dev/", event_types: ["task.created"] };

const changes: Record<string, Change> = {
  "making a key": { method: "POST", path: async () => "/api/v1/keys", body: { name: "Further" } },
  "changing a key": {
    method: "PATCH",
    path: async ({ accountId }) => `/api/v1/keys/${(await makeKey(accountId)).keyId}`,
    body: { name: "Changed" },
  },
  "rotating itself": { method: "POST", path: async ({ keyId }) => `/api/v1/keys/${keyId}/rotate`, body: { overlap_seconds: 60 } },
  "revoking a key": { method: "DELETE", path: async ({ accountId }) => `/api/v1/keys/${(await makeKey(accountId)).keyId}` },
  "making a webhook": { method: "POST", path: async () => "/api/v1/webhooks", body: webhookBody },
  "changing a webhook": {
    method: "PATCH",
    path: (tenant) => made("/api/v1/webhooks", tenant, webhookBody),
    body: { description: "Changed" },
  },
  "rotating a webhook's secret": {
    method: "POST",
    path: async (tenant) => `${await made("/api/v1/webhooks", tenant, webhookBody)}/rotate-secret`,
    body: {},
  },
  "making a task": { method: "POST", path: async () => "/api/v1/tasks", body: { title: "Late" } },
  "changing a task": { method: "PATCH", path: (tenant) => made("/api/v1/tasks", tenant, { title: "x" }), body: { title: "Late" } },
  "deleting a user": { method: "DELETE", path: (tenant) => made("/api/v1/users", tenant, { name: "A", email: "a@example.com" }) },
};

const tables = ["users", "tasks", "webhooks", "events", "deliveries", "idempotency_keys"];

/** Everything that the account has, but the acting key itself. */
async function stored({ accountId, keyId }: Tenant): Promise<unknown> {
  const rows = async (sql: string, ...values: string[]) =>
    (
      await env.DB.prepare(sql)
        .bind(...values)
        .all()
    ).results;
  const all = tables.map((table) => rows(`SELECT * FROM ${table} WHERE account_id = ? ORDER BY 1, 2, 3`, accountId));
  return Promise.all([...all, rows("SELECT * FROM api_keys WHERE account_id = ? AND id <> ? ORDER BY id", accountId, keyId)]);
}

describe.each(losses)("A key that %s after its request was admitted", (_, sql, status, code) => {
  it.each(Object.entries(changes))("changes nothing by %s, and is answered as if refused", async (name, { method, path, body }) => {
    const tenant = await makeTenant();
    const at = await path(tenant);
    const before = await stored(tenant);
    const headers = method === "POST" ? { "Idempotency-Key": "once" } : {};
    const answer = await callWhile(sql, tenant, method, at, body, headers);
    expect([answer.status, answer.body.code], name).toEqual([status, code]);
    expect(answer.headers.get("WWW-Authenticate")).toContain(status === 401 ? "invalid_token" : "insufficient_scope");
    expect(await stored(tenant)).toEqual(before);
  });
});

describe("A key that is narrowed after its request was admitted", () => {
  it("makes no key that may do more than itself has become", async () => {
    const tenant = await makeTenant();
    const narrow = "UPDATE api_keys SET revision = 'narrowed', allowed_ips = '[\"203.0.113.9\"]' WHERE id = ?";
    const wide = await callWhile(narrow, tenant, "POST", "/api/v1/keys", { name: "Wide", allowed_ips: [] });
    expect([wide.status, wide.body.code]).toEqual([403, "forbidden"]);
    // What the body leaves open is as wide as the acting key has become.
    const { body } = await callWhile(narrow, tenant, "POST", "/api/v1/keys", { name: "Open" });
    expect(body.allowed_ips).toEqual(["203.0.113.9"]);
  });

  it("gets no events of what it may no longer read", async () => {
    const tenant = await makeTenant();
    const narrow = `UPDATE api_keys SET scopes = '["webhooks:read","webhooks:write"]' WHERE id = ?`;
    const answer = await callWhile(narrow, tenant, "POST", "/api/v1/webhooks", webhookBody);
    expect([answer.status, answer.body.code]).toEqual([403, "forbidden"]);
    expect((await call("GET", "/api/v1/webhooks", { key: tenant.key })).body.data).toEqual([]);
  });

  it("does what it still may", async () => {
    const tenant = await makeTenant();
    const narrow = `UPDATE api_keys SET scopes = '["tasks:write"]' WHERE id = ?`;
    expect((await callWhile(narrow, tenant, "POST", "/api/v1/tasks", { title: "Still" })).status).toBe(201);
  });
});
