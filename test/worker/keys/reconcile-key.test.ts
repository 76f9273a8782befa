import { describe, expect, it } from "vitest";
import { call, cron, makeKey, makeTenant } from "../support/client.ts";
import { deleteKeyRow, readKeyRow, restoreKeyRow, storeRevision, updateKeyRow } from "../support/key-rows.ts";
import { reportLeakedKey } from "../support/leaked-keys.ts";
import { tryKey } from "../support/try-key.ts";

// Time Travel restores D1 to an earlier state. After the restore, the row of a key is outdated or missing, but the key's guard is
// unchanged.

/** Creates an account with an acting key and a second key. `change` uses the acting key to change the second key. */
async function makeTwoKeys() {
  const tenant = await makeTenant();
  const other = await makeKey(tenant.accountId);
  const path = `/api/v1/keys/${other.keyId}`;
  const change = (body: object) => call("PATCH", path, { key: tenant.key, body });
  return { tenant, other, path, change };
}

describe("An API key whose row in D1 was restored to an earlier state", () => {
  it("can be revoked although its guard has a later version", async () => {
    const { tenant, other, path, change } = await makeTwoKeys();
    const before = await readKeyRow(other.keyId);
    for (const name of ["one", "two", "three"]) await change({ name });
    await restoreKeyRow(before);
    expect(await tryKey(other.key)).toBe(200);
    expect((await call("DELETE", path, { key: tenant.key })).status).toBe(204);
    expect(await tryKey(other.key)).toBe("revoked_key");
    expect((await readKeyRow(other.keyId)).state).toBe("revoked");
  });

  it("can be revoked although its guard has another revision with the same version", async () => {
    const { tenant, other, path, change } = await makeTwoKeys();
    const before = await readKeyRow(other.keyId);
    await change({ name: "one" });
    await restoreKeyRow(before);
    await storeRevision(other.keyId, "other");
    expect((await call("DELETE", path, { key: tenant.key })).status).toBe(204);
    expect(await tryKey(other.key)).toBe("revoked_key");
  });

  it("stays revoked, and a change returns 409 and marks the row as revoked", async () => {
    const { tenant, other, path, change } = await makeTwoKeys();
    const before = await readKeyRow(other.keyId);
    await call("DELETE", path, { key: tenant.key });
    await restoreKeyRow(before);
    expect(await tryKey(other.key)).toBe("revoked_key");
    const response = await change({ name: "Back to life" });
    expect([response.status, response.body.code]).toEqual([409, "conflict"]);
    expect((await call("GET", path, { key: tenant.key })).body).toMatchObject({ status: "revoked", name: "Test key" });
    expect(await tryKey(other.key)).toBe("revoked_key");
  });

  it("keeps its newer secret after a change, and its older secret stays invalid", async () => {
    const { tenant, other, path, change } = await makeTwoKeys();
    const before = await readKeyRow(other.keyId);
    const rotated = await call("POST", `${path}/rotate`, { key: tenant.key, body: { overlap_seconds: 0 } });
    await restoreKeyRow(before);
    const changed = await change({ name: "Changed", hourly_limit: 7 });
    expect(changed.body).toMatchObject({ name: "Changed", hourly_limit: 7, last4: rotated.body.secret_key.slice(-4) });
    expect([await tryKey(other.key), await tryKey(rotated.body.secret_key)]).toEqual(["invalid_key", 200]);
    expect((await call("GET", "/api/v1/rate-limit", { key: rotated.body.secret_key })).body.policies[0].limit).toBe(7);
  });

  it("accepts only the secret from its rotation after the restore", async () => {
    const { tenant, other, path } = await makeTwoKeys();
    const before = await readKeyRow(other.keyId);
    const rotate = async () => (await call("POST", `${path}/rotate`, { key: tenant.key, body: {} })).body.secret_key;
    const lostSecret = await rotate();
    await restoreKeyRow(before);
    const latestSecret = await rotate();
    const outcomes = [await tryKey(other.key), await tryKey(lostSecret), await tryKey(latestSecret)];
    expect(outcomes).toEqual(["invalid_key", "invalid_key", 200]);
  });

  it("gets an unpushed change from the cron job although its guard has a later version", async () => {
    const { tenant, other, path, change } = await makeTwoKeys();
    const before = await readKeyRow(other.keyId);
    for (const name of ["one", "two"]) await change({ name });
    await restoreKeyRow({ ...before, state: "disabled", version: 2, revision: "unpushed" });
    await cron();
    expect(await tryKey(other.key)).toBe("disabled_key");
    expect((await call("GET", path, { key: tenant.key })).body.status).toBe("disabled");
    const { version, pushed_version } = await readKeyRow(other.keyId);
    expect(pushed_version).toBe(version);
  });

  it("stays disabled after other changes, until it is enabled", async () => {
    const { other, change } = await makeTwoKeys();
    const before = await readKeyRow(other.keyId);
    await change({ status: "disabled" });
    await restoreKeyRow(before);
    expect((await change({ name: "Renamed" })).body).toMatchObject({ name: "Renamed", status: "disabled" });
    expect(await tryKey(other.key)).toBe("disabled_key");
    expect((await change({ status: "active" })).status).toBe(200);
    expect(await tryKey(other.key)).toBe(200);
  });
});

