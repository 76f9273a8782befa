import { abortAllDurableObjects, evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { readConfig } from "../../src/keys/read-config.ts";
import { call, cron, db, makeKey, makeTenant, within2s } from "./client.ts";

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

describe("Rotation", () => {
  it("gives a new secret; the old one works until the overlap ends, then only the new", async () => {
    const { key, accountId } = await makeTenant();
    const other = await makeKey(accountId);
    const rotated = await call("POST", `/api/v1/keys/${other.keyId}/rotate`, { key, body: { overlap_seconds: 1 } });
    expect(rotated.status).toBe(200);
    expect(rotated.body.id).toBe(other.keyId);
    expect(rotated.body.secret_key).not.toBe(other.key);
    expect([await codeOf(other.key), await codeOf(rotated.body.secret_key)]).toEqual(["admitted", "admitted"]);
    await new Promise((resolve) => setTimeout(resolve, 1100));
    expect([await codeOf(other.key), await codeOf(rotated.body.secret_key)]).toEqual(["invalid_key", "admitted"]);
    expect((await call("GET", `/api/v1/keys/${other.keyId}`, { key })).body.overlap_ends_at).toBeNull();
  });

  it("ends an earlier overlap", async () => {
    const { key, accountId } = await makeTenant();
    const other = await makeKey(accountId);
    const first = await call("POST", `/api/v1/keys/${other.keyId}/rotate`, { key, body: { overlap_seconds: 600 } });
    const second = await call("POST", `/api/v1/keys/${other.keyId}/rotate`, { key, body: { overlap_seconds: 600 } });
    const codes = [await codeOf(other.key), await codeOf(first.body.secret_key), await codeOf(second.body.secret_key)];
    expect(codes).toEqual(["invalid_key", "admitted", "admitted"]);
  });

  it("without an overlap ends the old secret at once", async () => {
    const { key, accountId } = await makeTenant();
    const other = await makeKey(accountId);
    await call("POST", `/api/v1/keys/${other.keyId}/rotate`, { key, body: { overlap_seconds: 0 } });
    expect(await codeOf(other.key)).toBe("invalid_key");
  });

  it.each([-1, 604_801, 1.5, "60", null])("refuses an overlap of %j", async (overlap_seconds) => {
    const { key, keyId } = await makeTenant();
    const answer = await call("POST", `/api/v1/keys/${keyId}/rotate`, { key, body: { overlap_seconds } });
    expect([answer.status, answer.body.errors[0].pointer]).toEqual([422, "/overlap_seconds"]);
  });
});

describe("A report of a leaked key", () => {
  const report = (body: unknown) => call("POST", "/api/v1/keys/revoke-leaked", { body });

  it("revokes the key whose current secret it is, within a second", async () => {
    const { key } = await makeTenant();
    const answer = await report({ key });
    expect([answer.status, answer.text]).toEqual([202, ""]);
    await new Promise((resolve) => setTimeout(resolve, 1000));
    expect(await codeOf(key)).toBe("revoked_key");
  });

  it("ends a secret in its overlap alone, and does nothing for one that was rotated out", async () => {
    const { key, accountId } = await makeTenant();
    const other = await makeKey(accountId);
    const first = await call("POST", `/api/v1/keys/${other.keyId}/rotate`, { key, body: { overlap_seconds: 600 } });
    await report({ key: other.key });
    expect(
      await within2s(
        () => codeOf(other.key),
        (code) => code === "invalid_key",
      ),
    ).toBe("invalid_key");
    expect(await codeOf(first.body.secret_key)).toBe("admitted");
    const revision = async () => (await call("GET", `/api/v1/keys/${other.keyId}`, { key })).body.updated_at;
    const before = await revision();
    await report({ key: other.key });
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(await codeOf(first.body.secret_key)).toBe("admitted");
    expect(await revision()).toBe(before);
  });

  it("answers alike whatever was sent", async () => {
    const sent = [{ key: "dvo_x" }, { key: 7 }, {}, [], "{", "", { key: "a".repeat(70_000) }];
    const answers = await Promise.all(sent.map(report));
    for (const answer of answers) expect([answer.status, answer.text]).toEqual([202, ""]);
  });
});

describe("What a key may grant", () => {
  const limited = { scopes: ["keys:read", "keys:write", "tasks:read"], hourlyLimit: 100, allowedIps: ["198.51.100.0/24"] };
  const from = { "CF-Connecting-IP": "198.51.100.5" };

  it("is no more than it has, and by default as much", async () => {
    const expiresAt = Date.now() + 3_600_000;
    const { key } = await makeTenant({ ...limited, expiresAt });
    const make = (body: object) => call("POST", "/api/v1/keys", { key, body: { name: "x", scopes: ["tasks:read"], ...body }, ...from });
    expect((await make({})).body).toMatchObject({
      hourly_limit: 100,
      allowed_ips: ["198.51.100.0/24"],
      expires_at: new Date(expiresAt).toISOString(),
    });
    expect(
      (await make({ hourly_limit: 99, allowed_ips: ["198.51.100.7"], expires_at: new Date(expiresAt - 1000).toISOString() })).status,
    ).toBe(201);
    for (const body of [
      { scopes: ["tasks:read", "users:read"] },
      { hourly_limit: 101 },
      { allowed_ips: [] },
      { allowed_ips: ["198.51.0.0/16"] },
      { expires_at: null },
      { expires_at: new Date(expiresAt + 1000).toISOString() },
    ]) {
      const answer = await make(body);
      expect([answer.status, answer.body.code], JSON.stringify(body)).toEqual([403, "forbidden"]);
    }
  });

  it("binds changes, rotations and revocations of keys that have more, before or after", async () => {
    const { key, accountId } = await makeTenant(limited);
    const wide = await makeKey(accountId, { scopes: ["tasks:read", "users:read"], hourlyLimit: 50, allowedIps: ["198.51.100.1"] });
    const same = await makeKey(accountId, { scopes: ["tasks:read"], hourlyLimit: 50, allowedIps: ["198.51.100.1"] });
    const fast = await makeKey(accountId, { scopes: ["tasks:read"], hourlyLimit: 5000, allowedIps: [] });
    const ask = async (method: string, path: string, body?: unknown) =>
      (await call(method, `/api/v1/keys/${path}`, { key, body, ...from })).status;
    expect(await ask("PATCH", wide.keyId, { name: "y" })).toBe(403);
    expect(await ask("DELETE", wide.keyId)).toBe(403);
    expect(await ask("POST", `${wide.keyId}/rotate`, { overlap_seconds: 0 })).toBe(403);
    expect(await ask("PATCH", same.keyId, { scopes: ["tasks:read", "users:read"] })).toBe(403);
    expect(await ask("PATCH", same.keyId, { hourly_limit: 101 })).toBe(403);
    expect(await ask("PATCH", same.keyId, { hourly_limit: 100, name: "z" })).toBe(200);
    expect(await ask("POST", `${same.keyId}/rotate`, { overlap_seconds: 0 })).toBe(200);
    expect(await ask("POST", `${fast.keyId}/rotate`, { overlap_seconds: 0 })).toBe(403);
    expect(await ask("DELETE", fast.keyId)).toBe(204);
  });

  it("is not passed by reviving a key that has more and has expired, nor by enabling one", async () => {
    const { key, accountId } = await makeTenant({ ...limited, scopes: [...limited.scopes, "users:read"] });
    const sleeping = await makeKey(accountId, { scopes: ["users:read"], expiresAt: Date.now() + 100 });
    const disabled = await makeKey(accountId, { scopes: ["users:read"] });
    await env.DB.prepare("UPDATE api_keys SET state = 'disabled' WHERE id = ?").bind(disabled.keyId).run();
    await new Promise((resolve) => setTimeout(resolve, 150));
    const patch = async (id: string, body: object) => (await call("PATCH", `/api/v1/keys/${id}`, { key, body, ...from })).status;
    const later = new Date(Date.now() + 60_000).toISOString();
    expect(await patch(sleeping.keyId, { expires_at: later })).toBe(403);
    expect(await patch(disabled.keyId, { status: "active" })).toBe(403);
    const own = { hourly_limit: 100, allowed_ips: ["198.51.100.7"] };
    expect(await patch(sleeping.keyId, { expires_at: later, ...own })).toBe(200);
    expect(await patch(disabled.keyId, { status: "active", ...own })).toBe(200);
  });

  it("never goes over the account's ceiling", async () => {
    const { key, keyId } = await makeTenant();
    const tooMuch = await call("POST", "/api/v1/keys", { key, body: { name: "x", hourly_limit: 5001 } });
    expect([tooMuch.status, tooMuch.body.errors[0].pointer]).toEqual([422, "/hourly_limit"]);
    const past = { hourly_limit: 5001, expires_at: "2020-01-01T00:00:00Z" };
    for (const answer of [
      await call("PATCH", `/api/v1/keys/${keyId}`, { key, body: past }),
      await call("POST", "/api/v1/keys", { key, body: { name: "x", ...past } }),
    ]) {
      expect([answer.status, answer.body.errors.map(({ pointer }: { pointer: string }) => pointer)]).toEqual([
        422,
        ["/hourly_limit", "/expires_at"],
      ]);
    }
  });

  it("ends at 50 live keys an account, also for many requests at once", async () => {
    const { key, accountId } = await makeTenant();
    for (let made = 1; made < 45; made++) await makeKey(accountId);
    const answers = await Promise.all(Array.from({ length: 12 }, () => call("POST", "/api/v1/keys", { key, body: { name: "x" } })));
    expect(answers.filter(({ status }) => status === 201).length).toBe(5);
    expect(new Set(answers.filter(({ status }) => status !== 201).map(({ body }) => body.code))).toEqual(new Set(["limit_reached"]));
    const [one] = answers.filter(({ status }) => status === 201);
    await call("DELETE", `/api/v1/keys/${one?.body.id}`, { key });
    expect((await call("POST", "/api/v1/keys", { key, body: { name: "x" } })).status).toBe(201);
  });

  it("ends at 50 live keys also for those that had expired and are to live again", async () => {
    const { key, accountId } = await makeTenant();
    const expired = await Promise.all([1, 2, 3].map(() => makeKey(accountId, { expiresAt: Date.now() + 300 })));
    await new Promise((resolve) => setTimeout(resolve, 350));
    for (let made = 1; made < 49; made++) await makeKey(accountId);
    const answers = await Promise.all(
      expired.map(({ keyId }) => call("PATCH", `/api/v1/keys/${keyId}`, { key, body: { expires_at: null } })),
    );
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409, 409]);
    expect(answers.find(({ status }) => status === 409)?.body.code).toBe("limit_reached");
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
    const { newKeyId, newSecretKey } = await import("../../src/keys/key-format.ts");
    const { signing } = await import("./client.ts");
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
