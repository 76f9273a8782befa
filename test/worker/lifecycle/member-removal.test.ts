import { env } from "cloudflare:workers";
import { type SQL, sql } from "drizzle-orm";
import { describe, expect, it } from "vitest";
import { operatorOn } from "../../../src/accounts/actor.ts";
import { knownTo } from "../../../src/identity/audit/known-to.ts";
import { hourMs } from "../../../src/lib/time/clock.ts";
import { listWebhooksOfMember } from "../../../src/webhooks/subscriptions/list-webhooks-of-member.ts";
import { call, db, makeKey, makeTenant } from "../support/client.ts";
import { countRowsRead, d1With, type RecordedStatement, recordStatements } from "../support/d1.ts";
import { updateKeyRow } from "../support/key-rows.ts";
import { backdateSessions, insertMembers, readRemovalTime, setMemberEmail } from "../support/member-rows.ts";
import { makePerson } from "../support/people.ts";
import {
  createKeyAs,
  isAccepted,
  keyIdOf,
  keyIdsIn,
  makeAdminWithKey,
  makeTeam,
  removalFormIn,
  removalPathOf,
  removeMember,
  waitUntilExpired,
} from "../support/removals.ts";

// These tests check the page that removes a member. The tests also check the keys and webhooks that the removal ends. `leaver` is the
// member who is removed.

/** Adds revoked copies of a key. The creator of each copy is the member `memberId`. */
const insertRevokedKeys = (keyId: string, memberId: string, count: number) =>
  db.run(sql`INSERT INTO api_keys (id, account_id, name, last4, secret_hash, scopes, state, hourly_limit, allowed_ips,
      version, pushed_version, revision, created_by_type, created_by_id, created_at, updated_at)
    WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ${count})
    SELECT printf('key_%s%07d', ${memberId.slice(-9)}, n), account_id, name, last4, secret_hash, scopes, 'revoked',
      hourly_limit, allowed_ips, 1, 1, revision, 'member', ${memberId}, created_at, updated_at
    FROM counted, api_keys WHERE api_keys.id = ${keyId}`);

/** Adds one audit log entry for each key of an account. Each entry names the member `memberId` as the creator of the key. */
const insertKeyCreationEntries = (accountId: string, memberId: string) =>
  db.run(sql`INSERT INTO audit (account_id, id, actor_type, actor_id, action, target_type, target_id, target_name, changes)
    SELECT account_id, 'aud_' || id, 'member', ${memberId}, 'key.created', 'key', id, name, '[]'
    FROM api_keys WHERE account_id = ${accountId}`);

/** Returns a query for the keys whose secret a member may know. */
const selectKnownKeys = (accountId: string, memberId: string): SQL => sql`${knownTo(accountId, memberId)} SELECT id FROM known`;

/** Returns the data of the latest `key.updated` event of a key. */
async function readLatestUpdate(accountId: string, keyId: string): Promise<unknown> {
  const data = await env.DB.prepare(
    "SELECT data FROM events WHERE account_id = ? AND type = 'key.updated' AND data ->> 'id' = ? ORDER BY sequence DESC",
  )
    .bind(accountId, keyId)
    .first<string>("data");
  return JSON.parse(data ?? "{}");
}

