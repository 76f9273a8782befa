import { abortAllDurableObjects, evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { newKeyId, newSecretKey } from "../../../src/credentials/key-format.ts";
import { readConfig } from "../../../src/guard/read-config.ts";
import { call, db, makeKey, makeTenant, signing } from "../support/client.ts";
import { logDelay } from "../support/entries.ts";
import { setKeyState } from "../support/key-rows.ts";
import { untilClockReaches } from "../support/real-time.ts";

/** The options of `vi.waitFor` for a change that gives a key more rights. Such a change takes effect within two seconds. */
const looseningDelay = { timeout: 2000, interval: 40 };

const getMe = (key: string, headers: Record<string, string> = {}) => call("GET", "/api/v1/me", { key, ...headers });

/** Sends a request. Returns "admitted", or the error code if the request is denied. */
const outcomeOf = async (key: string): Promise<string> => (await getMe(key)).body?.code ?? "admitted";

describe("An API key", () => {
  it("is created with a secret that is shown once and works at once", async () => {
    const { key } = await makeTenant();
    const created = await call("POST", "/api/v1/keys", { key, body: { name: "CI" } });
    expect(created.status).toBe(201);
    expect(created.headers.get("Location")).toBe(`/api/v1/keys/${created.body.id}`);
    expect(created.body.secret_key).toMatch(/^dvo_[0-9A-Za-z]{16}_[0-9A-Za-z]{40}$/);
    expect(created.body).toMatchObject({
      name: "CI",
      status: "active",
      hourly_limit: 5000,
      allowed_ips: [],
      expires_at: null,
      last_used_at: null,
      prefix: created.body.secret_key.slice(0, 20),
      last4: created.body.secret_key.slice(-4),
      scopes: ["users:read", "tasks:read", "tasks:write", "analytics:read"],
    });
    const read = await call("GET", `/api/v1/keys/${created.body.id}`, { key });
    expect(read.text).not.toContain(created.body.secret_key);
    expect(read.body.secret_key).toBeUndefined();
    expect((await getMe(created.body.secret_key)).body.key).toEqual({
      id: created.body.id,
      name: "CI",
      scopes: created.body.scopes,
      expires_at: null,
    });
  });

  it("is denied as soon as its revocation has returned, even after a restart of its guard", async () => {
    const { key, accountId } = await makeTenant();
    const other = await makeKey(accountId);
    const path = `/api/v1/keys/${other.keyId}`;
    expect(await outcomeOf(other.key)).toBe("admitted");
    expect((await call("DELETE", path, { key })).status).toBe(204);
    expect(await outcomeOf(other.key)).toBe("revoked_key");
    await abortAllDurableObjects();
    expect(await outcomeOf(other.key)).toBe("revoked_key");
    expect((await call("DELETE", path, { key })).status).toBe(204);
    expect((await call("GET", path, { key })).body.status).toBe("revoked");
    expect((await call("PATCH", path, { key, body: { name: "x" } })).body.code).toBe("conflict");
    expect((await call("POST", `${path}/rotate`, { key, body: {} })).body.code).toBe("conflict");
  });

  it("can revoke itself", async () => {
    const { key, keyId } = await makeTenant();
    expect((await call("DELETE", `/api/v1/keys/${keyId}`, { key })).status).toBe(204);
    expect(await outcomeOf(key)).toBe("revoked_key");
  });

  it("is denied after its expiry, is listed as expired, and can get a later expiry", async () => {
    const { key, accountId } = await makeTenant();
    const expiresAt = Date.now() + 700;
    const other = await makeKey(accountId, { expiresAt });
    expect(await outcomeOf(other.key)).toBe("admitted");
    await untilClockReaches(expiresAt);
    expect(await outcomeOf(other.key)).toBe("expired_key");
    expect((await call("GET", "/api/v1/keys?status=expired", { key })).body.data.map((each: { id: string }) => each.id)).toEqual([
      other.keyId,
    ]);
    const expiredAndActive = (await call("GET", "/api/v1/keys?status=expired&status=active", { key })).body.data;
    expect(expiredAndActive.map(({ status }: { status: string }) => status).toSorted()).toEqual(["active", "expired"]);
    expect((await call("GET", "/api/v1/keys?status=disabled&status=revoked", { key })).body.data).toEqual([]);
    const later = new Date(Date.now() + 60_000).toISOString();
    expect((await call("PATCH", `/api/v1/keys/${other.keyId}`, { key, body: { expires_at: later } })).body).toMatchObject({
      status: "active",
      expires_at: later,
    });
    await vi.waitFor(async () => expect(await outcomeOf(other.key)).toBe("admitted"), looseningDelay);
  });

  it("works only from its allowed IP addresses", async () => {
    const { key, accountId } = await makeTenant();
    const other = await makeKey(accountId);
    await call("PATCH", `/api/v1/keys/${other.keyId}`, { key, body: { allowed_ips: ["198.51.100.0/24", "2001:db8::/32"] } });
    const statusFrom = async (ip: string) => (await getMe(other.key, { "CF-Connecting-IP": ip })).status;
    expect(await statusFrom("198.51.100.9")).toBe(200);
    expect(await statusFrom("2001:db8::7")).toBe(200);
    expect(await statusFrom("203.0.113.9")).toBe(403);
    expect((await getMe(other.key)).body.code).toBe("ip_not_allowed");
    const tooMany = Array.from({ length: 101 }, (_, n) => `203.0.${n}.1`);
    expect((await call("PATCH", `/api/v1/keys/${other.keyId}`, { key, body: { allowed_ips: tooMany } })).status).toBe(422);
    expect((await call("PATCH", `/api/v1/keys/${other.keyId}`, { key, body: { allowed_ips: null } })).body.allowed_ips).toEqual([]);
  });

  it.each(["10.0.0.0/33", "010.0.0.1", "1.2.3", "fe80::1%eth0", "example.com", "", "::1/129", "::1.2.3.4", "::ffff:1.2.3.4/8"])(
    "cannot have %j as an allowed IP address",
    async (address) => {
      const { key } = await makeTenant();
      const response = await call("POST", "/api/v1/keys", { key, body: { name: "x", allowed_ips: ["198.51.100.1", address] } });
      expect([response.status, response.body.errors?.[0]?.pointer]).toEqual([422, "/allowed_ips/1"]);
    },
  );

  it("shows the time and path of its last use", async () => {
    const { key, accountId } = await makeTenant();
    const other = await makeKey(accountId);
    await call("GET", "/api/v1/tasks", { key: other.key });
    await call("GET", "/api/v1/users?limit=1", { key: other.key });
    const { last_used_at } = await vi.waitFor(async () => {
      const { body } = await call("GET", `/api/v1/keys/${other.keyId}`, { key });
      expect(body.last_used_path).toBe("/api/v1/users");
      return body;
    }, logDelay);
    expect(Date.now() - Date.parse(last_used_at)).toBeLessThan(5000);
  });
});

describe("A key guard", () => {
  it("ignores a configuration that is older than its own", async () => {
    const { keyId, key } = await makeTenant();
    const config = await readConfig(db, keyId);
    const guard = env.KEY_GUARD.getByName(keyId);
    if (!config) throw new Error("the new key has no configuration");
    await guard.configure({ ...config, version: 9, state: "disabled" });
    await guard.configure({ ...config, version: 8, state: "active" });
    expect(await outcomeOf(key)).toBe("disabled_key");
    await evictDurableObject(guard);
    expect(await outcomeOf(key)).toBe("disabled_key");
  });

  it("reads D1 only if it has no configuration", async () => {
    const { keyId, key } = await makeTenant();
    expect(await outcomeOf(key)).toBe("admitted");
    await setKeyState(keyId, "disabled");
    await evictDurableObject(env.KEY_GUARD.getByName(keyId));
    expect(await outcomeOf(key)).toBe("admitted");
  });

  it("stores nothing about a key that D1 does not have, even if the secret is validly signed", async () => {
    const id = newKeyId();
    const response = await getMe(newSecretKey(id, signing[0]));
    expect([response.status, response.body.code]).toEqual([401, "invalid_key"]);
    expect(response.headers.has("RateLimit")).toBe(false);
    expect(await runInDurableObject(env.KEY_GUARD.getByName(id), (_, state) => state.storage.kv.get("config"))).toBeUndefined();
  });
});
