import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { always } from "../../../src/db/optimistic-locking.ts";
import type { Guards } from "../../../src/guard/guards.ts";
import { changeKey } from "../../../src/keys/change-key.ts";
import { commitTo } from "../../../src/outbox/outbox.ts";
import { browse, hidden } from "../support/browse.ts";
import { call, db, makeKey, makeTenant, readingLog } from "../support/client.ts";
import { readKeyRow, updateKeyRow } from "../support/key-rows.ts";
import { countAuditRows } from "../support/log-rows.ts";
import { newPath, register, until } from "../support/receiver.ts";
import { countEvents } from "../support/webhook-rows.ts";

// If a resource already has the requested values, a request to change the resource has no effect. A request without effect creates no
// events, no audit log entries and no versions, even if a client repeats the request.

/** Returns the number of an account's events, and the number of its audit log entries. */
const countEventsAndEntries = async (accountId: string) => [await countEvents(accountId), await countAuditRows(accountId)];

const readVersion = async (keyId: string) => {
  const { version, pushed_version, revision } = await readKeyRow(keyId);
  return { version, pushed_version, revision };
};

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
  it("keeps its body and its ETag, and gets no event and no audit log entry, if a PATCH changes nothing", async () => {
    const { key, accountId } = await makeTenant();
    const path = (await call("POST", `/api/v1${list}`, { key, body: content })).headers.get("Location") ?? "";
    const before = await call("GET", path, { key });
    const counts = await countEventsAndEntries(accountId);
    for (const body of same) {
      const response = await call("PATCH", path, { key, body, "If-Match": before.headers.get("ETag") });
      expect([response.status, response.body, response.headers.get("ETag")], JSON.stringify(body)).toEqual([
        200,
        before.body,
        before.headers.get("ETag"),
      ]);
    }
    expect(await countEventsAndEntries(accountId)).toEqual(counts);
    expect((await call("GET", path, { key, "If-None-Match": before.headers.get("ETag") })).status).toBe(304);
    const changed = await call("PATCH", path, { key, body: { ...same[0], ...other } });
    expect(changed.body.updated_at > before.body.updated_at).toBe(true);
    expect(changed.headers.get("ETag")).not.toBe(before.headers.get("ETag"));
    expect(await countEventsAndEntries(accountId)).not.toEqual(counts);
  });

  it("rejects a PATCH that changes nothing with 412 if If-Match names another version", async () => {
    const { key } = await makeTenant();
    const path = (await call("POST", `/api/v1${list}`, { key, body: content })).headers.get("Location") ?? "";
    expect((await call("PATCH", path, { key, body: same[1], "If-Match": '"other"' })).status).toBe(412);
  });
});

