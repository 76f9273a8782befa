import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { operatorOn } from "../../../src/accounts/actor.ts";
import type { Guards } from "../../../src/admission/guards.ts";
import { always } from "../../../src/db/optimistic-locking.ts";
import { changeKey } from "../../../src/keys/change-key.ts";
import { commitTo } from "../../../src/webhooks/outbox.ts";
import { browse, hidden } from "../support/browse.ts";
import { activity, call, db, makeKey, makeTenant } from "../support/client.ts";
import { newPath, register, until } from "../support/receiver.ts";

// A change that changes nothing writes nothing: a client that sends what it has again and again disturbs nobody.

const count = (sql: string, accountId: string) => env.DB.prepare(sql).bind(accountId).first<number>("count");
const written = async (accountId: string) => [
  await count("SELECT count(*) AS count FROM events WHERE account_id = ?", accountId),
  await count("SELECT count(*) AS count FROM audit WHERE account_id = ?", accountId),
];

const versionOf = (keyId: string) =>
  env.DB.prepare("SELECT version, pushed_version AS pushed, revision FROM api_keys WHERE id = ?")
    .bind(keyId)
    .first<{ version: number; pushed: number; revision: string }>();

describe.each<[string, string, object, object[], object]>([
  [
    "A user",
    "/users",
    { name: "Ada", email: "Ada@Example.com", role: "viewer" },
    [{}, { name: "Ada" }, { email: "Ada@Example.com", role: "viewer", status: "active" }],
    { email: "ada@example.com" },
  ],
  [
    "A task",
    "/tasks",
    { title: "x", description: "", labels: ["b", "a"], due_at: "2030-01-01T00:00:00Z", status: "done" },
    [
      { due_at: "2030-01-01T02:00:00.000+02:00" },
      { due_at: "2029-12-31t19:00:00-05:00", labels: ["b", "a"], status: "done" },
      { description: null, assignee_id: null, title: "x", priority: "normal" },
    ],
    { labels: ["a", "b"] },
  ],
  [
    "A key",
    "/keys",
    { name: "x", scopes: ["tasks:read", "users:read"], expires_at: "2090-01-01T00:00:00Z", allowed_ips: [] },
    [
      { scopes: ["users:read", "tasks:read"] },
      { status: "active", allowed_ips: null, overlap_ends_at: null },
      { name: "x", expires_at: "2090-01-01T01:00:00+01:00", hourly_limit: 5000 },
    ],
    { hourly_limit: 4999 },
  ],
  [
    "A webhook",
    "/webhooks",
    { url: "https://hooks.acme.dev/", event_types: ["task.created", "task.updated"] },
    [
      { status: "active" },
      { description: null, event_types: ["task.created", "task.updated", "task.created"] },
      { url: "https://hooks.acme.dev/" },
    ],
    { event_types: ["task.created"] },
  ],
])("%s", (_, list, content, same, other) => {
  it("stays as it is if a PATCH changes nothing: the same body and tag, no event, nothing in the audit log", async () => {
    const { key, accountId } = await makeTenant();
    const path = (await call("POST", `/api/v1${list}`, { key, body: content })).headers.get("Location") ?? "";
    const before = await call("GET", path, { key });
    const stored = await written(accountId);
    for (const body of same) {
      const answer = await call("PATCH", path, { key, body, "If-Match": before.headers.get("ETag") });
      expect([answer.status, answer.body, answer.headers.get("ETag")], JSON.stringify(body)).toEqual([
        200,
        before.body,
        before.headers.get("ETag"),
      ]);
    }
    expect(await written(accountId)).toEqual(stored);
    expect((await call("GET", path, { key, "If-None-Match": before.headers.get("ETag") })).status).toBe(304);
    const changed = await call("PATCH", path, { key, body: { ...same[0], ...other } });
    expect(changed.body.updated_at > before.body.updated_at).toBe(true);
    expect(changed.headers.get("ETag")).not.toBe(before.headers.get("ETag"));
    expect(await written(accountId)).not.toEqual(stored);
  });

  it("is still guarded by If-Match if a PATCH changes nothing", async () => {
    const { key } = await makeTenant();
    const path = (await call("POST", `/api/v1${list}`, { key, body: content })).headers.get("Location") ?? "";
    expect((await call("PATCH", path, { key, body: same[1], "If-Match": '"other"' })).status).toBe(412);
  });
});

