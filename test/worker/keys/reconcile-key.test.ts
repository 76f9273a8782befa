import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { call, cron, makeKey, makeTenant } from "../support/client.ts";

// D1 set back in time (Time Travel), as far as a key is concerned: its row as it was before, while its guard goes on.

type Row = Record<string, string | number | null>;

const rowOf = async (keyId: string) => (await env.DB.prepare("SELECT * FROM api_keys WHERE id = ?").bind(keyId).first()) as Row;

/** Puts a row back to what it was, every column of it but the one that is computed. */
async function setBack({ row_bytes, ...row }: Row): Promise<void> {
  await env.DB.prepare("DELETE FROM api_keys WHERE id = ?")
    .bind(row.id ?? "")
    .run();
  const names = Object.keys(row);
  await env.DB.prepare(`INSERT INTO api_keys (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")})`)
    .bind(...Object.values(row))
    .run();
}

const me = async (key: string) => {
  const { status, body } = await call("GET", "/api/v1/me", { key });
  return status === 200 ? 200 : body.code;
};

async function twoKeys() {
  const tenant = await makeTenant();
  const other = await makeKey(tenant.accountId);
  const path = `/api/v1/keys/${other.keyId}`;
  const change = (body: object) => call("PATCH", path, { key: tenant.key, body });
  return { tenant, other, path, change };
}

