import { env } from "cloudflare:workers";
import { setTimeout } from "node:timers/promises";
import { drizzle } from "drizzle-orm/d1";
import { expect, it } from "vitest";
import { changeKey } from "../../../src/keys/change-key.ts";
import { finishEndings, removeWithKeys } from "../../../src/operations/removal.ts";
import { minuteMs } from "../../../src/time/clock.ts";
import { commitTo } from "../../../src/webhooks/outbox.ts";
import { activity, call, cron, db, makeKey, makeTenant } from "../support/client.ts";
import { formOf, idOf, makeAdminWithKey, makeTeam, offered, pathOf, secretOf, works } from "../support/removals.ts";

// What ends with the removal of a member is decided in its batch. It is done at once, or by the clock where that was broken off.

/** The bindings, with a D1 that is away from the moment on in which a member is removed. */
const awayAfterRemovalOf = (memberId: string): Env => {
  let isAway = false;
  const batch: D1Database["batch"] = async (statements) => {
    if (isAway) throw new Error("D1_ERROR: Network connection lost");
    const results = await env.DB.batch(statements);
    isAway = (await env.DB.prepare("SELECT removed_at FROM members WHERE id = ?").bind(memberId).first("removed_at")) !== null;
    return results as never;
  };
  return { ...env, DB: new Proxy(env.DB, { get: (d1, name) => (name === "batch" ? batch : Reflect.get(d1, name).bind(d1)) }) };
};

const leftOver = (accountId: string) =>
  env.DB.prepare("SELECT count(*) AS count FROM endings WHERE account_id = ?").bind(accountId).first("count");
const eventsOf = async (accountId: string, id: string) =>
  (
    await env.DB.prepare("SELECT type FROM events WHERE account_id = ? AND data ->> 'id' = ? AND type <> 'key.created' ORDER BY sequence")
      .bind(accountId, id)
      .all<{ type: string }>()
  ).results.map(({ type }) => type);

it("A removal that is broken off after its batch is finished by the clock, with an event and an audit entry of each key and webhook", async () => {
  const { key, owner, leaver } = await makeAdminWithKey();
  const { accountId } = owner.member;
  const [ticked, changed, kept] = [
    secretOf(await leaver.post("/keys", { name: "Ticked", scopes: "tasks:read" })),
    secretOf(await leaver.post("/keys", { name: "Changed", scopes: "tasks:read" })),
    secretOf(await leaver.post("/keys", { name: "Kept", scopes: "tasks:read" })),
  ];
  const webhook = (
    await call("POST", "/api/v1/webhooks", { key, body: { url: "https://hooks.acme.dev/theirs", event_types: ["task.created"] } })
  ).body;
  const form = { ...formOf(await owner.get(pathOf(leaver))), revoke: [idOf(ticked)] };
  await call("PATCH", `/api/v1/keys/${idOf(changed)}`, { key, body: { name: "Another name" } });
  const later = secretOf(await leaver.post("/keys", { name: "Later", scopes: "tasks:read" }));
  await leaver.post(`/webhooks/${webhook.id}`, { url: "https://hooks.acme.dev/moved", event_types: "task.created" });
  const broken = await owner.post(pathOf(leaver), form, {}, awayAfterRemovalOf(leaver.member.id));
  expect([broken.status, broken.text.includes("the rest follows within minutes")]).toEqual([422, true]);
  expect([(await leaver.get("/")).status, await leftOver(accountId)]).toEqual([303, 4]);
  await cron(Date.now() + 2 * minuteMs);
  expect(await leftOver(accountId)).toBe(0);
  expect(await Promise.all([ticked, later, changed, kept].map(works))).toEqual([false, false, false, true]);
  expect(await eventsOf(accountId, idOf(ticked))).toEqual(["key.revoked"]);
  expect(await eventsOf(accountId, idOf(later))).toEqual(["key.revoked"]);
  expect(await eventsOf(accountId, idOf(changed))).toEqual(["key.updated", "key.updated"]);
  expect(await eventsOf(accountId, webhook.id)).toEqual(["webhook.disabled"]);
  expect((await call("GET", `/api/v1/webhooks/${webhook.id}`, { key })).body.status).toBe("disabled");
  for (const [action, count] of [
    ["key.revoked", 2],
    ["key.disabled", 1],
    ["webhook.disabled", 1],
  ] as const) {
    const { data } = (await call("GET", `/api/v1/audit?action=${action}`, { key })).body;
    expect([action, data.length, data[0].actor.id]).toEqual([action, count, owner.member.id]);
  }
});

