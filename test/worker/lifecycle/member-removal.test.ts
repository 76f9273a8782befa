import { env } from "cloudflare:workers";
import { sql } from "drizzle-orm";
import { describe, expect, it } from "vitest";
import { operatorOn } from "../../../src/accounts/actor.ts";
import { hasKeysOfMember } from "../../../src/keys/keys-of-member.ts";
import { hourMs } from "../../../src/lib/time/clock.ts";
import { removeWithKeys } from "../../../src/lifecycle/removal.ts";
import { logOf } from "../../../src/log/writers.ts";
import { commitTo } from "../../../src/outbox/outbox.ts";
import { listWebhooksOfMember } from "../../../src/webhooks/subscriptions/list-webhooks-of-member.ts";
import { call, cron, db, makeKey, makeTenant } from "../support/client.ts";
import { countingD1, countRowsRead, d1BeforeBatches, d1With, type RecordedStatement, recordStatements } from "../support/d1.ts";
import { updateKeyRow } from "../support/key-rows.ts";
import { backdateSessions, insertMembers, readRemovalTime, setMemberEmail, setMemberRole } from "../support/member-rows.ts";
import { makePerson, noOrigin } from "../support/people.ts";
import {
  createKeyAs,
  isAccepted,
  keyIdOf,
  keyIdsIn,
  makeAdminWithKey,
  makeTeam,
  removalPathOf,
  removeMember,
  secretKeyIn,
} from "../support/removals.ts";

// These tests check the page that removes a member, and the revocation of the keys that the member created or rotated. `leaver` is the
// member who is removed.

/** Adds copies of a key. The creator of each copy is the member `memberId`. */
const insertKeys = (keyId: string, memberId: string, count: number, state: "active" | "revoked") =>
  db.run(sql`INSERT INTO api_keys (id, account_id, name, last4, secret_hash, scopes, state, hourly_limit, allowed_ips,
      version, pushed_version, revision, created_by_type, created_by_id, created_at, updated_at)
    WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ${count})
    SELECT printf('key_%s%07d', ${memberId.slice(-9)}, n), account_id, name, last4, secret_hash, scopes, ${state},
      hourly_limit, allowed_ips, 1, 1, revision, 'member', ${memberId}, created_at, updated_at
    FROM counted, api_keys WHERE api_keys.id = ${keyId}`);

/** Adds one audit log entry for each key of an account. Each entry names the member `memberId` as the creator of the key. */
const insertKeyCreationEntries = (accountId: string, memberId: string) =>
  db.run(sql`INSERT INTO audit (account_id, id, actor_type, actor_id, action, target_type, target_id, target_name, changes)
    SELECT account_id, 'aud_' || id, 'member', ${memberId}, 'key.created', 'key', id, name, '[]'
    FROM api_keys WHERE account_id = ${accountId}`);

/** Returns the ids of the keys that the events of a type are about, sorted. */
const readKeysOfEvents = async (accountId: string, type: string) =>
  (
    await env.DB.prepare("SELECT data ->> 'id' AS id FROM events WHERE account_id = ? AND type = ?")
      .bind(accountId, type)
      .all<{ id: string }>()
  ).results
    .map(({ id }) => id)
    .toSorted();

