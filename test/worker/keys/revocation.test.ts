import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { type Answer, call, callWith, makeKey, makeTenant } from "../support/client.ts";
import { d1BeforeBatches } from "../support/d1.ts";
import { readKeyRow, restoreKeyRow, updateKeyRow } from "../support/key-rows.ts";
import { reportLeakedKey } from "../support/leaked-keys.ts";
import { tryKey } from "../support/try-key.ts";

// A revocation is one statement. These tests change the key, or the key that revokes it, just before the statement runs.

/** Revokes a key. Calls `work` just before each batch that the request writes. */
const revokeDuring = (keyId: string, actingKey: string, work: () => Promise<unknown>): Promise<Answer> =>
  callWith({ DB: d1BeforeBatches(work) }, "DELETE", `/api/v1/keys/${keyId}`, actingKey);

const readEvents = async (accountId: string, keyId: string) =>
  (
    await env.DB.prepare("SELECT type, data FROM events WHERE account_id = ? AND data ->> 'id' = ? ORDER BY sequence")
      .bind(accountId, keyId)
      .all<{ type: string; data: string }>()
  ).results.map(({ type, data }) => ({ type, data: JSON.parse(data) }));

describe("The revocation of a key", () => {
  it("writes one event and one audit entry, and nothing if the key is already revoked", async () => {
    const { accountId, key } = await makeTenant();
    const { keyId } = await makeKey(accountId, { name: "Leaving" });
    expect((await call("DELETE", `/api/v1/keys/${keyId}`, { key })).status).toBe(204);
    const { updated_at } = (await call("GET", `/api/v1/keys/${keyId}`, { key })).body;
    const revoked = { type: "key.revoked", data: expect.objectContaining({ status: "revoked", name: "Leaving", updated_at }) };
    for (let again = 0; again < 2; again++) {
      const row = await readKeyRow(keyId);
      expect((await readEvents(accountId, keyId)).at(-1)).toEqual(revoked);
      const { data } = (await call("GET", `/api/v1/audit?action=key.revoked&target=${keyId}`, { key })).body;
      expect([data.length, data[0].changes]).toEqual([1, ["status", "overlap_ends_at"]]);
      expect((await call("DELETE", `/api/v1/keys/${keyId}`, { key })).status).toBe(204);
      expect(await readKeyRow(keyId)).toEqual(row);
    }
  });

  it("shows in its event a change that was made just before it", async () => {
    const { accountId, key } = await makeTenant();
    const { keyId, key: other } = await makeKey(accountId);
    let isChanged = false;
    const rename = async () => {
      if (!isChanged) await updateKeyRow(keyId, { name: "Renamed", revision: "renamed" });
      isChanged = true;
    };
    expect((await revokeDuring(keyId, key, rename)).status).toBe(204);
    const events = (await readEvents(accountId, keyId)).filter(({ type }) => type === "key.revoked");
    expect(events).toEqual([{ type: "key.revoked", data: expect.objectContaining({ name: "Renamed", status: "revoked" }) }]);
    expect(await tryKey(other)).toBe("revoked_key");
  });

  it("cannot be prevented by changing the key again and again", async () => {
    const { accountId, key } = await makeTenant();
    const { keyId, key: other } = await makeKey(accountId);
    let changes = 0;
    const rename = () => updateKeyRow(keyId, { name: `Name ${++changes}`, revision: `revision${changes}` });
    expect((await revokeDuring(keyId, key, rename)).status).toBe(204);
    expect(changes).toBeGreaterThan(5);
    expect((await readEvents(accountId, keyId)).filter(({ type }) => type === "key.revoked")).toHaveLength(1);
    expect(await tryKey(other)).toBe("revoked_key");
  });

  it("writes nothing if the version of If-Match changes, or if somebody else revokes the key first", async () => {
    const { accountId, key } = await makeTenant();
    const [changed, revoked] = [await makeKey(accountId), await makeKey(accountId)];
    const { headers } = await call("GET", `/api/v1/keys/${changed.keyId}`, { key });
    await updateKeyRow(changed.keyId, { revision: "changed" });
    const denied = await call("DELETE", `/api/v1/keys/${changed.keyId}`, { key, "If-Match": headers.get("ETag") ?? "" });
    expect([denied.status, denied.body.code, await tryKey(changed.key)]).toEqual([412, "precondition_failed", 200]);
    let changes = 0;
    const revoke = async () => {
      // From the eleventh attempt on, changes of the key no longer stop its revocation.
      if (++changes === 11) await call("DELETE", `/api/v1/keys/${revoked.keyId}`, { key });
      else if (changes < 11) await updateKeyRow(revoked.keyId, { revision: `revision${changes}` });
    };
    expect((await revokeDuring(revoked.keyId, key, revoke)).status).toBe(204);
    expect((await readEvents(accountId, revoked.keyId)).filter(({ type }) => type === "key.revoked")).toHaveLength(1);
  });

  it("writes nothing if the acting key loses a scope of the key to revoke", async () => {
    const { accountId } = await makeTenant();
    const acting = await makeKey(accountId, { scopes: ["keys:write", "tasks:read"] });
    const other = await makeKey(accountId, { scopes: ["tasks:read"] });
    const narrow = () => updateKeyRow(acting.keyId, { scopes: '["keys:write"]', revision: "narrowed" });
    const denied = await revokeDuring(other.keyId, acting.key, narrow);
    expect([denied.status, denied.body.code, await tryKey(other.key)]).toEqual([403, "forbidden", 200]);
  });

  it("follows a report of a leaked secret that only the guard has, because D1 was restored", async () => {
    const { accountId, key } = await makeTenant();
    const { keyId } = await makeKey(accountId);
    const before = await readKeyRow(keyId);
    const rotated = (await call("POST", `/api/v1/keys/${keyId}/rotate`, { key, body: { overlap_seconds: 0 } })).body.secret_key;
    await restoreKeyRow(before);
    await reportLeakedKey(rotated);
    expect([await tryKey(rotated), (await readKeyRow(keyId)).state]).toEqual(["revoked_key", "revoked"]);
  });
});