describe("A key that a PATCH does not change", () => {
  /** Returns the context for a key change. The guards of this context call `onPush` before each push. */
  const changeContext = (accountId: string, onPush: () => void) => {
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
    return { ...readingLog(accountId), commit: commitTo({ db }), guards };
  };

  it("gets no new version and no push, unless an earlier push is not confirmed", async () => {
    const { accountId } = await makeTenant();
    const { keyId } = await makeKey(accountId, { hourlyLimit: 100 });
    const onPush = vi.fn();
    const context = changeContext(accountId, onPush);
    const patch = (hourlyLimit: number) => changeKey(context, keyId, { hourlyLimit, state: "active" }, always);
    await patch(50);
    const before = await readVersion(keyId);
    expect(onPush).toHaveBeenCalledTimes(1);
    await patch(50);
    expect(await readVersion(keyId)).toEqual(before);
    expect(onPush).toHaveBeenCalledTimes(1);
    await updateKeyRow(keyId, { pushed_version: Number(before.pushed_version) - 1 });
    await patch(50);
    expect(await readVersion(keyId)).toEqual(before);
    expect(onPush).toHaveBeenCalledTimes(2);
  });

  it("accepts its own values from a key with fewer permissions, because the values grant nothing", async () => {
    const { accountId, key } = await makeTenant();
    const { key: narrowKey } = await makeKey(accountId, { scopes: ["keys:write", "tasks:read"], hourlyLimit: 10 });
    const { keyId } = await makeKey(accountId, { scopes: ["tasks:read"], hourlyLimit: 100 });
    const patch = (hourly_limit: number) => call("PATCH", `/api/v1/keys/${keyId}`, { key: narrowKey, body: { hourly_limit } });
    expect((await patch(100)).status).toBe(200);
    expect((await patch(99)).body.code).toBe("forbidden");
    expect((await call("GET", `/api/v1/keys/${keyId}`, { key })).body.hourly_limit).toBe(100);
  });

  it("keeps its version if the PATCH ends an overlap that has already ended", async () => {
    const { accountId, key } = await makeTenant();
    const { keyId } = await makeKey(accountId);
    await call("POST", `/api/v1/keys/${keyId}/rotate`, { key, body: { overlap_seconds: 60 } });
    await updateKeyRow(keyId, { overlap_ends_at: Date.now() - 1000 });
    const before = await readVersion(keyId);
    expect((await call("PATCH", `/api/v1/keys/${keyId}`, { key, body: { overlap_ends_at: null } })).body.overlap_ends_at).toBeNull();
    expect(await readVersion(keyId)).toEqual(before);
  });
});

it("A failing webhook keeps its status if a PATCH enables it, because it is already enabled", async () => {
  const { key, accountId } = await makeTenant();
  const { id } = await register(key, { event_types: ["task.created"] }, newPath("fail"));
  await call("POST", "/api/v1/tasks", { key, body: { title: "x" } });
  const read = async () => (await call("GET", `/api/v1/webhooks/${id}`, { key })).body;
  const failing = await until(read, ({ status }) => status === "failing");
  const counts = await countEventsAndEntries(accountId);
  expect((await call("PATCH", `/api/v1/webhooks/${id}`, { key, body: { status: "active" } })).body).toEqual(failing);
  expect(await countEventsAndEntries(accountId)).toEqual(counts);
});

it("The form of a key writes nothing if its fields are unchanged", async () => {
  const { accountId } = await makeTenant();
  const { keyId } = await makeKey(accountId, { scopes: ["tasks:read"], hourlyLimit: 7 });
  const { get, post } = browse(accountId);
  const [version, counts] = [await readVersion(keyId), await countEventsAndEntries(accountId)];
  const revision = hidden((await get(`/keys/${keyId}`)).text, "revision");
  const unchanged = { name: "Test key", scopes: ["tasks:read"], hourly_limit: "7", allowed_ips: "", expires_at: "", revision };
  expect((await post(`/keys/${keyId}`, unchanged)).status).toBe(303);
  expect((await post(`/keys/${keyId}/enable`)).status).toBe(303);
  expect([await readVersion(keyId), await countEventsAndEntries(accountId)]).toEqual([version, counts]);
  expect((await post(`/keys/${keyId}`, { ...unchanged, hourly_limit: "8" })).status).toBe(303);
  expect(await countEventsAndEntries(accountId)).not.toEqual(counts);
});

it("The form of a webhook writes nothing if its fields are unchanged", async () => {
  const { accountId, key } = await makeTenant();
  const { id } = await register(key, { event_types: ["task.created"], description: "Chat" });
  const { get, post } = browse(accountId);
  const counts = await countEventsAndEntries(accountId);
  const page = (await get(`/webhooks/${id}`)).text;
  const { url } = (await call("GET", `/api/v1/webhooks/${id}`, { key })).body;
  const unchanged = { url, description: "Chat", event_types: ["task.created"], revision: hidden(page, "revision") };
  expect((await post(`/webhooks/${id}`, unchanged)).status).toBe(303);
  expect((await post(`/webhooks/${id}`, unchanged)).status).toBe(303);
  expect(await countEventsAndEntries(accountId)).toEqual(counts);
});