describe("After D1 was set back behind a key's guard,", () => {
  it("a revocation ends the key, though the guard has a later version", async () => {
    const { tenant, other, path, change } = await twoKeys();
    const before = await rowOf(other.keyId);
    for (const name of ["one", "two", "three"]) await change({ name });
    await setBack(before);
    expect(await me(other.key)).toBe(200);
    expect((await call("DELETE", path, { key: tenant.key })).status).toBe(204);
    expect(await me(other.key)).toBe("revoked_key");
    expect((await rowOf(other.keyId)).state).toBe("revoked");
  });

  it("so it does where both have the same version, by another history", async () => {
    const { tenant, other, path, change } = await twoKeys();
    const before = await rowOf(other.keyId);
    await change({ name: "one" });
    await setBack(before);
    await env.DB.prepare("UPDATE api_keys SET version = version + 1, pushed_version = version + 1, revision = 'other' WHERE id = ?")
      .bind(other.keyId)
      .run();
    expect((await call("DELETE", path, { key: tenant.key })).status).toBe(204);
    expect(await me(other.key)).toBe("revoked_key");
  });

  it("a key that was revoked stays so: a change finds it revoked, and the row takes it over", async () => {
    const { tenant, other, path, change } = await twoKeys();
    const before = await rowOf(other.keyId);
    await call("DELETE", path, { key: tenant.key });
    await setBack(before);
    expect(await me(other.key)).toBe("revoked_key");
    const answer = await change({ name: "Back to life" });
    expect([answer.status, answer.body.code]).toEqual([409, "conflict"]);
    expect((await call("GET", path, { key: tenant.key })).body).toMatchObject({ status: "revoked", name: "Test key" });
    expect(await me(other.key)).toBe("revoked_key");
  });

  it("the newer secret stays in force, the change is made above it, and the older one is not let in again", async () => {
    const { tenant, other, path, change } = await twoKeys();
    const before = await rowOf(other.keyId);
    const rotated = await call("POST", `${path}/rotate`, { key: tenant.key, body: { overlap_seconds: 0 } });
    await setBack(before);
    const changed = await change({ name: "Changed", hourly_limit: 7 });
    expect(changed.body).toMatchObject({ name: "Changed", hourly_limit: 7, last4: rotated.body.secret_key.slice(-4) });
    expect([await me(other.key), await me(rotated.body.secret_key)]).toEqual(["invalid_key", 200]);
    expect((await call("GET", "/api/v1/rate-limit", { key: rotated.body.secret_key })).body.policies[0].limit).toBe(7);
  });

  it("a rotation shows a secret that works, and no other does", async () => {
    const { tenant, other, path } = await twoKeys();
    const before = await rowOf(other.keyId);
    const rotate = async () => (await call("POST", `${path}/rotate`, { key: tenant.key, body: {} })).body.secret_key;
    const lost = await rotate();
    await setBack(before);
    const latest = await rotate();
    expect([await me(other.key), await me(lost), await me(latest)]).toEqual(["invalid_key", "invalid_key", 200]);
  });

  it("a change that the clock pushes finds it too", async () => {
    const { tenant, other, path, change } = await twoKeys();
    const before = await rowOf(other.keyId);
    for (const name of ["one", "two"]) await change({ name });
    await setBack({ ...before, state: "disabled", version: 2, revision: "unpushed" });
    await cron();
    expect(await me(other.key)).toBe("disabled_key");
    expect((await call("GET", path, { key: tenant.key })).body.status).toBe("disabled");
    const { version, pushed_version } = await rowOf(other.keyId);
    expect(pushed_version).toBe(version);
  });

  it("a key that was made after that point can be ended, by its account alone", async () => {
    const { tenant, other, path } = await twoKeys();
    const stranger = await makeTenant();
    expect(await me(other.key)).toBe(200);
    await env.DB.prepare("DELETE FROM api_keys WHERE id = ?").bind(other.keyId).run();
    expect(await me(other.key)).toBe(200);
    expect((await call("DELETE", path, { key: stranger.key })).status).toBe(404);
    expect(await me(other.key)).toBe(200);
    expect((await call("DELETE", path, { key: tenant.key })).status).toBe(204);
    expect(await me(other.key)).toBe("revoked_key");
    expect((await call("DELETE", path, { key: tenant.key })).status).toBe(204);
  });

  it("a key without a row is ended by no key that may do less", async () => {
    const { tenant, other, path } = await twoKeys();
    const lesser = await makeKey(tenant.accountId, { scopes: ["keys:write"] });
    await me(other.key);
    await env.DB.prepare("DELETE FROM api_keys WHERE id = ?").bind(other.keyId).run();
    expect((await call("DELETE", path, { key: lesser.key })).body.code).toBe("forbidden");
    expect(await me(other.key)).toBe(200);
  });

  it("a key whose row comes back after it was ended stays revoked", async () => {
    const { tenant, other, path, change } = await twoKeys();
    const row = await rowOf(other.keyId);
    await me(other.key);
    await env.DB.prepare("DELETE FROM api_keys WHERE id = ?").bind(other.keyId).run();
    await call("DELETE", path, { key: tenant.key });
    await setBack(row);
    await env.DB.prepare("UPDATE api_keys SET version = 90, revision = 'much later' WHERE id = ?").bind(other.keyId).run();
    await cron();
    expect(await me(other.key)).toBe("revoked_key");
    expect((await change({ status: "active" })).status).toBe(409);
    expect((await call("GET", path, { key: tenant.key })).body.status).toBe("revoked");
  });

  it("a key that was disabled stays so, even after other changes of it, until it is enabled", async () => {
    const { other, change } = await twoKeys();
    const before = await rowOf(other.keyId);
    await change({ status: "disabled" });
    await setBack(before);
    expect((await change({ name: "Renamed" })).body).toMatchObject({ name: "Renamed", status: "disabled" });
    expect(await me(other.key)).toBe("disabled_key");
    expect((await change({ status: "active" })).status).toBe(200);
    expect(await me(other.key)).toBe(200);
  });

  it("a key without a row is ended by the report of its secret; that of one in its overlap ends this one alone", async () => {
    const { tenant, other, path } = await twoKeys();
    const rotated = await call("POST", `${path}/rotate`, { key: tenant.key, body: { overlap_seconds: 600 } });
    await env.DB.prepare("DELETE FROM api_keys WHERE id = ?").bind(other.keyId).run();
    const report = async (key: string) => {
      expect((await call("POST", "/api/v1/keys/revoke-leaked", { body: { key } })).status).toBe(202);
      await new Promise((resolve) => setTimeout(resolve, 300));
    };
    expect([await me(other.key), await me(rotated.body.secret_key)]).toEqual([200, 200]);
    await report(other.key);
    expect([await me(other.key), await me(rotated.body.secret_key)]).toEqual(["invalid_key", 200]);
    await report(rotated.body.secret_key);
    expect(await me(rotated.body.secret_key)).toBe("revoked_key");
  });

  it("a key without a row is not ended on the condition of another version", async () => {
    const { tenant, other, path } = await twoKeys();
    await me(other.key);
    await env.DB.prepare("DELETE FROM api_keys WHERE id = ?").bind(other.keyId).run();
    expect((await call("DELETE", path, { key: tenant.key, "If-Match": '"other"' })).status).toBe(412);
    expect(await me(other.key)).toBe(200);
  });
});
