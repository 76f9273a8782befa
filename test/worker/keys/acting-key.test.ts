import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { type Answer, call, callWith, makeKey, makeTenant, type Tenant } from "../support/client.ts";
import { d1BeforeBatches } from "../support/d1.ts";
import { deleteKeyRow, setKeyState, updateKeyRow } from "../support/key-rows.ts";

// The acting key is the key that sends a request. The key can expire, or can be revoked, disabled or given fewer rights. Such a change of
// the key can come after the request was admitted, but before the request writes to D1. In these tests, the acting key changes just before
// the request writes its first batch to D1.

type ChangeKey = (keyId: string) => Promise<void>;

/** Sends a request to the Worker. Calls `changeKey` for the acting key just before the first batch of the request. */
async function callDuringChange(
  changeKey: ChangeKey,
  tenant: Tenant,
  { method, path, body, headers = {} }: { method: string; path: string; body: unknown; headers?: Record<string, string> },
): Promise<Answer> {
  let isChanged = false;
  const DB = d1BeforeBatches(async () => {
    if (!isChanged) await changeKey(tenant.keyId);
    isChanged = true;
  });
  return callWith({ DB }, method, path, tenant.key, body, { headers });
}

const removeWriteScopes: ChangeKey = async (keyId) => {
  await env.DB.prepare(
    "UPDATE api_keys SET scopes = (SELECT json_group_array(value) FROM json_each(scopes) WHERE value NOT LIKE '%:write') WHERE id = ?",
  )
    .bind(keyId)
    .run();
};

const setScopes =
  (...scopes: string[]): ChangeKey =>
  (keyId) =>
    updateKeyRow(keyId, { scopes: JSON.stringify(scopes) });

const losses: [name: string, changeKey: ChangeKey, status: number, code: string][] = [
  ["is revoked", (keyId) => setKeyState(keyId, "revoked"), 401, "revoked_key"],
  ["is disabled", (keyId) => setKeyState(keyId, "disabled"), 401, "disabled_key"],
  ["expires", (keyId) => updateKeyRow(keyId, { expires_at: 1 }), 401, "expired_key"],
  ["loses its write scopes", removeWriteScopes, 403, "insufficient_scope"],
  ["is deleted from D1", deleteKeyRow, 401, "revoked_key"],
];

interface Change {
  method: string;
  path: (tenant: Tenant) => Promise<string>;
  body?: unknown;
}

/** Creates a resource and returns its path. */
const create = async (path: string, { key }: Tenant, body: unknown) => `${path}/${(await call("POST", path, { key, body })).body.id}`;
const webhookBody = { url: "https://hooks.acme.dev/", event_types: ["task.created"] };

const changes: Record<string, Change> = {
  "create a key": { method: "POST", path: async () => "/api/v1/keys", body: { name: "Further" } },
  "change a key": {
    method: "PATCH",
    path: async ({ accountId }) => `/api/v1/keys/${(await makeKey(accountId)).keyId}`,
    body: { name: "Changed" },
  },
  "rotate itself": { method: "POST", path: async ({ keyId }) => `/api/v1/keys/${keyId}/rotate`, body: { overlap_seconds: 60 } },
  "revoke a key": { method: "DELETE", path: async ({ accountId }) => `/api/v1/keys/${(await makeKey(accountId)).keyId}` },
  "create a webhook": { method: "POST", path: async () => "/api/v1/webhooks", body: webhookBody },
  "change a webhook": {
    method: "PATCH",
    path: (tenant) => create("/api/v1/webhooks", tenant, webhookBody),
    body: { description: "Changed" },
  },
  "rotate the secret of a webhook": {
    method: "POST",
    path: async (tenant) => `${await create("/api/v1/webhooks", tenant, webhookBody)}/rotate-secret`,
    body: {},
  },
  "create a task": { method: "POST", path: async () => "/api/v1/tasks", body: { title: "Late" } },
  "change a task": { method: "PATCH", path: (tenant) => create("/api/v1/tasks", tenant, { title: "x" }), body: { title: "Late" } },
  "delete a user": { method: "DELETE", path: (tenant) => create("/api/v1/users", tenant, { name: "A", email: "a@example.com" }) },
};

const tables = ["users", "tasks", "webhooks", "events", "deliveries", "idempotency_keys"];

/** Returns all rows of an account, except the row of the acting key. */
async function readAccountRows({ accountId, keyId }: Tenant): Promise<unknown> {
  const read = async (sql: string, ...values: string[]) =>
    (
      await env.DB.prepare(sql)
        .bind(...values)
        .all()
    ).results;
  const rows = tables.map((table) => read(`SELECT * FROM ${table} WHERE account_id = ? ORDER BY 1, 2, 3`, accountId));
  return Promise.all([...rows, read("SELECT * FROM api_keys WHERE account_id = ? AND id <> ? ORDER BY id", accountId, keyId)]);
}

describe.each(losses)("An API key that %s after its request was admitted", (_, changeKey, status, code) => {
  it.each(Object.entries(changes))("cannot %s and gets the usual error", async (name, { method, path, body }) => {
    const tenant = await makeTenant();
    const changePath = await path(tenant);
    const before = await readAccountRows(tenant);
    const headers: Record<string, string> = method === "POST" ? { "Idempotency-Key": "once" } : {};
    const response = await callDuringChange(changeKey, tenant, { method, path: changePath, body, headers });
    expect([response.status, response.body.code], name).toEqual([status, code]);
    expect(response.headers.get("WWW-Authenticate")).toContain(status === 401 ? "invalid_token" : "insufficient_scope");
    expect(await readAccountRows(tenant)).toEqual(before);
  });
});

describe("An API key that loses rights after its request was admitted", () => {
  it("cannot create a key with more rights than it has left", async () => {
    const tenant = await makeTenant();
    const limitAddresses: ChangeKey = (keyId) => updateKeyRow(keyId, { revision: "narrowed", allowed_ips: '["203.0.113.9"]' });
    const createKey = (body: object) => callDuringChange(limitAddresses, tenant, { method: "POST", path: "/api/v1/keys", body });
    const unlimited = await createKey({ name: "Unlimited", allowed_ips: [] });
    expect([unlimited.status, unlimited.body.code]).toEqual([403, "forbidden"]);
    // By default, a new key gets the current rights of the acting key.
    const { body } = await createKey({ name: "Default" });
    expect(body.allowed_ips).toEqual(["203.0.113.9"]);
  });

  it("cannot create a webhook for events that it may no longer read", async () => {
    const tenant = await makeTenant();
    const keepWebhookScopes = setScopes("webhooks:read", "webhooks:write");
    const response = await callDuringChange(keepWebhookScopes, tenant, { method: "POST", path: "/api/v1/webhooks", body: webhookBody });
    expect([response.status, response.body.code]).toEqual([403, "forbidden"]);
    expect((await call("GET", "/api/v1/webhooks", { key: tenant.key })).body.data).toEqual([]);
  });

  it("can still make the changes that its remaining scopes allow", async () => {
    const tenant = await makeTenant();
    const response = await callDuringChange(setScopes("tasks:write"), tenant, {
      method: "POST",
      path: "/api/v1/tasks",
      body: { title: "Still" },
    });
    expect(response.status).toBe(201);
  });
});
