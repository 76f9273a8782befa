import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { call, makeKey, makeTenant } from "../support/client.ts";

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

  it("is not passed by widening a key whose expiry, addresses or limit go beyond its own", async () => {
    const { key, accountId } = await makeTenant({ ...limited, expiresAt: Date.now() + 3_600_000 });
    const endless = { scopes: ["tasks:read"], hourlyLimit: 50, allowedIps: ["198.51.100.1"] };
    const end = Date.now() + 3_000_000;
    const ids = [
      await makeKey(accountId, endless),
      await makeKey(accountId, { ...endless, expiresAt: end, allowedIps: [] }),
      await makeKey(accountId, { ...endless, expiresAt: end, hourlyLimit: 5000 }),
    ];
    const patch = async (id: string, body: object) => (await call("PATCH", `/api/v1/keys/${id}`, { key, body, ...from })).status;
    for (const { keyId } of ids) {
      expect(await patch(keyId, { scopes: ["tasks:read", "keys:write"] })).toBe(403);
      expect(await patch(keyId, { name: "Renamed" })).toBe(200);
    }
    const within = await makeKey(accountId, { ...endless, expiresAt: end });
    expect(await patch(within.keyId, { scopes: ["tasks:read", "keys:write"] })).toBe(200);
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
