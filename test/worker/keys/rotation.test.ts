import { describe, expect, it, vi } from "vitest";
import { call, makeKey, makeTenant } from "../support/client.ts";
import { reportLeakedKey } from "../support/leaked-keys.ts";
import { untilClockReaches } from "../support/real-time.ts";
import { tryKey } from "../support/try-key.ts";

describe("The rotation of an API key", () => {
  it("returns a new secret, and the old secret works until the overlap ends", async () => {
    const { key, accountId } = await makeTenant();
    const other = await makeKey(accountId);
    const rotated = await call("POST", `/api/v1/keys/${other.keyId}/rotate`, { key, body: { overlap_seconds: 1 } });
    expect(rotated.status).toBe(200);
    expect(rotated.body.id).toBe(other.keyId);
    expect(rotated.body.secret_key).not.toBe(other.key);
    expect([await tryKey(other.key), await tryKey(rotated.body.secret_key)]).toEqual([200, 200]);
    await untilClockReaches(Date.parse(rotated.body.overlap_ends_at));
    expect([await tryKey(other.key), await tryKey(rotated.body.secret_key)]).toEqual(["invalid_key", 200]);
    expect((await call("GET", `/api/v1/keys/${other.keyId}`, { key })).body.overlap_ends_at).toBeNull();
  });

  it("ends the overlap of an earlier rotation", async () => {
    const { key, accountId } = await makeTenant();
    const other = await makeKey(accountId);
    const first = await call("POST", `/api/v1/keys/${other.keyId}/rotate`, { key, body: { overlap_seconds: 600 } });
    const second = await call("POST", `/api/v1/keys/${other.keyId}/rotate`, { key, body: { overlap_seconds: 600 } });
    const outcomes = [await tryKey(other.key), await tryKey(first.body.secret_key), await tryKey(second.body.secret_key)];
    expect(outcomes).toEqual(["invalid_key", 200, 200]);
  });

  it.each([-1, 604_801, 1.5, "60", null])("rejects an overlap of %j seconds", async (overlap_seconds) => {
    const { key, keyId } = await makeTenant();
    const response = await call("POST", `/api/v1/keys/${keyId}/rotate`, { key, body: { overlap_seconds } });
    expect([response.status, response.body.errors[0].pointer]).toEqual([422, "/overlap_seconds"]);
  });
});

describe("The report of a leaked key", () => {
  const report = (body: unknown) => call("POST", "/api/v1/keys/revoke-leaked", { body });

  it("revokes the key within a second if the secret is the current one", async () => {
    const { key } = await makeTenant();
    const response = await report({ key });
    expect([response.status, response.text]).toEqual([202, ""]);
    await vi.waitFor(async () => expect(await tryKey(key)).toBe("revoked_key"), { timeout: 1000, interval: 40 });
  });

  it("does nothing if the secret is no longer valid", async () => {
    const { key, accountId } = await makeTenant();
    const other = await makeKey(accountId);
    const path = `/api/v1/keys/${other.keyId}`;
    const rotate = async () => (await call("POST", `${path}/rotate`, { key, body: { overlap_seconds: 600 } })).body.secret_key;
    const rotatedOut = other.key;
    const ended = await rotate();
    const current = await rotate();
    await reportLeakedKey(ended);
    expect([await tryKey(ended), await tryKey(current)]).toEqual(["invalid_key", 200]);
    const readUpdateTime = async () => (await call("GET", path, { key })).body.updated_at;
    const before = await readUpdateTime();
    for (const invalid of [rotatedOut, ended]) await reportLeakedKey(invalid);
    expect(await tryKey(current)).toBe(200);
    expect(await readUpdateTime()).toBe(before);
  });

  it("returns the same response for every body", async () => {
    const bodies = [{ key: "dvo_x" }, { key: 7 }, {}, [], "{", "", { key: "a".repeat(70_000) }];
    const responses = await Promise.all(bodies.map(report));
    for (const response of responses) expect([response.status, response.text]).toEqual([202, ""]);
  });
});
