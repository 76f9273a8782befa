import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import type { KeyConfig } from "../../../src/guard/decision.ts";
import { requestAdmission } from "../../../src/guard/guards.ts";
import type { KeyGuard } from "../../../src/guard/key-guard.ts";
import { temporarySecretOf, withTemporarySecret } from "../../../src/guard/temporary-secrets.ts";
import { admissionRequestOf } from "../support/admissions.ts";
import { browse } from "../support/browse.ts";
import { call, makeKey, makeTenant } from "../support/client.ts";
import { logDelay } from "../support/entries.ts";
import { reportLeakedKey } from "../support/leaked-keys.ts";
import { insertOwnAuditEntries, makePerson, type Person } from "../support/people.ts";
import { setStorageQuota } from "../support/storage-rows.ts";
import { tryKey } from "../support/try-key.ts";

// A page of the documentation sends requests as a key whose secret the reader does not have at hand.

const json = { Accept: "application/json" };

async function makeTemporary() {
  const tenant = await makeTenant();
  const browser = browse(tenant.accountId);
  const { status, body, headers } = await browser.post(`/keys/${tenant.keyId}/send-as`, {}, json);
  expect([status, body.expires_in > 590 && body.expires_in <= 600, headers.get("Cache-Control")]).toEqual([200, true, "no-store"]);
  return { ...tenant, ...browser, temporary: body.secret_key as string };
}

it("A temporary secret is the key for every decision, count and log entry, also after its guard was killed, and is audited", async () => {
  const { keyId, key, temporary, get } = await makeTemporary();
  const used = async (secretKey: string) => {
    const { status, headers } = await call("GET", "/api/v1/tasks", { key: secretKey });
    return [status, headers.get("X-RateLimit-Used")];
  };
  expect([await used(key), await used(temporary), await used(key), await used(temporary)]).toEqual(
    [1, 2, 3, 4].map((count) => [200, String(count)]),
  );
  await runInDurableObject(env.KEY_GUARD.getByName(keyId), (_: KeyGuard, state) => state.abort("killed by a test")).catch(() => {});
  expect((await used(temporary))[0]).toBe(200);
  const { body } = await vi.waitFor(async () => {
    const found = await call("GET", `/api/v1/activity?key_id=${keyId}`, { key });
    expect(found.body.data.length).toBeGreaterThanOrEqual(5);
    return found;
  }, logDelay);
  expect(new Set(body.data.map(({ key_id: id, secret }: { key_id: string; secret: string }) => `${id} ${secret}`)).size).toBe(1);
  expect((await get("/settings/audit")).text).toContain("key.temporary_secret_made");
});

it.each([
  ["rotation", "rotate", "invalid_key"],
  ["revocation", "revoke", "revoked_key"],
  ["disabling", "disable", "disabled_key"],
])("A temporary secret ends with a %s, and a key that is not active gets none", async (_, action, code) => {
  const { keyId, temporary, post } = await makeTemporary();
  expect(await tryKey(temporary)).toBe(200);
  await post(`/keys/${keyId}/${action}`, { overlap_seconds: "0" });
  expect(await tryKey(temporary)).toBe(code);
  expect((await post(`/keys/${keyId}/send-as`, {}, json)).status).toBe(action === "rotate" ? 200 : 409);
});

it("A temporary secret that was reported as leaked ends, and its key lives on", async () => {
  const { key, temporary } = await makeTemporary();
  expect((await call("POST", "/api/v1/keys/revoke-leaked", { body: { key: temporary } })).status).toBe(202);
  expect([await tryKey(temporary), await tryKey(key)]).toEqual(["invalid_key", 200]);
});

it("A key of another account gets no temporary secret", async () => {
  const [one, other] = [await makeTenant(), await makeTenant()];
  expect((await browse(one.accountId).post(`/keys/${other.keyId}/send-as`, {}, json)).status).toBe(404);
});

it("A temporary secret does not follow its key to scopes that the member may not have", async () => {
  const { accountId } = await makeTenant();
  const developer = await makePerson(accountId, "developer");
  const { keyId } = await makeKey(accountId, { scopes: ["tasks:read"] });
  const temporary = (await developer.post(`/keys/${keyId}/send-as`, {}, json)).body.secret_key;
  expect(await tryKey(temporary)).toBe(200);
  await browse(accountId).post(`/keys/${keyId}`, { scopes_shown: "yes", scopes: ["tasks:read", "audit:read"] });
  expect(await tryKey(temporary)).toBe("invalid_key");
  expect((await developer.post(`/keys/${keyId}/send-as`, {}, json)).status).toBe(403);
});

