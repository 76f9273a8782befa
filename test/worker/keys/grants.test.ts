import { describe, expect, it } from "vitest";
import { call, makeKey, makeTenant } from "../support/client.ts";
import { setKeyState } from "../support/key-rows.ts";
import { untilClockReaches } from "../support/real-time.ts";

describe("An API key", () => {
  const limitedRights = { scopes: ["keys:read", "keys:write", "tasks:read"], hourlyLimit: 100, allowedIps: ["198.51.100.0/24"] };
  const fromAllowedIp = { "CF-Connecting-IP": "198.51.100.5" };

  it("grants its own rights by default and never more", async () => {
    const expiresAt = Date.now() + 3_600_000;
    const { key } = await makeTenant({ ...limitedRights, expiresAt });
    const create = (body: object) =>
      call("POST", "/api/v1/keys", { key, body: { name: "x", scopes: ["tasks:read"], ...body }, ...fromAllowedIp });
    expect((await create({})).body).toMatchObject({
      hourly_limit: 100,
      allowed_ips: ["198.51.100.0/24"],
      expires_at: new Date(expiresAt).toISOString(),
    });
    expect(
      (await create({ hourly_limit: 99, allowed_ips: ["198.51.100.7"], expires_at: new Date(expiresAt - 1000).toISOString() })).status,
    ).toBe(201);
    for (const body of [
      { scopes: ["tasks:read", "users:read"] },
      { hourly_limit: 101 },
      { allowed_ips: [] },
      { allowed_ips: ["198.51.0.0/16"] },
      { expires_at: null },
      { expires_at: new Date(expiresAt + 1000).toISOString() },
    ]) {
      const response = await create(body);
      expect([response.status, response.body.code], JSON.stringify(body)).toEqual([403, "forbidden"]);
    }
  });

  it("cannot change, rotate or revoke a key that has or gets more rights", async () => {
    const { key, accountId } = await makeTenant(limitedRights);
    const moreScopes = await makeKey(accountId, { scopes: ["tasks:read", "users:read"], hourlyLimit: 50, allowedIps: ["198.51.100.1"] });
    const lessRights = await makeKey(accountId, { scopes: ["tasks:read"], hourlyLimit: 50, allowedIps: ["198.51.100.1"] });
    const higherLimit = await makeKey(accountId, { scopes: ["tasks:read"], hourlyLimit: 5000, allowedIps: [] });
    const statusOf = async (method: string, path: string, body?: unknown) =>
      (await call(method, `/api/v1/keys/${path}`, { key, body, ...fromAllowedIp })).status;
    expect(await statusOf("PATCH", moreScopes.keyId, { name: "y" })).toBe(403);
    expect(await statusOf("DELETE", moreScopes.keyId)).toBe(403);
    expect(await statusOf("POST", `${moreScopes.keyId}/rotate`, { overlap_seconds: 0 })).toBe(403);
    expect(await statusOf("PATCH", lessRights.keyId, { scopes: ["tasks:read", "users:read"] })).toBe(403);
    expect(await statusOf("PATCH", lessRights.keyId, { hourly_limit: 101 })).toBe(403);
    expect(await statusOf("PATCH", lessRights.keyId, { hourly_limit: 100, name: "z" })).toBe(200);
    expect(await statusOf("POST", `${lessRights.keyId}/rotate`, { overlap_seconds: 0 })).toBe(200);
    expect(await statusOf("POST", `${higherLimit.keyId}/rotate`, { overlap_seconds: 0 })).toBe(403);
    expect(await statusOf("DELETE", higherLimit.keyId)).toBe(204);
  });

  it("cannot add scopes to a key whose expiry, addresses or limit exceed its own", async () => {
    const { key, accountId } = await makeTenant({ ...limitedRights, expiresAt: Date.now() + 3_600_000 });
    const withoutExpiry = { scopes: ["tasks:read"], hourlyLimit: 50, allowedIps: ["198.51.100.1"] };
    const expiresAt = Date.now() + 3_000_000;
    const exceedingKeys = [
      await makeKey(accountId, withoutExpiry),
      await makeKey(accountId, { ...withoutExpiry, expiresAt, allowedIps: [] }),
      await makeKey(accountId, { ...withoutExpiry, expiresAt, hourlyLimit: 5000 }),
    ];
    const patch = async (id: string, body: object) => (await call("PATCH", `/api/v1/keys/${id}`, { key, body, ...fromAllowedIp })).status;
    for (const { keyId } of exceedingKeys) {
      expect(await patch(keyId, { scopes: ["tasks:read", "keys:write"] })).toBe(403);
      expect(await patch(keyId, { name: "Renamed" })).toBe(200);
    }
    const limitedKey = await makeKey(accountId, { ...withoutExpiry, expiresAt });
    expect(await patch(limitedKey.keyId, { scopes: ["tasks:read", "keys:write"] })).toBe(200);
  });

  it("cannot reactivate an expired or disabled key with more rights", async () => {
    const { key, accountId } = await makeTenant({ ...limitedRights, scopes: [...limitedRights.scopes, "users:read"] });
    const expiresAt = Date.now() + 100;
    const expired = await makeKey(accountId, { scopes: ["users:read"], expiresAt });
    const disabled = await makeKey(accountId, { scopes: ["users:read"] });
    await setKeyState(disabled.keyId, "disabled");
    await untilClockReaches(expiresAt);
    const patch = async (id: string, body: object) => (await call("PATCH", `/api/v1/keys/${id}`, { key, body, ...fromAllowedIp })).status;
    const later = new Date(Date.now() + 60_000).toISOString();
    expect(await patch(expired.keyId, { expires_at: later })).toBe(403);
    expect(await patch(disabled.keyId, { status: "active" })).toBe(403);
    const ownRights = { hourly_limit: 100, allowed_ips: ["198.51.100.7"] };
    expect(await patch(expired.keyId, { expires_at: later, ...ownRights })).toBe(200);
    expect(await patch(disabled.keyId, { status: "active", ...ownRights })).toBe(200);
  });

  it("cannot have an hourly limit above the account's maximum", async () => {
    const { key, keyId } = await makeTenant();
    const tooHigh = await call("POST", "/api/v1/keys", { key, body: { name: "x", hourly_limit: 5001 } });
    expect([tooHigh.status, tooHigh.body.errors[0].pointer]).toEqual([422, "/hourly_limit"]);
    const invalid = { hourly_limit: 5001, expires_at: "2020-01-01T00:00:00Z" };
    for (const response of [
      await call("PATCH", `/api/v1/keys/${keyId}`, { key, body: invalid }),
      await call("POST", "/api/v1/keys", { key, body: { name: "x", ...invalid } }),
    ]) {
      expect([response.status, response.body.errors.map(({ pointer }: { pointer: string }) => pointer)]).toEqual([
        422,
        ["/hourly_limit", "/expires_at"],
      ]);
    }
  });

  it("cannot create more than 50 live keys per account, even with concurrent requests", async () => {
    const { key, accountId } = await makeTenant();
    for (let count = 1; count < 45; count++) await makeKey(accountId);
    const responses = await Promise.all(Array.from({ length: 12 }, () => call("POST", "/api/v1/keys", { key, body: { name: "x" } })));
    const created = responses.filter(({ status }) => status === 201);
    expect(created.length).toBe(5);
    expect(new Set(responses.filter(({ status }) => status !== 201).map(({ body }) => body.code))).toEqual(new Set(["limit_reached"]));
    await call("DELETE", `/api/v1/keys/${created[0]?.body.id}`, { key });
    expect((await call("POST", "/api/v1/keys", { key, body: { name: "x" } })).status).toBe(201);
  });

  it("cannot reactivate an expired key when the account has 50 live keys", async () => {
    const { key, accountId } = await makeTenant();
    const expiresAt = Date.now() + 300;
    const expired = await Promise.all([1, 2, 3].map(() => makeKey(accountId, { expiresAt })));
    await untilClockReaches(expiresAt);
    for (let count = 1; count < 49; count++) await makeKey(accountId);
    const responses = await Promise.all(
      expired.map(({ keyId }) => call("PATCH", `/api/v1/keys/${keyId}`, { key, body: { expires_at: null } })),
    );
    expect(responses.map(({ status }) => status).toSorted()).toEqual([200, 409, 409]);
    expect(responses.find(({ status }) => status === 409)?.body.code).toBe("limit_reached");
  });
});
