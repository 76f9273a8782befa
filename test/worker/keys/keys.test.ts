import { abortAllDurableObjects, evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { readConfig } from "../../../src/admission/read-config.ts";
import { call, cron, db, makeKey, makeTenant, within2s } from "../support/client.ts";

const me = (key: string, headers: Record<string, string> = {}) => call("GET", "/api/v1/me", { key, ...headers });
const codeOf = async (key: string) => (await me(key)).body?.code ?? "admitted";

describe("A key", () => {
  it("is made with a secret that is shown once, and works from then on", async () => {
    const { key } = await makeTenant();
    const made = await call("POST", "/api/v1/keys", { key, body: { name: "CI" } });
    expect(made.status).toBe(201);
    expect(made.headers.get("Location")).toBe(`/api/v1/keys/${made.body.id}`);
    expect(made.body.secret_key).toMatch(/^dvo_[0-9A-Za-z]{16}_[0-9A-Za-z]{40}$/);
    expect(made.body).toMatchObject({
      name: "CI",
      status: "active",
      hourly_limit: 5000,
      allowed_ips: [],
      expires_at: null,
      last_used_at: null,
      prefix: made.body.secret_key.slice(0, 20),
      last4: made.body.secret_key.slice(-4),
      scopes: ["users:read", "tasks:read", "tasks:write", "analytics:read"],
    });
    const read = await call("GET", `/api/v1/keys/${made.body.id}`, { key });
    expect(read.text).not.toContain(made.body.secret_key);
    expect(read.body.secret_key).toBeUndefined();
    expect((await me(made.body.secret_key)).body.key).toEqual({ id: made.body.id, name: "CI", scopes: made.body.scopes, expires_at: null });
  });

  it("is refused from the moment that its revocation was answered, even by a guard that has to start anew", async () => {
    const { key, accountId } = await makeTenant();
    const other = await makeKey(accountId);
    expect(await codeOf(other.key)).toBe("admitted");
    expect((await call("DELETE", `/api/v1/keys/${other.keyId}`, { key })).status).toBe(204);
    expect(await codeOf(other.key)).toBe("revoked_key");
    await abortAllDurableObjects();
    expect(await codeOf(other.key)).toBe("revoked_key");
    expect((await call("DELETE", `/api/v1/keys/${other.keyId}`, { key })).status).toBe(204);
    expect((await call("GET", `/api/v1/keys/${other.keyId}`, { key })).body.status).toBe("revoked");
    expect((await call("PATCH", `/api/v1/keys/${other.keyId}`, { key, body: { name: "x" } })).body.code).toBe("conflict");
    expect((await call("POST", `/api/v1/keys/${other.keyId}/rotate`, { key, body: {} })).body.code).toBe("conflict");
  });

  it("can revoke itself", async () => {
    const { key, keyId } = await makeTenant();
    expect((await call("DELETE", `/api/v1/keys/${keyId}`, { key })).status).toBe(204);
    expect(await codeOf(key)).toBe("revoked_key");
  });

  it("is disabled and enabled again", async () => {
    const { key, accountId } = await makeTenant();
    const other = await makeKey(accountId);
    expect((await call("PATCH", `/api/v1/keys/${other.keyId}`, { key, body: { status: "disabled" } })).body.status).toBe("disabled");
    expect(await codeOf(other.key)).toBe("disabled_key");
    await call("PATCH", `/api/v1/keys/${other.keyId}`, { key, body: { status: "active" } });
    expect(
      await within2s(
        () => codeOf(other.key),
        (code) => code === "admitted",
      ),
    ).toBe("admitted");
  });

  it("expires by the guard's clock, and says so", async () => {
    const { key, accountId } = await makeTenant();
    const other = await makeKey(accountId, { expiresAt: Date.now() + 700 });
    expect(await codeOf(other.key)).toBe("admitted");
    await new Promise((resolve) => setTimeout(resolve, 800));
    expect(await codeOf(other.key)).toBe("expired_key");
    expect((await call("GET", "/api/v1/keys?status=expired", { key })).body.data.map((each: { id: string }) => each.id)).toEqual([
      other.keyId,
    ]);
    const both = (await call("GET", "/api/v1/keys?status=expired&status=active", { key })).body.data;
    expect(both.map(({ status }: { status: string }) => status).toSorted()).toEqual(["active", "expired"]);
    expect((await call("GET", "/api/v1/keys?status=disabled&status=revoked", { key })).body.data).toEqual([]);
    const later = new Date(Date.now() + 60_000).toISOString();
    expect((await call("PATCH", `/api/v1/keys/${other.keyId}`, { key, body: { expires_at: later } })).body).toMatchObject({
      status: "active",
      expires_at: later,
    });
    expect(
      await within2s(
        () => codeOf(other.key),
        (code) => code === "admitted",
      ),
    ).toBe("admitted");
  });

  it("loses a scope at once", async () => {
    const { key, accountId } = await makeTenant();
    const other = await makeKey(accountId);
    await call("PATCH", `/api/v1/keys/${other.keyId}`, { key, body: { scopes: ["tasks:read"] } });
    const refused = await call("GET", "/api/v1/users", { key: other.key });
    expect([refused.status, refused.body.code]).toEqual([403, "insufficient_scope"]);
    expect(refused.headers.get("WWW-Authenticate")).toContain('scope="users:read"');
    expect((await call("GET", "/api/v1/tasks", { key: other.key })).status).toBe(200);
  });

  it("shows itself as it has been changed, at once, and after its guard has started anew", async () => {
    const { key, keyId } = await makeTenant();
    const shown = async () => (await me(key)).body.key;
    expect((await shown()).name).toBe("Test key");
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
    const change = { name: "Renamed", scopes: ["keys:write"], expires_at: expiresAt };
    expect((await call("PATCH", `/api/v1/keys/${keyId}`, { key, body: change })).status).toBe(200);
    expect(await shown()).toEqual({ id: keyId, ...change });
    await evictDurableObject(env.KEY_GUARD.getByName(keyId));
    expect(await shown()).toEqual({ id: keyId, ...change });
  });

  it("works only from the addresses on its list", async () => {
    const { key, accountId } = await makeTenant();
    const other = await makeKey(accountId);
    await call("PATCH", `/api/v1/keys/${other.keyId}`, { key, body: { allowed_ips: ["198.51.100.0/24", "2001:db8::/32"] } });
    const from = async (ip: string) => (await me(other.key, { "CF-Connecting-IP": ip })).status;
    expect(await from("198.51.100.9")).toBe(200);
    expect(await from("2001:db8::7")).toBe(200);
    expect(await from("203.0.113.9")).toBe(403);
    expect((await me(other.key)).body.code).toBe("ip_not_allowed");
    expect((await call("PATCH", `/api/v1/keys/${other.keyId}`, { key, body: { allowed_ips: null } })).body.allowed_ips).toEqual([]);
  });

  it.each([
    ["10.0.0.0/33"],
    ["010.0.0.1"],
    ["1.2.3"],
    ["fe80::1%eth0"],
    ["example.com"],
    [""],
    ["::1/129"],
    ["::1.2.3.4"],
    ["::ffff:1.2.3.4/8"],
  ])("may not list %j as an address", async (entry) => {
    const { key } = await makeTenant();
    const answer = await call("POST", "/api/v1/keys", { key, body: { name: "x", allowed_ips: ["198.51.100.1", entry] } });
    expect([answer.status, answer.body.errors?.[0]?.pointer]).toEqual([422, "/allowed_ips/1"]);
  });

  it("is listed with a hundred others, the newest first, by pages and by status", async () => {
    const { key, keyId, accountId } = await makeTenant();
    const ids = [keyId];
    for (let made = 1; made < 130; made++) {
      if (made % 40 === 0)
        await env.DB.prepare("UPDATE api_keys SET state = 'revoked' WHERE account_id = ? AND id <> ?").bind(accountId, keyId).run();
      ids.unshift((await makeKey(accountId)).keyId);
    }
    const first = await call("GET", "/api/v1/keys?limit=100", { key });
    const second = await call("GET", `/api/v1/keys?limit=100&cursor=${first.body.next_cursor}`, { key });
    const seen = [...first.body.data, ...second.body.data].map((each: { id: string }) => each.id);
    expect([first.body.data.length, second.body.data.length, second.body.has_more]).toEqual([100, 30, false]);
    expect(new Set(seen)).toEqual(new Set(ids));
    expect((await call("GET", "/api/v1/keys?status=revoked&limit=1", { key })).body.data[0].status).toBe("revoked");
  });

  it("shows when and where it was last used", async () => {
    const { key, accountId } = await makeTenant();
    const other = await makeKey(accountId);
    await call("GET", "/api/v1/tasks", { key: other.key });
    await call("GET", "/api/v1/users?limit=1", { key: other.key });
    const read = () => call("GET", `/api/v1/keys/${other.keyId}`, { key });
    const seen = await within2s(read, ({ body }) => body.last_used_path === "/api/v1/users");
    expect(seen.body.last_used_path).toBe("/api/v1/users");
    expect(Date.now() - Date.parse(seen.body.last_used_at)).toBeLessThan(5000);
  });
});

describe("A guard", () => {
  it("ignores a configuration that is older than its own", async () => {
    const { keyId, key } = await makeTenant();
    const config = await readConfig(db, keyId);
    const guard = env.KEY_GUARD.getByName(keyId);
    if (!config) throw new Error("a key that was made has no configuration");
    await guard.configure({ ...config, version: 9, state: "disabled" });
    await guard.configure({ ...config, version: 8, state: "active" });
    expect(await codeOf(key)).toBe("disabled_key");
    await evictDurableObject(guard);
    expect(await codeOf(key)).toBe("disabled_key");
  });

  it("reads D1 only where it has no configuration of its own", async () => {
    const { keyId, key } = await makeTenant();
    expect(await codeOf(key)).toBe("admitted");
    await env.DB.prepare("UPDATE api_keys SET state = 'disabled' WHERE id = ?").bind(keyId).run();
    await evictDurableObject(env.KEY_GUARD.getByName(keyId));
    expect(await codeOf(key)).toBe("admitted");
  });

  it("is not woken by a forged key, and knows no key that D1 has not", async () => {
    const { newKeyId, newSecretKey } = await import("../../../src/credentials/key-format.ts");
    const { signing } = await import("../support/client.ts");
    const id = newKeyId();
    const answer = await me(newSecretKey(id, signing[0]));
    expect([answer.status, answer.body.code]).toEqual([401, "invalid_key"]);
    expect(answer.headers.has("RateLimit")).toBe(false);
    expect(await runInDurableObject(env.KEY_GUARD.getByName(id), (_, state) => state.storage.kv.get("config"))).toBeUndefined();
  });

  it("takes a change that was stored but not pushed from the cron job", async () => {
    const { keyId, key } = await makeTenant();
    expect(await codeOf(key)).toBe("admitted");
    await env.DB.prepare("UPDATE api_keys SET state = 'revoked', version = version + 1 WHERE id = ?").bind(keyId).run();
    await cron();
    expect(await codeOf(key)).toBe("revoked_key");
    const row = await env.DB.prepare("SELECT version, pushed_version FROM api_keys WHERE id = ?").bind(keyId).first();
    expect(row).toEqual({ version: 2, pushed_version: 2 });
  });
});