describe("The removal of a member", () => {
  it("lists the live keys that the member created or rotated, and revokes the selected keys", async () => {
    const { key, owner, leaver, firstKey, secondKey, rotatedKey } = await makeTeam();
    const page = await owner.get(removalPathOf(leaver));
    expect(keyIdsIn(page)).toEqual([firstKey, secondKey, rotatedKey].map(keyIdOf).toSorted());
    expect([page.text.includes("Created by the leaver"), page.text.includes("Created and revoked"), / checked/.test(page.text)]).toEqual([
      true,
      false,
      false,
    ]);
    expect(await isAccepted(firstKey)).toBe(true);
    const removed = await removeMember(owner, leaver, [firstKey, rotatedKey].map(keyIdOf));
    expect(removed.headers.get("Location")).toBe("/settings?done=removed-with-keys");
    expect((await owner.get("/settings?done=removed-with-keys")).text).toContain("The keys that you chose, and those made since");
    expect([await isAccepted(firstKey), await isAccepted(rotatedKey), await isAccepted(secondKey), await isAccepted(key)]).toEqual([
      false,
      false,
      true,
      true,
    ]);
    const { data } = (await call("GET", "/api/v1/audit?action=key.revoked", { key })).body;
    expect(data.map(({ actor }: { actor: { id: string } }) => actor.id)).toEqual([owner.member.id, owner.member.id, leaver.member.id]);
  });

  it("does not revoke keys that the member did not know, even if the form names them", async () => {
    const { owner, leaver, firstKey } = await makeTeam();
    const foreign = await makeTenant();
    const ownerKey = await createKeyAs(owner, "Of the owner");
    expect((await removeMember(owner, leaver, [keyIdOf(ownerKey), foreign.keyId, "key_1"])).status).toBe(303);
    expect([await isAccepted(ownerKey), await isAccepted(foreign.key), await isAccepted(firstKey)]).toEqual([true, true, true]);
  });

  it("is denied for the last owner and for members who select their own keys, and then revokes nothing", async () => {
    const { key, accountId, owner } = await makeTeam();
    const secondOwner = await makePerson(accountId);
    const ownerKey = await createKeyAs(owner, "Of the owner");
    // If members remove themselves, they cannot revoke keys afterwards.
    expect((await owner.get(removalPathOf(owner))).text).toContain("before you leave");
    expect(keyIdsIn(await owner.get(removalPathOf(owner)))).toEqual([]);
    const denied = await removeMember(owner, owner, [keyIdOf(ownerKey)]);
    expect([denied.status, await isAccepted(ownerKey), (await owner.get("/")).status]).toEqual([422, true, 200]);
    await secondOwner.post(removalPathOf(secondOwner));
    const lastOwner = await removeMember(owner, owner);
    expect([lastOwner.status, lastOwner.text.includes("last owner"), await isAccepted(key)]).toEqual([422, true, true]);
  });

  it("shows the member and the member's open invitations, and requires a recent sign-in", async () => {
    const { accountId } = await makeTenant();
    const [owner, admin, viewer] = [
      await makePerson(accountId),
      await makePerson(accountId, "admin"),
      await makePerson(accountId, "viewer"),
    ];
    await admin.post("/settings/invitations", { email: "open@example.com", role: "viewer" });
    await owner.post("/settings/invitations", { email: "stays@example.com", role: "viewer" });
    const { text } = await owner.get(removalPathOf(admin));
    expect([text.includes(admin.member.email), text.includes("open@example.com"), text.includes("stays@example.com")]).toEqual([
      true,
      true,
      false,
    ]);
    expect([(await viewer.get(removalPathOf(admin))).status, (await admin.get(removalPathOf(owner))).status]).toEqual([403, 403]);
    expect((await admin.get(removalPathOf(viewer))).status).toBe(200);
    expect((await owner.get("/settings/members/mem_1/remove")).status).toBe(404);
    await backdateSessions(owner.member.id, "verified_at", hourMs);
    const stepUp = await owner.post(removalPathOf(admin), { revoke: ["key_1", "key_2"] });
    // The page that asks for a confirmation still contains the selected keys.
    expect([stepUp.status, stepUp.text.match(/name="revoke" value="key_\d"/g)?.length]).toEqual([403, 2]);
    expect(await readRemovalTime(admin.member.id)).toBeNull();
  });

  it("finds the keys and webhooks that the member may know without a scan of all keys of the account", async () => {
    const { accountId, keyId } = await makeTenant();
    const { member } = await makePerson(accountId, "developer");
    const keyCount = 400;
    await insertRevokedKeys(keyId, member.id, keyCount);
    await insertMembers(accountId, 4000, `mem_${member.id.slice(-9)}`, 1);
    const { results, meta } = await db.run(selectKnownKeys(accountId, member.id));
    expect(results).toHaveLength(1 + keyCount);
    expect(meta.rows_read).toBeLessThan(10 * keyCount);
    await insertKeyCreationEntries(accountId, member.id);
    const { recordingDb, statements } = recordStatements();
    await listWebhooksOfMember({ db: recordingDb, actor: operatorOn(accountId), now: Date.now() }, member.id);
    expect(await countRowsRead(statements[0] as RecordedStatement)).toBeLessThan(10 * keyCount);
  });

  it("lists keys from an earlier membership of a person who was removed and invited to the same address again", async () => {
    const { accountId } = await makeTenant();
    const [owner, before] = [await makePerson(accountId), await makePerson(accountId, "admin")];
    const oldKey = await createKeyAs(before, "From before", ["keys:read", "keys:write"]);
    // The owner sees the key on the page, but does not select the key.
    expect((await removeMember(owner, before)).status).toBe(303);
    const again = await makePerson(accountId, "admin");
    await setMemberEmail(again.member.id, before.member.email);
    const other = await makePerson(accountId, "admin");
    expect((await owner.get(removalPathOf(other))).text).not.toContain("From before");
    const page = await owner.get(removalPathOf(again));
    expect(page.text).toContain("From before");
    expect(await isAccepted(oldKey)).toBe(true);
    expect((await owner.post(removalPathOf(again), { ...removalFormIn(page), revoke: keyIdsIn(page).join() })).status).toBe(303);
    expect(await isAccepted(oldKey)).toBe(false);
  });

  it("lists the keys that the member's keys created or rotated, and the webhooks that these keys created", async () => {
    const { accountId } = await makeTenant();
    const [owner, leaver] = [await makePerson(accountId), await makePerson(accountId, "admin")];
    const scopes = ["keys:read", "keys:write", "webhooks:read", "webhooks:write", "tasks:read"];
    const first = await createKeyAs(leaver, "First", scopes);
    const second = (await call("POST", "/api/v1/keys", { key: first, body: { name: "Second", scopes } })).body;
    const third = (await call("POST", "/api/v1/keys", { key: second.secret_key, body: { name: "Third", scopes: ["tasks:read"] } })).body;
    const rotated = await makeKey(accountId, { name: "Rotated by the second", scopes: ["tasks:read"] });
    await call("POST", `/api/v1/keys/${rotated.keyId}/rotate`, { key: second.secret_key, body: { overlap_seconds: 0 } });
    const url = "https://hooks.acme.dev/leaver";
    const webhook = await call("POST", "/api/v1/webhooks", { key: second.secret_key, body: { url, event_types: ["task.created"] } });
    const page = await owner.get(removalPathOf(leaver));
    expect(keyIdsIn(page)).toEqual([keyIdOf(first), second.id, third.id, rotated.keyId].toSorted());
    expect([webhook.status, page.text.includes(`/webhooks/${webhook.body.id}`)]).toEqual([201, true]);
  });

  it("shows its page again if the form did not list the keys that the member knows", async () => {
    const { owner, leaver, firstKey, secondKey } = await makeTeam();
    const denied = await owner.post(removalPathOf(leaver), { revoke: [keyIdOf(firstKey)] });
    expect([denied.status, denied.text.includes("Check the list, then try again"), keyIdsIn(denied).includes(keyIdOf(secondKey))]).toEqual([
      409,
      true,
      true,
    ]);
    expect([await isAccepted(firstKey), (await leaver.get("/keys")).status]).toEqual([true, 200]);
  });

  it("revokes the keys that the member created after the page was opened", async () => {
    const { owner, leaver, firstKey, secondKey, rotatedKey } = await makeTeam();
    const form = removalFormIn(await owner.get(removalPathOf(leaver)));
    const lateKey = await createKeyAs(leaver, "Created late");
    const removed = await owner.post(removalPathOf(leaver), form);
    expect(removed.headers.get("Location")).toBe("/settings?done=removed-with-keys");
    expect([await isAccepted(lateKey), await isAccepted(firstKey), await isAccepted(secondKey), await isAccepted(rotatedKey)]).toEqual([
      false,
      true,
      true,
      true,
    ]);
  });

  it("disables the keys that changed after the page was opened, so that no key has more access than the page showed", async () => {
    const { owner, leaver, key, secondKey, firstKey } = await makeTeam();
    await leaver.post(`/keys/${keyIdOf(firstKey)}/disable`);
    const form = removalFormIn(await owner.get(removalPathOf(leaver)));
    await leaver.post(`/keys/${keyIdOf(firstKey)}/enable`);
    await call("PATCH", `/api/v1/keys/${keyIdOf(secondKey)}`, { key, body: { scopes: ["tasks:read", "users:read"] } });
    expect([await isAccepted(secondKey), await isAccepted(firstKey)]).toEqual([true, true]);
    const removed = await owner.post(removalPathOf(leaver), form);
    expect(removed.headers.get("Location")).toBe("/settings?done=removed-with-changed");
    expect([await isAccepted(secondKey), await isAccepted(firstKey)]).toEqual([false, false]);
    for (const keyId of [secondKey, firstKey].map(keyIdOf)) {
      expect((await call("GET", `/api/v1/keys/${keyId}`, { key })).body.status).toBe("disabled");
      const [entry] = (await call("GET", `/api/v1/audit?action=key.disabled&target=${keyId}`, { key })).body.data;
      expect(entry).toMatchObject({ actor: { id: owner.member.id }, changes: ["status"] });
      expect(await readLatestUpdate(owner.member.accountId, keyId)).toMatchObject({ status: "disabled" });
    }
    await owner.post(`/keys/${keyIdOf(secondKey)}/enable`);
    expect(await isAccepted(secondKey)).toBe(true);
  });

  it("lists webhooks whose secret the member may know, and disables those that the member changed after the page was opened", async () => {
    const { owner, leaver, key } = await makeAdminWithKey();
    const createWebhook = async (path: string) =>
      (await call("POST", "/api/v1/webhooks", { key, body: { url: `https://hooks.acme.dev/${path}`, event_types: ["task.created"] } }))
        .body;
    const [unrelated, rotated, changed] = [
      await createWebhook("unrelated"),
      await createWebhook("rotated"),
      await createWebhook("changed"),
    ];
    await leaver.post(`/webhooks/${rotated.id}/rotate-secret`, { overlap_seconds: "0" });
    await leaver.post(`/webhooks/${changed.id}`, { url: "https://hooks.acme.dev/changed-once", event_types: "task.created" });
    const page = await owner.get(removalPathOf(leaver));
    expect([unrelated, rotated, changed].map(({ id }) => page.text.includes(`/webhooks/${id}`))).toEqual([false, true, true]);
    const form = removalFormIn(page);
    await leaver.post("/webhooks", { url: "https://hooks.acme.dev/late", event_types: "task.created" });
    await leaver.post(`/webhooks/${changed.id}`, { url: "https://hooks.acme.dev/changed-twice", event_types: "task.created" });
    const removed = await owner.post(removalPathOf(leaver), form);
    expect(removed.headers.get("Location")).toBe("/settings?done=removed-with-changed");
    const { data } = (await call("GET", "/api/v1/webhooks", { key })).body;
    const statuses = Object.fromEntries(data.map(({ url, status }: { url: string; status: string }) => [url.split("/").at(-1), status]));
    expect(statuses).toEqual({ unrelated: "active", rotated: "active", "changed-twice": "disabled", late: "disabled" });
  });

  it("lets owners revoke remaining keys later, from a page that was already open and from the audit log", async () => {
    const { owner, leaver, firstKey, secondKey, rotatedKey } = await makeTeam();
    const otherOwner = await makePerson(owner.member.accountId);
    const form = removalFormIn(await owner.get(removalPathOf(leaver)));
    expect((await removeMember(otherOwner, leaver)).status).toBe(303);
    expect([await isAccepted(firstKey), await isAccepted(secondKey)]).toEqual([true, true]);
    const ended = await owner.post(removalPathOf(leaver), { ...form, revoke: keyIdOf(firstKey) });
    expect(ended.headers.get("Location")).toBe("/settings?done=ended-behind");
    expect([await isAccepted(firstKey), await isAccepted(secondKey)]).toEqual([false, true]);
    const audit = await owner.get("/settings/audit");
    expect(audit.text).toContain(`href="${removalPathOf(leaver)}"`);
    const page = await owner.get(removalPathOf(leaver));
    expect([page.text.includes("is no longer a member"), keyIdsIn(page).includes(keyIdOf(secondKey))]).toEqual([true, true]);
    await owner.post(removalPathOf(leaver), { ...removalFormIn(page), revoke: [secondKey, rotatedKey].map(keyIdOf) });
    expect([await isAccepted(secondKey), await isAccepted(rotatedKey)]).toEqual([false, false]);
    const after = await owner.get(removalPathOf(leaver));
    expect([after.text.includes("No key that they know works any more."), after.text.includes("Revoke the ticked keys")]).toEqual([
      true,
      false,
    ]);
  });

  it("succeeds even if the member's keys replace each other after the page was opened", async () => {
    const { owner, leaver } = await makeAdminWithKey();
    const firstKey = await createKeyAs(leaver, "First", ["keys:read", "keys:write"]);
    const form = removalFormIn(await owner.get(removalPathOf(leaver)));
    const next = (await call("POST", "/api/v1/keys", { key: firstKey, body: { name: "Next", scopes: ["keys:write"] } })).body;
    await call("DELETE", `/api/v1/keys/${keyIdOf(firstKey)}`, { key: next.secret_key });
    expect((await owner.post(removalPathOf(leaver), form)).status).toBe(303);
    expect([await isAccepted(next.secret_key), (await leaver.get("/keys")).status]).toEqual([false, 303]);
  });

  it("never lets a key that it revokes create, rotate or enable a key in the meantime", async () => {
    const { owner, leaver, key } = await makeAdminWithKey();
    const scopes = ["keys:read", "keys:write", "tasks:read"];
    const secretKeys: string[] = [];
    for (const name of ["One", "Two", "Three"]) secretKeys.push(await createKeyAs(leaver, name, scopes));
    const form = { ...removalFormIn(await owner.get(removalPathOf(leaver))), revoke: secretKeys.map(keyIdOf) };
    const useKey = (secretKey: string) => [
      call("POST", "/api/v1/keys", { key: secretKey, body: { name: "Too late", scopes } }),
      call("POST", `/api/v1/keys/${keyIdOf(secretKey)}/rotate`, { key: secretKey, body: { overlap_seconds: 0 } }),
      call("PATCH", `/api/v1/keys/${keyIdOf(secretKey)}`, { key: secretKey, body: { status: "active" } }),
    ];
    // The test uses each key after the removal of the member, but before the first key is revoked.
    let statuses: number[] | undefined;
    const batch: D1Database["batch"] = async (statements) => {
      const results = await env.DB.batch(statements);
      if (statuses === undefined && (await readRemovalTime(leaver.member.id)) !== null) {
        statuses = [];
        statuses = (await Promise.all(secretKeys.flatMap(useKey))).map(({ status }) => status);
      }
      return results as never;
    };
    const removed = await owner.post(removalPathOf(leaver), form, {}, { ...env, DB: d1With(env.DB, { batch }) });
    expect(removed.headers.get("Location")).toBe("/settings?done=removed-with-keys");
    expect(statuses?.length).toBe(9);
    expect(statuses?.filter((status) => status < 400)).toEqual([]);
    const { data } = (await call("GET", "/api/v1/keys?status=active", { key })).body;
    expect(data.map(({ name }: { name: string }) => name)).toEqual(["Test key"]);
    expect((await call("GET", "/api/v1/audit?action=key.revoked", { key })).body.data).toHaveLength(3);
  });
});