it.each<[string, (owner: Person, admin: Person) => Promise<unknown>]>([
  ["is removed", (owner, { member }) => owner.post(`/settings/members/${member.id}/remove`)],
  ["gets another role", (owner, { member }) => owner.post(`/settings/members/${member.id}/role`, { role: "viewer" })],
  ["signs out", (_, admin) => admin.post("/logout")],
])("A temporary secret ends when its member %s, and that of another member goes on", async (_, end) => {
  const { accountId, keyId } = await makeTenant();
  const [owner, admin] = [await makePerson(accountId), await makePerson(accountId, "admin")];
  const [own, other] = await Promise.all(
    [admin, owner].map(async (person) => (await person.post(`/keys/${keyId}/send-as`, {}, json)).body.secret_key as string),
  );
  expect([await tryKey(own ?? ""), await tryKey(other ?? "")]).toEqual([200, 200]);
  await end(owner, admin);
  expect([await tryKey(own ?? ""), await tryKey(other ?? "")]).toEqual(["invalid_key", 200]);
});

it("A member hides no temporary secret behind many others, and gets none in a full account", async () => {
  const { accountId, keyId } = await makeTenant();
  const [owner, admin] = [await makePerson(accountId), await makePerson(accountId, "admin")];
  const temporary = (await admin.post(`/keys/${keyId}/send-as`, {}, json)).body.secret_key;
  await insertOwnAuditEntries(admin, "key.temporary_secret_made", 3000);
  await owner.post(`/settings/members/${admin.member.id}/remove`);
  expect(await tryKey(temporary)).toBe("invalid_key");
  await setStorageQuota(accountId, 1000);
  expect((await owner.post(`/keys/${keyId}/send-as`, {}, json)).status).toBe(409);
});

it("The report of a previous secret is stored while its guard is away", async () => {
  const { keyId, key, accountId } = await makeTenant();
  await browse(accountId).post(`/keys/${keyId}/rotate`, { overlap_seconds: "600" });
  const away = { getByName: () => new Proxy({} as never, { get: () => () => Promise.reject(new Error("no route")) }) };
  await expect(reportLeakedKey(key, { KEY_GUARD: away as never })).rejects.toThrow();
  expect(await env.DB.prepare("SELECT previous_secret_hash AS hash FROM api_keys WHERE id = ?").bind(keyId).first("hash")).toBeNull();
});

it("The name of a key breaks no page that offers it", async () => {
  const { accountId } = await makeTenant();
  await makeKey(accountId, { name: "x$`y$&z$'<b>" });
  const { text } = await browse(accountId).get("/docs/api/listTasks");
  expect([text.split("data-console").length, text.split('id="console-key"').length, text.includes("<!--send-as-->")]).toEqual([
    2,
    2,
    false,
  ]);
  expect(text).toContain("x$`y$&amp;z$&#39;&lt;b&gt;</option>");
});

it("A temporary secret ends at its time, also for a process that goes on with what it knew, and a key has at most the latest 20", async () => {
  const config = { secretHash: "own", previousSecretHash: null, overlapEndsAt: null, scopes: ["a"] } as unknown as KeyConfig;
  const of = (secretHash: string, until = 1000) => ({ secretHash, standsFor: "own", scopes: ["a", "b"], memberId: null, until });
  const request = { ...admissionRequestOf("x"), secretHash: "temporary" };
  const temporary = withTemporarySecret([], of("temporary"), 0);
  expect(temporarySecretOf(temporary, config, request, 999)).toMatchObject({ until: 1000 });
  expect(temporarySecretOf(temporary, config, request, 1000)).toBeUndefined();
  expect(temporarySecretOf(temporary, { ...config, secretHash: "rotated" }, request, 999)).toBeUndefined();
  expect(temporarySecretOf(temporary, { ...config, scopes: ["a", "c"] }, request, 999)).toBeUndefined();
  let many = temporary;
  for (let n = 1; n <= 20; n++) many = withTemporarySecret(many, of(`temporary ${n}`), 0);
  expect([many.length, many[0]?.secretHash, withTemporarySecret(many, of("later", 3000), 2000).length]).toEqual([20, "temporary 1", 1]);
  const { keyId, temporary: secretKey } = await makeTemporary();
  const admission = await requestAdmission(env.KEY_GUARD, keyId, { ...admissionRequestOf(secretKey), want: 100 });
  expect([admission?.lease, (admission?.key.expiresAt ?? 0) - Date.now() <= 600_000]).toEqual([undefined, true]);
});

it("A report of a leaked secret writes nothing to a guard without temporary secrets, and ends one whose row is lost", async () => {
  const { keyId, key, temporary } = await makeTemporary();
  await env.DB.prepare("DELETE FROM api_keys WHERE id = ?").bind(keyId).run();
  expect((await call("POST", "/api/v1/keys/revoke-leaked", { body: { key: temporary } })).status).toBe(202);
  expect([await tryKey(temporary), await tryKey(key)]).toEqual(["invalid_key", 200]);
  const other = await makeTenant();
  await browse(other.accountId).post(`/keys/${other.keyId}/rotate`, { overlap_seconds: "0" });
  expect((await call("POST", "/api/v1/keys/revoke-leaked", { body: { key: other.key } })).status).toBe(202);
  const stored = await runInDurableObject(env.KEY_GUARD.getByName(other.keyId), (_: KeyGuard, state) => state.storage.kv.get("temporary"));
  expect(stored).toBeUndefined();
});
