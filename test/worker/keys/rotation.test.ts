import { describe, expect, it } from "vitest";
import { call, makeKey, makeTenant, within2s } from "../support/client.ts";

const me = (key: string, headers: Record<string, string> = {}) => call("GET", "/api/v1/me", { key, ...headers });
const codeOf = async (key: string) => (await me(key)).body?.code ?? "admitted";

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

  it("gets the same response for every body", async () => {
    const sent = [{ key: "dvo_x" }, { key: 7 }, {}, [], "{", "", { key: "a".repeat(70_000) }];
    const answers = await Promise.all(sent.map(report));
    for (const answer of answers) expect([answer.status, answer.text]).toEqual([202, ""]);
  });
});