it("A removal that is refused ends nothing, at once and later", async () => {
  const { owner, leaver, made } = await makeTeam();
  const { accountId, id } = owner.member;
  await leaver.post("/webhooks", { url: "https://hooks.acme.dev/theirs", event_types: "task.created" });
  await env.DB.prepare("UPDATE members SET role = 'admin' WHERE id = ?").bind(leaver.member.id).run();
  const actor = { accountId, by: { type: "member" as const, id }, from: { ip: null, country: null } };
  const removing = { db, now: Date.now(), actor, commit: commitTo({ db }) };
  const nothingShown = { shownKeys: [], revoked: [], shownWebhooks: [] };
  await expect(removeWithKeys(removing, leaver.member, nothingShown)).rejects.toThrow("is admin now");
  expect([await leftOver(accountId), await works(made)]).toEqual([0, true]);
});

it("A form that is sent again, or a key that was disabled all along, tells nothing that did not happen", async () => {
  const { key, owner, leaver, made, kept } = await makeTeam();
  const { accountId } = owner.member;
  await call("PATCH", `/api/v1/keys/${idOf(kept)}`, { key, body: { status: "disabled" } });
  const form = formOf(await owner.get(pathOf(leaver)));
  await call("PATCH", `/api/v1/keys/${idOf(kept)}`, { key, body: { name: "Another name" } });
  await call("PATCH", `/api/v1/keys/${idOf(made)}`, { key, body: { name: "Another name" } });
  for (let times = 0; times < 3; times++) expect((await owner.post(pathOf(leaver), form)).status).toBe(303);
  expect(await eventsOf(accountId, idOf(kept))).toEqual(["key.updated", "key.updated"]);
  expect(await eventsOf(accountId, idOf(made))).toEqual(["key.updated", "key.updated"]);
  expect((await call("GET", `/api/v1/audit?action=key.disabled&target=${idOf(made)}`, { key })).body.data).toHaveLength(1);
});

it("What a removal has disabled is told once, however many go on with it at once, and where one breaks off just after it", async () => {
  const { key, owner, leaver, made } = await makeTeam();
  const { accountId } = owner.member;
  const form = formOf(await owner.get(pathOf(leaver)));
  await call("PATCH", `/api/v1/keys/${idOf(made)}`, { key, body: { name: "Another name" } });
  await owner.post(pathOf(leaver), form, {}, awayAfterRemovalOf(leaver.member.id));
  // Deletes nothing by a statement of its own.
  const prepare = (query: string) => {
    const statement = env.DB.prepare(query);
    if (!query.startsWith('delete from "endings"')) return statement;
    return {
      bind: (...values: unknown[]) => Object.assign(statement.bind(...values), { run: () => Promise.reject(new Error("broken off")) }),
    };
  };
  const breaking = drizzle(
    new Proxy(env.DB, { get: (d1, name) => (name === "prepare" ? prepare : Reflect.get(d1, name).bind(d1)) }),
  ) as typeof db;
  const going = { db, guards: env.KEY_GUARD, activityIn: () => activity };
  await finishEndings({ ...going, db: breaking }, accountId, Date.now());
  await Promise.all([1, 2, 3].map(() => finishEndings(going, accountId, Date.now())));
  expect([await eventsOf(accountId, idOf(made)), await leftOver(accountId)]).toEqual([["key.updated", "key.updated"], 0]);
});

it("A key that is to be revoked is not spared by an older page", async () => {
  const { owner, leaver, made, kept } = await makeTeam();
  const older = formOf(await owner.get(pathOf(leaver)));
  await owner.post(pathOf(leaver), { ...older, revoke: [idOf(made)] }, {}, awayAfterRemovalOf(leaver.member.id));
  await env.DB.prepare("UPDATE api_keys SET state = 'active', revision = 'changed' WHERE id = ?").bind(idOf(made)).run();
  await owner.post(pathOf(leaver), older);
  expect(await env.DB.prepare("SELECT state FROM api_keys WHERE id = ?").bind(idOf(made)).first("state")).toBe("revoked");
  expect(await works(kept)).toBe(true);
});

it("A webhook that was moved and disabled in one change is shown at the removal of who moved it", async () => {
  const { key, owner, leaver } = await makeAdminWithKey();
  const body = { url: "https://hooks.acme.dev/first", event_types: ["task.created"] };
  const { id } = (await call("POST", "/api/v1/webhooks", { key, body })).body;
  const theirs = secretOf(await leaver.post("/keys", { name: "Theirs", scopes: ["webhooks:read", "webhooks:write", "tasks:read"] }));
  const moved = { url: "https://hooks.acme.dev/moved", status: "disabled" };
  expect((await call("PATCH", `/api/v1/webhooks/${id}`, { key: theirs, body: moved })).status).toBe(200);
  expect((await owner.get(pathOf(leaver))).text).toContain(`/webhooks/${id}`);
});