describe("The removal of a member", () => {
  it("lists the keys that the member created or rotated, all ticked, and revokes the keys that stay ticked", async () => {
    const { accountId, key, owner, leaver, firstKey, secondKey, rotatedKey } = await makeTeam();
    const page = await owner.get(removalPathOf(leaver));
    expect(keyIdsIn(page)).toEqual([firstKey, secondKey, rotatedKey].map(keyIdOf).toSorted());
    expect(
      ["created or rotated by this member", "Created by the leaver", "Created and revoked"].map((text) => page.text.includes(text)),
    ).toEqual([true, true, false]);
    const ticked = [firstKey, rotatedKey].map(keyIdOf).toSorted();
    const removed = await removeMember(owner, leaver, ticked);
    expect(removed.headers.get("Location")).toBe(`/settings?done=removed-with-keys&left=${leaver.member.id}`);
    const settings = await owner.get(removed.headers.get("Location") ?? "");
    expect(settings.text).toContain("Some keys that this member created or rotated are not revoked.");
    expect(settings.text).toContain(`href="${removalPathOf(leaver)}">Show these keys`);
    expect(await Promise.all([firstKey, rotatedKey, secondKey, key].map(isAccepted))).toEqual([false, false, true, true]);
    const { data } = (await call("GET", "/api/v1/audit?action=key.revoked", { key })).body;
    expect(data.map(({ actor }: { actor: { id: string } }) => actor.id)).toEqual([owner.member.id, owner.member.id, leaver.member.id]);
    expect((await readKeysOfEvents(accountId, "key.revoked")).filter((id) => ticked.includes(id))).toEqual(ticked);
  });

  it("revokes disabled and expired keys too, so that nobody can enable or extend them later", async () => {
    const { key, owner, leaver, firstKey, secondKey, rotatedKey } = await makeTeam();
    await call("PATCH", `/api/v1/keys/${keyIdOf(firstKey)}`, { key, body: { status: "disabled" } });
    await updateKeyRow(keyIdOf(secondKey), { expires_at: Date.now() - hourMs });
    const page = await owner.get(removalPathOf(leaver));
    expect(keyIdsIn(page)).toEqual([firstKey, secondKey, rotatedKey].map(keyIdOf).toSorted());
    const removed = await removeMember(owner, leaver, keyIdsIn(page));
    expect(removed.headers.get("Location")).toBe("/settings?done=removed-with-keys");
    expect((await owner.get("/settings?done=removed-with-keys")).text).not.toContain("Show these keys");
    for (const [secretKey, body] of [
      [firstKey, { status: "active" }],
      [secondKey, { expires_at: null }],
    ] as const) {
      const { status } = await call("PATCH", `/api/v1/keys/${keyIdOf(secretKey)}`, { key, body });
      expect([status, await isAccepted(secretKey)]).toEqual([409, false]);
    }
  });

  it("revokes no key that the member neither created nor rotated, even if the form names it", async () => {
    const { owner, leaver } = await makeAdminWithKey();
    const scopes = ["keys:read", "keys:write", "tasks:read"];
    const leaverKey = await createKeyAs(leaver, "Of the leaver", scopes);
    const created = (await call("POST", "/api/v1/keys", { key: leaverKey, body: { name: "Of the key", scopes: ["tasks:read"] } })).body;
    const [foreign, ownerKey] = [await makeTenant(), await createKeyAs(owner, "Of the owner")];
    const page = await owner.get(removalPathOf(leaver));
    expect([keyIdsIn(page), page.text.includes("Keys that one of these keys created keep working.")]).toEqual([[keyIdOf(leaverKey)], true]);
    const removed = await removeMember(owner, leaver, [keyIdOf(ownerKey), foreign.keyId, created.id, "key_1", keyIdOf(leaverKey)]);
    expect(removed.status).toBe(303);
    expect(await Promise.all([ownerKey, foreign.key, created.secret_key, leaverKey].map(isAccepted))).toEqual([true, true, true, false]);
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

  it("finds the keys and webhooks of the member without a scan of all keys of the account", async () => {
    const { accountId, keyId } = await makeTenant();
    const { member } = await makePerson(accountId, "developer");
    const keyCount = 400;
    await insertKeys(keyId, member.id, keyCount, "revoked");
    await insertKeys(keyId, `${member.id.slice(0, -9)}otherwise`, 10 * keyCount, "active");
    await insertMembers(accountId, 4000, `mem_${member.id.slice(-9)}`, 1);
    await insertKeyCreationEntries(accountId, member.id);
    const { recordingDb, statements } = recordStatements();
    const context = { db: recordingDb, actor: operatorOn(accountId), now: Date.now() };
    expect(await hasKeysOfMember(context, member.id)).toBe(false);
    await listWebhooksOfMember(context, member.id);
    expect(statements).toHaveLength(2);
    for (const statement of statements) expect(await countRowsRead(statement as RecordedStatement)).toBeLessThan(10 * keyCount);
  });

  it("lists keys from an earlier membership of a person who was removed and invited to the same address again", async () => {
    const { accountId } = await makeTenant();
    const [owner, before] = [await makePerson(accountId), await makePerson(accountId, "admin")];
    const oldKey = await createKeyAs(before, "From before", ["keys:read", "keys:write"]);
    // The owner unticks the key.
    expect((await removeMember(owner, before)).status).toBe(303);
    const again = await makePerson(accountId, "admin");
    await setMemberEmail(again.member.id, before.member.email);
    const other = await makePerson(accountId, "admin");
    expect((await owner.get(removalPathOf(other))).text).not.toContain("From before");
    const page = await owner.get(removalPathOf(again));
    expect([keyIdsIn(page), await isAccepted(oldKey)]).toEqual([[keyIdOf(oldKey)], true]);
    expect((await removeMember(owner, again, keyIdsIn(page))).status).toBe(303);
    expect(await isAccepted(oldKey)).toBe(false);
  });

  it("keeps the keys that the member created or rotated after the page was opened, and says where they are", async () => {
    const { accountId, owner, leaver } = await makeTeam();
    const other = await makeKey(accountId, { scopes: ["tasks:read"] });
    const ticked = keyIdsIn(await owner.get(removalPathOf(leaver)));
    const createdLate = await createKeyAs(leaver, "Created late");
    const rotatedLate = secretKeyIn(await leaver.post(`/keys/${other.keyId}/rotate`, { overlap_seconds: "0" }));
    const removed = await removeMember(owner, leaver, ticked);
    expect(removed.headers.get("Location")).toBe(`/settings?done=removed-with-keys&left=${leaver.member.id}`);
    expect([await isAccepted(createdLate), await isAccepted(rotatedLate)]).toEqual([true, true]);
    const late = keyIdsIn(await owner.get(removalPathOf(leaver)));
    expect(late).toEqual([createdLate, rotatedLate].map(keyIdOf).toSorted());
    expect((await removeMember(owner, leaver, late)).headers.get("Location")).toBe("/settings?done=keys-revoked");
    expect([await isAccepted(createdLate), await isAccepted(rotatedLate)]).toEqual([false, false]);
  });

  it("lists the webhooks that the member created or changed, and disables none of them", async () => {
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
    expect([unrelated, rotated, changed].map(({ id }) => page.text.includes(`href="/webhooks/${id}"`))).toEqual([false, true, true]);
    await leaver.post("/webhooks", { url: "https://hooks.acme.dev/late", event_types: "task.created" });
    expect((await removeMember(owner, leaver)).headers.get("Location")).toBe("/settings?done=removed");
    expect((await owner.get(removalPathOf(leaver))).text).toContain("https://hooks.acme.dev/late");
    const { data } = (await call("GET", "/api/v1/webhooks", { key })).body;
    expect(data.map(({ status }: { status: string }) => status)).toEqual(["active", "active", "active", "active"]);
  });

  it("lets owners revoke remaining keys later, from a page that was already open and from the audit log", async () => {
    const { owner, leaver, firstKey, secondKey, rotatedKey } = await makeTeam();
    const otherOwner = await makePerson(owner.member.accountId);
    expect((await removeMember(otherOwner, leaver)).status).toBe(303);
    expect([await isAccepted(firstKey), await isAccepted(secondKey)]).toEqual([true, true]);
    const ended = await removeMember(owner, leaver, [keyIdOf(firstKey)]);
    expect(ended.headers.get("Location")).toBe(`/settings?done=keys-revoked&left=${leaver.member.id}`);
    expect([await isAccepted(firstKey), await isAccepted(secondKey)]).toEqual([false, true]);
    const audit = await owner.get("/settings/audit");
    expect(audit.text).toContain(`href="${removalPathOf(leaver)}"`);
    const page = await owner.get(removalPathOf(leaver));
    expect([page.text.includes("is no longer a member"), keyIdsIn(page).includes(keyIdOf(secondKey))]).toEqual([true, true]);
    await removeMember(owner, leaver, [secondKey, rotatedKey].map(keyIdOf));
    expect([await isAccepted(secondKey), await isAccepted(rotatedKey)]).toEqual([false, false]);
    const after = await owner.get(removalPathOf(leaver));
    expect([
      after.text.includes("All keys that they created or rotated are revoked."),
      after.text.includes("Revoke the ticked keys"),
    ]).toEqual([true, false]);
  });

  it("lists at most 100 keys, which one request can revoke, and then the others", async () => {
    const { accountId, keyId } = await makeTenant();
    const [owner, leaver] = [await makePerson(accountId), await makePerson(accountId, "admin")];
    await insertKeys(keyId, leaver.member.id, 130, "active");
    const page = await owner.get(removalPathOf(leaver));
    expect([keyIdsIn(page).length, page.text.includes("This list shows 100 keys.")]).toEqual([100, true]);
    const { DB, counts } = countingD1();
    const removed = await removeMember(owner, leaver, keyIdsIn(page), { ...env, DB });
    expect(removed.headers.get("Location")).toContain("left=");
    // One request may send at most 1,000 statements to D1. If the guards cannot be reached, each key takes about five statements more.
    expect(counts.statements).toBeLessThan(450);
    const rest = keyIdsIn(await owner.get(removalPathOf(leaver)));
    expect(rest).toHaveLength(30);
    expect((await removeMember(owner, leaver, rest)).headers.get("Location")).toBe("/settings?done=keys-revoked");
  });

  it("is stored if a guard cannot be reached, and the cron job pushes the revocation", async () => {
    const { owner, leaver, firstKey, secondKey } = await makeTeam();
    expect([await isAccepted(firstKey), await isAccepted(secondKey)]).toEqual([true, true]);
    const away = { getByName: () => ({ configure: () => Promise.reject(new Error("no route")) }) };
    const bindings = { ...env, KEY_GUARD: away as unknown as typeof env.KEY_GUARD };
    const unavailable = await removeMember(owner, leaver, [firstKey, secondKey].map(keyIdOf), bindings);
    expect([unavailable.status, unavailable.text.includes("saved and takes effect")]).toEqual([503, true]);
    expect([(await leaver.get("/keys")).status, await isAccepted(firstKey)]).toEqual([303, true]);
    await cron();
    expect([await isAccepted(firstKey), await isAccepted(secondKey)]).toEqual([false, false]);
  });

  it("that is denied revokes no key", async () => {
    const { accountId, owner, leaver, firstKey } = await makeTeam();
    await setMemberRole(leaver.member.id, "admin");
    const actor = { accountId, by: { type: "member" as const, id: owner.member.id }, from: noOrigin };
    const context = { db, now: Date.now(), actor, commit: commitTo({ db }), guards: env.KEY_GUARD, ...logOf(env, "ACTIVITY_0/0") };
    await expect(removeWithKeys(context, leaver.member, [keyIdOf(firstKey)])).rejects.toThrow("is admin now");
    expect([await isAccepted(firstKey), await readRemovalTime(leaver.member.id)]).toEqual([true, null]);
    expect(await readKeysOfEvents(accountId, "key.revoked")).not.toContain(keyIdOf(firstKey));
  });

  it("cannot be prevented by a member who changes or revokes the keys at the same time", async () => {
    const { accountId, owner, leaver, firstKey, secondKey, rotatedKey } = await makeTeam();
    let changes = 0;
    const DB = d1BeforeBatches(async () => {
      await updateKeyRow(keyIdOf(firstKey), { revision: `revision${++changes}` });
      if (changes === 5) await leaver.post(`/keys/${keyIdOf(secondKey)}/revoke`);
    });
    const ids = [firstKey, secondKey, rotatedKey].map(keyIdOf);
    expect((await removeMember(owner, leaver, ids, { ...env, DB })).headers.get("Location")).toBe("/settings?done=removed-with-keys");
    expect(await Promise.all([firstKey, secondKey, rotatedKey].map(isAccepted))).toEqual([false, false, false]);
    expect((await readKeysOfEvents(accountId, "key.revoked")).filter((id) => ids.includes(id))).toEqual(ids.toSorted());
    expect((await leaver.get("/keys")).status).toBe(303);
  });

  it("never lets a key that it revokes create, rotate or enable a key in the meantime", async () => {
    const { owner, leaver, key } = await makeAdminWithKey();
    const scopes = ["keys:read", "keys:write", "tasks:read"];
    const secretKeys: string[] = [];
    for (const name of ["One", "Two", "Three"]) secretKeys.push(await createKeyAs(leaver, name, scopes));
    const useKey = (secretKey: string) => [
      call("POST", "/api/v1/keys", { key: secretKey, body: { name: "Too late", scopes } }),
      call("POST", `/api/v1/keys/${keyIdOf(secretKey)}/rotate`, { key: secretKey, body: { overlap_seconds: 0 } }),
      call("PATCH", `/api/v1/keys/${keyIdOf(secretKey)}`, { key: secretKey, body: { status: "active" } }),
    ];
    // The test uses each key after the batch that removes the member, but before the first guard knows of its revocation.
    let statuses: number[] | undefined;
    const batch: D1Database["batch"] = async (statements) => {
      const results = await env.DB.batch(statements);
      if (statuses === undefined && (await readRemovalTime(leaver.member.id)) !== null) {
        statuses = [];
        statuses = (await Promise.all(secretKeys.flatMap(useKey))).map(({ status }) => status);
      }
      return results as never;
    };
    const removed = await removeMember(owner, leaver, secretKeys.map(keyIdOf), { ...env, DB: d1With(env.DB, { batch }) });
    expect(removed.headers.get("Location")).toBe("/settings?done=removed-with-keys");
    expect(statuses?.length).toBe(9);
    expect(statuses?.filter((status) => status < 400)).toEqual([]);
    const { data } = (await call("GET", "/api/v1/keys?status=active", { key })).body;
    expect(data.map(({ name }: { name: string }) => name)).toEqual(["Test key"]);
    expect((await call("GET", "/api/v1/audit?action=key.revoked", { key })).body.data).toHaveLength(3);
  });
});