describe("A key of a removed member", () => {
  const setExpiry = async (key: string, secretKey: string, expiresAt: number | null) => {
    const body = { expires_at: expiresAt === null ? null : new Date(expiresAt).toISOString() };
    return call("PATCH", `/api/v1/keys/${keyIdOf(secretKey)}`, { key, body });
  };

  it("cannot get a later expiry if it expired before the removal, but can if it expired after the removal", async () => {
    const { key, owner, leaver, firstKey, secondKey, rotatedKey } = await makeTeam();
    const expiresAt = Date.now() + 1000;
    for (const secretKey of [firstKey, rotatedKey]) expect((await setExpiry(key, secretKey, expiresAt)).status).toBe(200);
    const unknownKey = await makeKey(owner.member.accountId, { scopes: ["tasks:read"], expiresAt });
    for (const secretKey of [firstKey, rotatedKey, unknownKey.key]) await waitUntilExpired(secretKey);
    expect(keyIdsIn(await owner.get(removalPathOf(leaver)))).toEqual([keyIdOf(secondKey)]);
    await removeMember(owner, leaver);
    for (const secretKey of [firstKey, rotatedKey]) {
      const denied = await setExpiry(key, secretKey, null);
      expect([denied.status, denied.body.code, denied.body.detail.includes("Create a new key")]).toEqual([409, "conflict", true]);
      expect(await isAccepted(secretKey)).toBe(false);
    }
    expect([(await setExpiry(key, unknownKey.key, null)).status, await isAccepted(unknownKey.key)]).toEqual([200, true]);
    // The person joins again, with a lower role. The expired key still cannot get a later expiry.
    const again = await makePerson(owner.member.accountId, "viewer");
    await setMemberEmail(again.member.id, leaver.member.email);
    expect((await setExpiry(key, firstKey, null)).status).toBe(409);
    // The removal page listed the second key, but the owner did not revoke the second key.
    await setExpiry(key, secondKey, Date.now() + 500);
    await waitUntilExpired(secondKey);
    expect(await isAccepted(secondKey)).toBe(false);
    expect([(await setExpiry(key, secondKey, null)).status, await isAccepted(secondKey)]).toEqual([200, true]);
    // A second removal of the same person also applies to keys from the first membership.
    const laterKey = await makeKey(owner.member.accountId, { scopes: ["tasks:read"], expiresAt: Date.now() + 300 });
    await updateKeyRow(laterKey.keyId, { created_by_type: "member", created_by_id: leaver.member.id });
    await waitUntilExpired(laterKey.key);
    expect((await owner.post(removalPathOf(again), { listed: "yes" })).status).toBe(303);
    expect((await setExpiry(key, laterKey.key, null)).status).toBe(409);
  });
});