it("A key of a former member that was ticked is revoked, though it has expired while the page was open", async () => {
  const { key, owner, leaver, made } = await makeTeam();
  await owner.post(pathOf(leaver), formOf(await owner.get(pathOf(leaver))));
  await call("PATCH", `/api/v1/keys/${idOf(made)}`, { key, body: { expires_at: new Date(Date.now() + 500).toISOString() } });
  const page = await owner.get(pathOf(leaver));
  expect(offered(page)).toContain(idOf(made));
  await setTimeout(600);
  await owner.post(pathOf(leaver), { ...formOf(page), revoke: [idOf(made)] });
  expect((await call("GET", `/api/v1/keys/${idOf(made)}`, { key })).body.status).toBe("revoked");
});

it("A later expiry that is written while its member is removed does not save a key that expires in this moment", async () => {
  const { owner, leaver, made } = await makeTeam();
  const { accountId, id } = owner.member;
  await call("GET", "/api/v1/me", { key: made });
  const expiresAt = Date.now() + 60_000;
  await env.DB.prepare("UPDATE api_keys SET expires_at = ? WHERE id = ?").bind(expiresAt, idOf(made)).run();
  const commit = commitTo({ db });
  let isFirst = true;
  const writing = {
    db,
    activity,
    guards: env.KEY_GUARD,
    now: Date.now(),
    actor: { accountId, by: { type: "member" as const, id }, from: { ip: null, country: null } },
    commit: async (change: Parameters<typeof commit>[0]) => {
      if (isFirst) await env.DB.prepare("UPDATE members SET removed_at = ? WHERE id = ?").bind(expiresAt, leaver.member.id).run();
      isFirst = false;
      return commit(change);
    },
  };
  await expect(changeKey(writing as never, idOf(made), { expiresAt: null }, () => true)).rejects.toThrow(
    "a member was removed who may know its secret",
  );
  expect(await env.DB.prepare("SELECT expires_at FROM api_keys WHERE id = ?").bind(idOf(made)).first("expires_at")).toBe(expiresAt);
});

it("What one account has left to end keeps no other waiting", async () => {
  const [one, other] = [await makeAdminWithKey(), await makeAdminWithKey()];
  const note = async (accountId: string, age: number) => {
    const { keyId } = await makeKey(accountId);
    await env.DB.prepare(
      "INSERT INTO endings (account_id, target_id, target_name, action, actor_type, actor_id, created_at) VALUES (?, ?, 'A key', 'revoke_key', 'member', 'mem_1', ?)",
    )
      .bind(accountId, keyId, Date.now() - age)
      .run();
  };
  for (let n = 0; n < 9; n++) await note(one.owner.member.accountId, 10 * minuteMs);
  await note(other.owner.member.accountId, 2 * minuteMs);
  await cron();
  expect([await leftOver(one.owner.member.accountId), await leftOver(other.owner.member.accountId)]).toEqual([4, 0]);
  await cron();
  expect(await leftOver(one.owner.member.accountId)).toBe(0);
});

it("What cannot be ended comes again behind all others, so that it keeps none waiting", async () => {
  const note = async (age: number, name: string) => {
    const { accountId } = await makeTenant();
    const { keyId } = await makeKey(accountId, { name });
    await env.DB.prepare(
      "INSERT INTO endings (account_id, target_id, target_name, action, actor_type, actor_id, created_at) VALUES (?, ?, ?, 'revoke_key', 'member', 'mem_1', ?)",
    )
      .bind(accountId, keyId, name, Date.now() - age)
      .run();
    return accountId;
  };
  await env.DB.prepare(
    "CREATE TRIGGER refusing BEFORE UPDATE ON api_keys WHEN OLD.name = 'Refused' BEGIN SELECT RAISE(ABORT, 'a fault'); END",
  ).run();
  try {
    const refused: string[] = [];
    for (let n = 0; n < 6; n++) refused.push(await note(10 * minuteMs, "Refused"));
    const good = await note(5 * minuteMs, "Taken");
    await expect(cron()).rejects.toThrow("finish_removals");
    expect(await leftOver(good)).toBe(1);
    await cron();
    expect([await leftOver(good), await leftOver(refused[0] ?? "")]).toEqual([0, 1]);
  } finally {
    await env.DB.prepare("DROP TRIGGER refusing").run();
  }
  await cron(Date.now() + 2 * minuteMs);
  await cron(Date.now() + 2 * minuteMs);
  expect(await env.DB.prepare("SELECT count(*) AS count FROM endings").first("count")).toBe(0);
});