describe("An API key whose row is missing in D1", () => {
  it("can be revoked by its own account only", async () => {
    const { tenant, other, path } = await makeTwoKeys();
    const stranger = await makeTenant();
    expect(await tryKey(other.key)).toBe(200);
    await deleteKeyRow(other.keyId);
    expect(await tryKey(other.key)).toBe(200);
    expect((await call("DELETE", path, { key: stranger.key })).status).toBe(404);
    expect(await tryKey(other.key)).toBe(200);
    expect((await call("DELETE", path, { key: tenant.key })).status).toBe(204);
    expect(await tryKey(other.key)).toBe("revoked_key");
    expect((await call("DELETE", path, { key: tenant.key })).status).toBe(204);
  });

  it("cannot be revoked by a key with fewer scopes", async () => {
    const { tenant, other, path } = await makeTwoKeys();
    const fewerScopes = await makeKey(tenant.accountId, { scopes: ["keys:write"] });
    await tryKey(other.key);
    await deleteKeyRow(other.keyId);
    expect((await call("DELETE", path, { key: fewerScopes.key })).body.code).toBe("forbidden");
    expect(await tryKey(other.key)).toBe(200);
  });

  it("stays revoked after a revocation, even if its row is restored with a later version", async () => {
    const { tenant, other, path, change } = await makeTwoKeys();
    const row = await readKeyRow(other.keyId);
    await tryKey(other.key);
    await deleteKeyRow(other.keyId);
    await call("DELETE", path, { key: tenant.key });
    await restoreKeyRow(row);
    await updateKeyRow(other.keyId, { version: 90, revision: "much later" });
    await cron();
    expect(await tryKey(other.key)).toBe("revoked_key");
    expect((await change({ status: "active" })).status).toBe(409);
    expect((await call("GET", path, { key: tenant.key })).body.status).toBe("revoked");
  });

  it("is revoked by a report of its current secret, but a report of its previous secret ends only that secret", async () => {
    const { tenant, other, path } = await makeTwoKeys();
    const rotated = await call("POST", `${path}/rotate`, { key: tenant.key, body: { overlap_seconds: 600 } });
    await deleteKeyRow(other.keyId);
    expect([await tryKey(other.key), await tryKey(rotated.body.secret_key)]).toEqual([200, 200]);
    await reportLeakedKey(other.key);
    expect([await tryKey(other.key), await tryKey(rotated.body.secret_key)]).toEqual(["invalid_key", 200]);
    await reportLeakedKey(rotated.body.secret_key);
    expect(await tryKey(rotated.body.secret_key)).toBe("revoked_key");
  });

  it("is not revoked by a request whose If-Match names another version", async () => {
    const { tenant, other, path } = await makeTwoKeys();
    await tryKey(other.key);
    await deleteKeyRow(other.keyId);
    expect((await call("DELETE", path, { key: tenant.key, "If-Match": '"other"' })).status).toBe(412);
    expect(await tryKey(other.key)).toBe(200);
  });
});
