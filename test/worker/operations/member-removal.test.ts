import { env } from "cloudflare:workers";
import { setTimeout } from "node:timers/promises";
import { type SQL, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { expect, it } from "vitest";
import { operatorOn } from "../../../src/accounts/actor.ts";
import { knownTo } from "../../../src/audit/known-to.ts";
import { hourMs } from "../../../src/time/clock.ts";
import { listWebhooksOfMember } from "../../../src/webhooks/list-webhooks-of-member.ts";
import { call, db, makeKey, makeTenant } from "../support/client.ts";
import { age, makePerson } from "../support/people.ts";
import { formOf, idOf, makeAdminWithKey, makeTeam, offered, pathOf, remove, secretOf, works } from "../support/removals.ts";

// What the removal of a member shows before it, and the keys that it revokes with them.

it("The removal of a member shows the live keys that they made or rotated, and revokes those that are ticked", async () => {
  const { key, owner, leaver, made, kept, rotated } = await makeTeam();
  const asked = await owner.get(pathOf(leaver));
  expect(offered(asked)).toEqual([idOf(made), idOf(kept), idOf(rotated)].toSorted());
  expect([asked.text.includes("Made by the leaver"), asked.text.includes("Made and revoked"), / checked/.test(asked.text)]).toEqual([
    true,
    false,
    false,
  ]);
  expect(await works(made)).toBe(true);
  const removed = await remove(owner, leaver, [idOf(made), idOf(rotated)]);
  expect(removed.headers.get("Location")).toBe("/settings?done=removed-with-keys");
  expect((await owner.get("/settings?done=removed-with-keys")).text).toContain("The keys that you chose, and those made since");
  expect([await works(made), await works(rotated), await works(kept), await works(key)]).toEqual([false, false, true, true]);
  const { data } = (await call("GET", "/api/v1/audit?action=key.revoked", { key })).body;
  expect(data.map(({ actor }: { actor: { id: string } }) => actor.id)).toEqual([owner.member.id, owner.member.id, leaver.member.id]);
});

it("The removal of a member revokes no key that they did not know, even if the form names it, and none where nobody is removed", async () => {
  const { key, accountId, owner, leaver, made } = await makeTeam();
  const [second, stranger] = [await makePerson(accountId), await makeTenant()];
  const own = secretOf(await owner.post("/keys", { name: "Of the owner", scopes: "tasks:read" }));
  const keyIds = [idOf(own), stranger.keyId, "key_1"];
  expect((await remove(owner, leaver, keyIds)).status).toBe(303);
  expect([await works(own), await works(stranger.key), await works(made)]).toEqual([true, true, true]);
  // Who removes themselves can revoke nothing after it.
  expect((await owner.get(pathOf(owner))).text).toContain("before you leave");
  expect(offered(await owner.get(pathOf(owner)))).toEqual([]);
  const refused = await remove(owner, owner, [idOf(own)]);
  expect([refused.status, await works(own), (await owner.get("/")).status]).toEqual([422, true, 200]);
  await second.post(pathOf(second));
  const last = await remove(owner, owner);
  expect([last.status, last.text.includes("last owner"), await works(key)]).toEqual([422, true, true]);
});

it("The removal of a member says whom it removes, what ends with them, and asks for a recent sign-in", async () => {
  const { accountId } = await makeTenant();
  const [owner, admin, viewer] = [await makePerson(accountId), await makePerson(accountId, "admin"), await makePerson(accountId, "viewer")];
  await admin.post("/settings/invitations", { email: "open@example.com", role: "viewer" });
  await owner.post("/settings/invitations", { email: "stays@example.com", role: "viewer" });
  const { text } = await owner.get(pathOf(admin));
  expect([text.includes(admin.member.email), text.includes("open@example.com"), text.includes("stays@example.com")]).toEqual([
    true,
    true,
    false,
  ]);
  expect([(await viewer.get(pathOf(admin))).status, (await admin.get(pathOf(owner))).status]).toEqual([403, 403]);
  expect((await admin.get(pathOf(viewer))).status).toBe(200);
  expect((await owner.get("/settings/people/mem_1/remove")).status).toBe(404);
  await age(owner.member, "verified_at", hourMs);
  const asked = await owner.post(pathOf(admin), { revoke: ["key_1", "key_2"] });
  // What was ticked comes along to where it is confirmed.
  expect([asked.status, asked.text.match(/name="revoke" value="key_\d"/g)?.length]).toEqual([403, 2]);
  expect(await env.DB.prepare("SELECT removed_at FROM members WHERE id = ?").bind(admin.member.id).first("removed_at")).toBeNull();
});

it("The keys that a member knows, and the webhooks that such keys made, are found by who made them, among all others of the account", async () => {
  const { accountId, keyId } = await makeTenant();
  const { member } = await makePerson(accountId, "developer");
  const copy = (id: SQL, values: SQL) =>
    db.run(sql`INSERT INTO api_keys (id, account_id, name, last4, secret_hash, scopes, state, hourly_limit, allowed_ips, version, pushed_version,
      revision, created_by_type, created_by_id, created_at, updated_at) SELECT ${id}, account_id, name, last4, secret_hash, scopes, 'revoked',
      hourly_limit, allowed_ips, 1, 1, revision, 'member', ${member.id}, created_at, updated_at FROM api_keys, (${values}) WHERE api_keys.id = ${keyId}`);
  const many = 400;
  await copy(
    sql`printf('key_%s%07d', ${member.id.slice(-9)}, n)`,
    sql`WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ${many}) SELECT n FROM counted`,
  );
  await db.run(sql`INSERT INTO members (id, account_id, name, email, email_key, role, removed_at, created_at)
    WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 4000)
    SELECT printf('mem_%s%07d', ${member.id.slice(-9)}, n), ${accountId}, 'Former', n || '@example.com', n || '@example.com', 'viewer', 1, 1 FROM counted`);
  const { results, meta } = await db.run(sql`${knownTo(accountId, member.id)} SELECT id FROM known`);
  expect(results).toHaveLength(1 + many);
  expect(meta.rows_read).toBeLessThan(10 * many);
  await db.run(sql`INSERT INTO audit (account_id, id, actor_type, actor_id, action, target_type, target_id, target_name, changes)
    SELECT account_id, 'aud_' || id, 'member', ${member.id}, 'key.created', 'key', id, name, '[]' FROM api_keys WHERE account_id = ${accountId}`);
  const statements: [string, unknown[]][] = [];
  const noting = drizzle(env.DB, { logger: { logQuery: (query, values) => void statements.push([query, values]) } }) as typeof db;
  await listWebhooksOfMember({ db: noting, actor: operatorOn(accountId), now: Date.now() }, member.id);
  const [query, values] = statements[0] ?? ["", []];
  const listed = await env.DB.prepare(query)
    .bind(...values)
    .run();
  expect(listed.meta.rows_read).toBeLessThan(10 * many);
});

it("Who was removed, and invited again to the same address, is still known by the keys from before", async () => {
  const { accountId } = await makeTenant();
  const [owner, before] = [await makePerson(accountId), await makePerson(accountId, "admin")];
  const made = await before.post("/keys", { name: "From before", scopes: ["keys:read", "keys:write"] });
  const secret = secretOf(made);
  // Removed by somebody who saw the key, and left it alive.
  expect((await owner.post(pathOf(before), formOf(await owner.get(pathOf(before))))).status).toBe(303);
  const again = await makePerson(accountId, "admin");
  await env.DB.prepare("UPDATE members SET email = ?1, email_key = ?1 WHERE id = ?2").bind(before.member.email, again.member.id).run();
  const other = await makePerson(accountId, "admin");
  expect((await owner.get(pathOf(other))).text).not.toContain("From before");
  const page = await owner.get(pathOf(again));
  expect(page.text).toContain("From before");
  expect(await works(secret)).toBe(true);
  expect((await owner.post(pathOf(again), { ...formOf(page), revoke: offered(page).join() })).status).toBe(303);
  expect(await works(secret)).toBe(false);
});

it("The removal of a member shows the keys that were made or rotated by keys of theirs, and the webhooks that they or such keys made", async () => {
  const { accountId } = await makeTenant();
  const [owner, leaver] = [await makePerson(accountId), await makePerson(accountId, "admin")];
  const scopes = ["keys:read", "keys:write", "webhooks:read", "webhooks:write", "tasks:read"];
  const first = secretOf(await leaver.post("/keys", { name: "First", scopes }));
  const second = (await call("POST", "/api/v1/keys", { key: first, body: { name: "Second", scopes } })).body;
  const third = (await call("POST", "/api/v1/keys", { key: second.secret_key, body: { name: "Third", scopes: ["tasks:read"] } })).body;
  const others = await makeKey(accountId, { name: "Rotated by the second", scopes: ["tasks:read"] });
  await call("POST", `/api/v1/keys/${others.keyId}/rotate`, { key: second.secret_key, body: { overlap_seconds: 0 } });
  const url = "https://hooks.acme.dev/leaver";
  const made = await call("POST", "/api/v1/webhooks", { key: second.secret_key, body: { url, event_types: ["task.created"] } });
  const page = await owner.get(pathOf(leaver));
  expect(offered(page)).toEqual([idOf(first), second.id, third.id, others.keyId].toSorted());
  expect([made.status, page.text.includes(`/webhooks/${made.body.id}`)]).toEqual([201, true]);
});

it("The removal of a member is asked again where the form has not shown the keys that they know", async () => {
  const { owner, leaver, made, kept } = await makeTeam();
  const refused = await owner.post(pathOf(leaver), { revoke: [idOf(made)] });
  expect([refused.status, refused.text.includes("Check the list, then try again"), offered(refused).includes(idOf(kept))]).toEqual([
    409,
    true,
    true,
  ]);
  expect([await works(made), (await leaver.get("/keys")).status]).toEqual([true, 200]);
});

it("The removal of a member revokes the keys that were made since the page was opened, whether or not it showed others", async () => {
  const { owner, leaver, made, kept, rotated } = await makeTeam();
  const form = formOf(await owner.get(pathOf(leaver)));
  const later = secretOf(await leaver.post("/keys", { name: "Made later", scopes: "tasks:read" }));
  const removed = await owner.post(pathOf(leaver), form);
  expect(removed.headers.get("Location")).toBe("/settings?done=removed-with-keys");
  expect([await works(later), await works(made), await works(kept), await works(rotated)]).toEqual([false, true, true, true]);
});

it("The removal of a member disables the keys that were changed since the page was opened, so that none does more than it showed", async () => {
  const { owner, leaver, key, kept, made } = await makeTeam();
  await leaver.post(`/keys/${idOf(made)}/disable`);
  const form = formOf(await owner.get(pathOf(leaver)));
  await leaver.post(`/keys/${idOf(made)}/enable`);
  await call("PATCH", `/api/v1/keys/${idOf(kept)}`, { key, body: { scopes: ["tasks:read", "users:read"] } });
  expect([await works(kept), await works(made)]).toEqual([true, true]);
  const removed = await owner.post(pathOf(leaver), form);
  expect(removed.headers.get("Location")).toBe("/settings?done=removed-with-changed");
  expect([await works(kept), await works(made)]).toEqual([false, false]);
  for (const secret of [kept, made]) {
    expect((await call("GET", `/api/v1/keys/${idOf(secret)}`, { key })).body.status).toBe("disabled");
    const [entry] = (await call("GET", `/api/v1/audit?action=key.disabled&target=${idOf(secret)}`, { key })).body.data;
    expect(entry).toMatchObject({ actor: { id: owner.member.id }, changes: ["status"] });
    const { results } = await env.DB.prepare(
      "SELECT data FROM events WHERE account_id = ? AND type = 'key.updated' AND data ->> 'id' = ? ORDER BY sequence DESC",
    )
      .bind(owner.member.accountId, idOf(secret))
      .all<{ data: string }>();
    expect(JSON.parse(results[0]?.data ?? "{}")).toMatchObject({ status: "disabled" });
  }
  await owner.post(`/keys/${idOf(kept)}/enable`);
  expect(await works(kept)).toBe(true);
});

it("The removal of a member disables the webhooks that they made or changed since the page was opened, and shows those whose secret they know", async () => {
  const { owner, leaver, key } = await makeAdminWithKey();
  const make = async (path: string) =>
    (await call("POST", "/api/v1/webhooks", { key, body: { url: `https://hooks.acme.dev/${path}`, event_types: ["task.created"] } })).body;
  const [others, rotated, changed] = [await make("others"), await make("rotated"), await make("changed")];
  await leaver.post(`/webhooks/${rotated.id}/rotate-secret`, { overlap_seconds: "0" });
  await leaver.post(`/webhooks/${changed.id}`, { url: "https://hooks.acme.dev/mine", event_types: "task.created" });
  const page = await owner.get(pathOf(leaver));
  expect([others, rotated, changed].map(({ id }) => page.text.includes(`/webhooks/${id}`))).toEqual([false, true, true]);
  const form = formOf(page);
  await leaver.post("/webhooks", { url: "https://hooks.acme.dev/late", event_types: "task.created" });
  await leaver.post(`/webhooks/${changed.id}`, { url: "https://hooks.acme.dev/mine-too", event_types: "task.created" });
  const removed = await owner.post(pathOf(leaver), form);
  expect(removed.headers.get("Location")).toBe("/settings?done=removed-with-changed");
  const { data } = (await call("GET", "/api/v1/webhooks", { key })).body;
  const statusOf = Object.fromEntries(data.map(({ url, status }: { url: string; status: string }) => [url.split("/").at(-1), status]));
  expect(statusOf).toEqual({ others: "active", rotated: "active", "mine-too": "disabled", late: "disabled" });
});

it("What a member left behind can be revoked after they were removed: by a page that was open, and from the audit log", async () => {
  const { owner, leaver, made, kept, rotated } = await makeTeam();
  const colleague = await makePerson(owner.member.accountId);
  const form = formOf(await owner.get(pathOf(leaver)));
  expect((await colleague.post(pathOf(leaver), formOf(await colleague.get(pathOf(leaver))))).status).toBe(303);
  expect([await works(made), await works(kept)]).toEqual([true, true]);
  const ended = await owner.post(pathOf(leaver), { ...form, revoke: idOf(made) });
  expect(ended.headers.get("Location")).toBe("/settings?done=ended-behind");
  expect([await works(made), await works(kept)]).toEqual([false, true]);
  const audit = await owner.get("/settings/audit");
  expect(audit.text).toContain(`href="${pathOf(leaver)}"`);
  const page = await owner.get(pathOf(leaver));
  expect([page.text.includes("is no longer a member"), offered(page).includes(idOf(kept))]).toEqual([true, true]);
  await owner.post(pathOf(leaver), { ...formOf(page), revoke: [idOf(kept), idOf(rotated)] });
  expect([await works(kept), await works(rotated)]).toEqual([false, false]);
  const after = await owner.get(pathOf(leaver));
  expect([after.text.includes("No key that they know works any more."), after.text.includes("Revoke the ticked keys")]).toEqual([
    true,
    false,
  ]);
});

it("The removal of a member cannot be put off by keys that come and go", async () => {
  const { owner, leaver } = await makeAdminWithKey();
  const first = secretOf(await leaver.post("/keys", { name: "First", scopes: ["keys:read", "keys:write"] }));
  const form = formOf(await owner.get(pathOf(leaver)));
  const next = (await call("POST", "/api/v1/keys", { key: first, body: { name: "Next", scopes: ["keys:write"] } })).body;
  await call("DELETE", `/api/v1/keys/${idOf(first)}`, { key: next.secret_key });
  expect((await owner.post(pathOf(leaver), form)).status).toBe(303);
  expect([await works(next.secret_key), (await leaver.get("/keys")).status]).toEqual([false, 303]);
});

it("The removal of a member leaves no moment in which a key that ends with them could make another", async () => {
  const { owner, leaver, key } = await makeAdminWithKey();
  const scopes = ["keys:read", "keys:write", "tasks:read"];
  const secrets: string[] = [];
  for (const name of ["One", "Two", "Three"]) secrets.push(secretOf(await leaver.post("/keys", { name, scopes })));
  const form = { ...formOf(await owner.get(pathOf(leaver))), revoke: secrets.map(idOf) };
  // Between the removal and the first revocation, each key tries.
  let tried: number[] | undefined;
  const batch: D1Database["batch"] = async (statements) => {
    const results = await env.DB.batch(statements);
    const isRemoved = await env.DB.prepare("SELECT removed_at FROM members WHERE id = ?").bind(leaver.member.id).first("removed_at");
    if (isRemoved !== null && tried === undefined) {
      tried = [];
      const ways = secrets.flatMap((secret) => [
        call("POST", "/api/v1/keys", { key: secret, body: { name: "Too late", scopes } }),
        call("POST", `/api/v1/keys/${idOf(secret)}/rotate`, { key: secret, body: { overlap_seconds: 0 } }),
        call("PATCH", `/api/v1/keys/${idOf(secret)}`, { key: secret, body: { status: "active" } }),
      ]);
      tried = (await Promise.all(ways)).map(({ status }) => status);
    }
    return results as never;
  };
  const watched = new Proxy(env.DB, { get: (db, name) => (name === "batch" ? batch : Reflect.get(db, name).bind(db)) });
  const removed = await owner.post(pathOf(leaver), form, {}, { ...env, DB: watched });
  expect(removed.headers.get("Location")).toBe("/settings?done=removed-with-keys");
  expect(tried?.length).toBe(9);
  expect(tried?.filter((status) => status < 400)).toEqual([]);
  const { data } = (await call("GET", "/api/v1/keys?status=active", { key })).body;
  expect(data.map(({ name }: { name: string }) => name)).toEqual(["Test key"]);
  expect((await call("GET", "/api/v1/audit?action=key.revoked", { key })).body.data).toHaveLength(3);
});

it("A key that had expired when its maker was removed never works again; one that expired after it can", async () => {
  const { key, owner, leaver, made, kept, rotated } = await makeTeam();
  const patch = async (secret: string, expiresAt: number | null) => {
    const body = { expires_at: expiresAt === null ? null : new Date(expiresAt).toISOString() };
    return call("PATCH", `/api/v1/keys/${idOf(secret)}`, { key, body });
  };
  const soon = Date.now() + 1000;
  for (const secret of [made, rotated]) expect((await patch(secret, soon)).status).toBe(200);
  const others = await makeKey(owner.member.accountId, { scopes: ["tasks:read"], expiresAt: soon });
  await setTimeout(1100);
  expect(offered(await owner.get(pathOf(leaver)))).toEqual([idOf(kept)]);
  await remove(owner, leaver);
  for (const secret of [made, rotated]) {
    const refused = await patch(secret, null);
    expect([refused.status, refused.body.code, refused.body.detail.includes("Make a new key")]).toEqual([409, "conflict", true]);
    expect(await works(secret)).toBe(false);
  }
  expect([(await patch(others.key, null)).status, await works(others.key)]).toEqual([200, true]);
  // Nor where they are back with less.
  const again = await makePerson(owner.member.accountId, "viewer");
  await env.DB.prepare("UPDATE members SET email = ?1, email_key = ?1 WHERE id = ?2").bind(leaver.member.email, again.member.id).run();
  expect((await patch(made, null)).status).toBe(409);
  // It was shown at the removal, and was to live on.
  await patch(kept, Date.now() + 500);
  await setTimeout(600);
  expect(await works(kept)).toBe(false);
  expect([(await patch(kept, null)).status, await works(kept)]).toEqual([200, true]);
  // A removal of the person who is back counts for the keys of before, too.
  const later = await makeKey(owner.member.accountId, { scopes: ["tasks:read"], expiresAt: Date.now() + 300 });
  await env.DB.prepare("UPDATE api_keys SET created_by_type = 'member', created_by_id = ? WHERE id = ?")
    .bind(leaver.member.id, later.keyId)
    .run();
  await setTimeout(400);
  expect((await owner.post(pathOf(again), { listed: "yes" })).status).toBe(303);
  expect((await patch(later.key, null)).status).toBe(409);
});
