import { describe, expect, it } from "vitest";
import { commitEvents } from "../../../src/outbox/write-events.ts";
import { testEvent } from "../../../src/webhooks/subscriptions/events.ts";
import { call, db, makeKey, makeTenant } from "../support/client.ts";
import { receivedAt, register, verifyRequest, waitForRequest, waitForRequests } from "../support/receiver.ts";

const typesIn = (events: { type: string }[]) => events.map(({ type }) => type);

describe("An event", () => {
  it("is delivered once to a webhook that is subscribed to it, with a signature that the public package verifies", async () => {
    const { key } = await makeTenant();
    const { path, secret } = await register(key, { event_types: ["task.created"] });
    const { body: task, headers } = await call("POST", "/api/v1/tasks", { key, body: { title: "Tell" } });
    const request = await waitForRequest(path);
    expect(verifyRequest(secret, request)).toEqual({ type: "task.created", timestamp: task.created_at, data: task });
    expect(request.headers["content-type"]).toBe("application/json");
    const eventId = request.headers["webhook-id"];
    expect((await call("GET", `/api/v1/events/${eventId}`, { key })).body).toEqual({
      id: eventId,
      type: "task.created",
      created_at: task.created_at,
      request_id: headers.get("X-Request-Id"),
      data: task,
      previous: null,
    });
    await call("PATCH", `/api/v1/tasks/${task.id}`, { key, body: { title: "Not subscribed" } });
    // If the webhook were subscribed to updates, the update event would arrive before the event about the second task.
    await call("POST", "/api/v1/tasks", { key, body: { title: "Second" } });
    const requests = await waitForRequests(path, 2);
    expect(requests.map((each) => verifyRequest(secret, each))).toMatchObject([
      { type: "task.created", data: { title: "Tell" } },
      { type: "task.created", data: { title: "Second" } },
    ]);
  });

  it("is created by every unsafe operation that returns a 2xx status", async () => {
    const { key, accountId } = await makeTenant();
    const create = async (path: string, body: object) => (await call("POST", path, { key, body })).body.id;
    const user = await create("/api/v1/users", { name: "Ada", email: "ada@example.com" });
    await call("PATCH", `/api/v1/users/${user}`, { key, body: { name: "Ada L." } });
    const task = await create("/api/v1/tasks", { title: "One", assignee_id: user });
    await call("PATCH", `/api/v1/tasks/${task}`, { key, body: { status: "done" } });
    await call("DELETE", `/api/v1/users/${user}`, { key });
    await call("DELETE", `/api/v1/tasks/${task}`, { key });
    const other = await create("/api/v1/keys", { name: "Other" });
    await call("PATCH", `/api/v1/keys/${other}`, { key, body: { name: "Another" } });
    await call("POST", `/api/v1/keys/${other}/rotate`, { key, body: {} });
    await call("DELETE", `/api/v1/keys/${other}`, { key });
    const { body } = await call("GET", "/api/v1/events?order=asc&limit=100", { key });
    expect(typesIn(body.data)).toEqual([
      "key.created",
      "user.created",
      "user.updated",
      "task.created",
      "task.updated",
      "task.completed",
      "task.updated",
      "user.deleted",
      "task.deleted",
      "key.created",
      "key.updated",
      "key.rotated",
      "key.revoked",
    ]);
    const { data } = body.data.findLast(({ type }: { type: string }) => type === "task.updated");
    expect(data.assignee_id).toBeNull();
    expect(JSON.stringify(body)).not.toContain("secret");
    expect(accountId).toMatch(/^acc_/);
  });

  it("is found by any of several types, if the key may read all of them", async () => {
    const { key, accountId } = await makeTenant();
    await call("POST", "/api/v1/tasks", { key, body: { title: "x", status: "done" } });
    await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } });
    const find = async (query: string) => typesIn((await call("GET", `/api/v1/events?order=asc&${query}`, { key })).body.data);
    expect(await find("type=user.created&type=task.completed")).toEqual(["task.completed", "user.created"]);
    expect(await find("type=task.deleted&type=task.created")).toEqual(["task.created"]);
    const { key: narrow } = await makeKey(accountId, { scopes: ["webhooks:read", "tasks:read"] });
    const denied = await call("GET", "/api/v1/events?type=task.created&type=user.created", { key: narrow });
    expect([denied.status, denied.body.code]).toEqual([403, "forbidden"]);
  });

  it("is not missed by a reader that continues from a cursor, even if the event is stored late", async () => {
    const { key, accountId } = await makeTenant();
    const storeEvent = (createdAt: number) => commitEvents({ db }, [testEvent({ accountId, id: `at ${createdAt}` }, createdAt)]);
    const now = Date.now();
    const read = async (query: string) => (await call("GET", `/api/v1/events?type=webhook.test&order=asc${query}`, { key })).body;
    for (const createdAt of [now, now + 5]) await storeEvent(createdAt);
    const firstPage = await read("&limit=1");
    await storeEvent(now - 60_000);
    const rest = await read(`&limit=100&cursor=${encodeURIComponent(firstPage.next_cursor)}`);
    expect(rest.data.map(({ data }: { data: { webhook_id: string } }) => data.webhook_id)).toEqual([`at ${now + 5}`, `at ${now - 60_000}`]);
    const newestFirst = (await call("GET", "/api/v1/events?type=webhook.test", { key })).body.data;
    expect(newestFirst.map(({ id }: { id: string }) => id)).toEqual([...firstPage.data, ...rest.data].map(({ id }) => id).toReversed());
  });

  it("is created once for each change that succeeds, and not for a denied change", async () => {
    const { key } = await makeTenant();
    const task = (await call("POST", "/api/v1/tasks", { key, body: { title: "One" } })).body;
    const path = `/api/v1/tasks/${task.id}`;
    const oldEtag = (await call("GET", path, { key })).headers.get("ETag") ?? "";
    await call("PATCH", path, { key, body: { title: "Two" } });
    expect((await call("PATCH", path, { key, body: { title: "Three" }, "If-Match": oldEtag })).status).toBe(412);
    expect((await call("POST", "/api/v1/tasks", { key, body: { title: "", status: "todo" } })).status).toBe(422);
    expect((await call("POST", "/api/v1/tasks", { key, body: { title: "x", assignee_id: "usr_nobody" } })).status).toBe(422);
    const patches = await Promise.all(
      Array.from({ length: 10 }, (_, index) => call("PATCH", path, { key, body: { title: `At once ${index}` }, "If-Match": "*" })),
    );
    expect(patches.every(({ status }) => status === 200)).toBe(true);
    const events = (await call("GET", "/api/v1/events?type=task.updated&order=asc&limit=100", { key })).body.data;
    expect(events).toHaveLength(11);
    const titles = events.slice(1).map(({ data }: { data: { title: string } }) => data.title);
    expect(new Set(titles).size).toBe(10);
  });

  it("is delivered to every subscribed webhook of its account and to no other account", async () => {
    const [tenant, stranger] = [await makeTenant(), await makeTenant()];
    const webhooks = [await register(tenant.key), await register(tenant.key, { event_types: ["task.created", "user.created"] })];
    const foreign = await register(stranger.key);
    await call("POST", "/api/v1/tasks", { key: tenant.key, body: { title: "Fan out" } });
    for (const { path } of webhooks) await waitForRequest(path);
    expect(await receivedAt(foreign.path)).toEqual([]);
  });
});