describe("A key that a PATCH does not change", () => {
  const changing = (accountId: string, onPush: () => void) => {
    const guards = new Proxy(env.KEY_GUARD, {
      get: (target, name) => {
        if (name !== "getByName") return Reflect.get(target, name);
        return (id: string) => {
          const guard = target.getByName(id);
          return {
            configuration: () => guard.configuration(),
            configure: (config: never) => {
              onPush();
              return guard.configure(config);
            },
          };
        };
      },
    }) as unknown as Guards;
    return { db, activity, now: Date.now(), actor: operatorOn(accountId), commit: commitTo({ db }), guards };
  };

  it("gets no version and is not pushed to its guard, unless an earlier push is not confirmed", async () => {
    const { accountId } = await makeTenant();
    const { keyId } = await makeKey(accountId, { hourlyLimit: 100 });
    let pushes = 0;
    const writing = changing(accountId, () => pushes++);
    const patch = (hourlyLimit: number) => changeKey(writing, keyId, { hourlyLimit, state: "active" }, always);
    await patch(50);
    const before = await versionOf(keyId);
    expect(pushes).toBe(1);
    await patch(50);
    expect([await versionOf(keyId), pushes]).toEqual([before, 1]);
    await env.DB.prepare("UPDATE api_keys SET pushed_version = pushed_version - 1 WHERE id = ?").bind(keyId).run();
    await patch(50);
    expect([await versionOf(keyId), pushes]).toEqual([before, 2]);
  });

  it("grants nothing, so a narrower key may send its values back", async () => {
    const { accountId, key } = await makeTenant();
    const { key: narrow } = await makeKey(accountId, { scopes: ["keys:write", "tasks:read"], hourlyLimit: 10 });
    const { keyId } = await makeKey(accountId, { scopes: ["tasks:read"], hourlyLimit: 100 });
    const patch = (hourly_limit: number) => call("PATCH", `/api/v1/keys/${keyId}`, { key: narrow, body: { hourly_limit } });
    expect((await patch(100)).status).toBe(200);
    expect((await patch(99)).body.code).toBe("forbidden");
    expect((await call("GET", `/api/v1/keys/${keyId}`, { key })).body.hourly_limit).toBe(100);
  });

  it("stays as it is if the overlap that is to end is over already", async () => {
    const { accountId, key } = await makeTenant();
    const { keyId } = await makeKey(accountId);
    await call("POST", `/api/v1/keys/${keyId}/rotate`, { key, body: { overlap_seconds: 60 } });
    await env.DB.prepare("UPDATE api_keys SET overlap_ends_at = ? WHERE id = ?")
      .bind(Date.now() - 1000, keyId)
      .run();
    const before = await versionOf(keyId);
    expect((await call("PATCH", `/api/v1/keys/${keyId}`, { key, body: { overlap_ends_at: null } })).body.overlap_ends_at).toBeNull();
    expect(await versionOf(keyId)).toEqual(before);
  });
});

it("A webhook that fails is not reset by being enabled, as it is enabled already", async () => {
  const { key, accountId } = await makeTenant();
  const { id } = await register(key, { event_types: ["task.created"] }, newPath("fail"));
  await call("POST", "/api/v1/tasks", { key, body: { title: "x" } });
  const read = async () => (await call("GET", `/api/v1/webhooks/${id}`, { key })).body;
  const failing = await until(read, ({ status }) => status === "failing");
  const stored = await written(accountId);
  expect((await call("PATCH", `/api/v1/webhooks/${id}`, { key, body: { status: "active" } })).body).toEqual(failing);
  expect(await written(accountId)).toEqual(stored);
});

describe("A form that is sent as it was shown", () => {
  it("of a key writes nothing", async () => {
    const { accountId } = await makeTenant();
    const { keyId } = await makeKey(accountId, { scopes: ["tasks:read"], hourlyLimit: 7 });
    const { get, post } = browse(accountId);
    const [before, stored] = [await versionOf(keyId), await written(accountId)];
    const revision = hidden((await get(`/keys/${keyId}`)).text, "revision");
    const same = { name: "Test key", scopes: ["tasks:read"], hourly_limit: "7", allowed_ips: "", expires_at: "", revision };
    expect((await post(`/keys/${keyId}`, same)).status).toBe(303);
    expect((await post(`/keys/${keyId}/enable`)).status).toBe(303);
    expect([await versionOf(keyId), await written(accountId)]).toEqual([before, stored]);
    expect((await post(`/keys/${keyId}`, { ...same, hourly_limit: "8" })).status).toBe(303);
    expect(await written(accountId)).not.toEqual(stored);
  });

  it("of a webhook writes nothing", async () => {
    const { accountId, key } = await makeTenant();
    const made = await register(key, { event_types: ["task.created"], description: "Chat" });
    const { get, post } = browse(accountId);
    const stored = await written(accountId);
    const page = (await get(`/webhooks/${made.id}`)).text;
    const { url } = (await call("GET", `/api/v1/webhooks/${made.id}`, { key })).body;
    const same = { url, description: "Chat", event_types: ["task.created"], revision: hidden(page, "revision") };
    expect((await post(`/webhooks/${made.id}`, same)).status).toBe(303);
    expect((await post(`/webhooks/${made.id}`, same)).status).toBe(303);
    expect(await written(accountId)).toEqual(stored);
  });
});
