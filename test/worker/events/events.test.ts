import { env } from "cloudflare:workers";
import { Validator } from "@cfworker/json-schema";
import { describe, expect, it } from "vitest";
import { hashOf } from "../../../src/crypto/hash.ts";
import { dayMs, minuteMs } from "../../../src/time/clock.ts";
import { testEvent } from "../../../src/webhooks/events.ts";
import { commitEvents } from "../../../src/webhooks/write-events.ts";
import { call, cron, db, makeKey, makeTenant } from "../support/client.ts";
import { revokeOtherKeyRows } from "../support/key-rows.ts";
import { receivedAt, register, verifyRequest, waitForRequest, waitForRequests } from "../support/receiver.ts";
import { clearPreviousValues, countEvents, readEventRows } from "../support/webhook-rows.ts";

/** Inserts `count` copies of a key. The copies expire at `expiresAt`. */
const insertExpiringCopies = (keyId: string, count: number, expiresAt: number) =>
  env.DB.prepare(
    `INSERT INTO api_keys
        (id, account_id, name, last4, secret_hash, scopes, state, hourly_limit, allowed_ips, expires_at, version, pushed_version, revision,
          created_at, updated_at)
    WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ?)
    SELECT id || n, account_id, name, last4, secret_hash, scopes, state, hourly_limit, allowed_ips, ?, 1, 1, revision, 1, 1
    FROM api_keys, counted WHERE id = ?`,
  )
    .bind(count, expiresAt, keyId)
    .run();

const insertTaskCopies = (taskId: string, count: number) =>
  env.DB.prepare(
    `INSERT INTO tasks
      SELECT 'tsk_' || printf('%032x', made.value), account_id, title, description, search_text, status, priority, assignee_id, labels,
        due_at, completed_at, revision, created_at, updated_at
      FROM tasks, json_each(?) AS made WHERE tasks.id = ?`,
  )
    .bind(JSON.stringify(Array.from({ length: count }, (_, index) => index)), taskId)
    .run();

const countUnassignedTasks = (accountId: string) =>
  env.DB.prepare("SELECT count(*) AS count FROM tasks WHERE account_id = ? AND assignee_id IS NULL").bind(accountId).first<number>("count");

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

it("Deleting a user creates the right task events even while the tasks are changed and deleted", async () => {
  const { key, accountId } = await makeTenant();
  const user = (await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } })).body.id;
  const tasks: string[] = [];
  for (let index = 0; index < 12; index++)
    tasks.push((await call("POST", "/api/v1/tasks", { key, body: { title: `Task ${index}`, assignee_id: user } })).body.id);
  await Promise.all([
    call("DELETE", `/api/v1/users/${user}`, { key }),
    ...tasks.slice(0, 4).map((id) => call("DELETE", `/api/v1/tasks/${id}`, { key })),
    ...tasks.slice(4, 8).map((id) => call("PATCH", `/api/v1/tasks/${id}`, { key, body: { title: "Changed", assignee_id: null } })),
  ]);
  const events = (await call("GET", "/api/v1/events?order=asc&limit=100", { key })).body.data as { type: string; data: { id: string } }[];
  expect(events.filter(({ type }) => type === "user.deleted")).toHaveLength(1);
  const stored = (await readEventRows(accountId)).map(({ type, data }) => ({ type, data: JSON.parse(String(data)) }));
  for (const id of tasks.slice(0, 4)) {
    expect(events.filter(({ type, data }) => type === "task.deleted" && data.id === id)).toHaveLength(1);
    const ofTask = stored.filter(({ data }) => data.id === id);
    const assigneeAtEnd = ofTask.find(({ type }) => type === "task.deleted")?.data.assignee_id;
    // If a task was unassigned before its deletion, there must be an update event. If the task was still assigned at its deletion, there
    // must be no update event.
    expect(ofTask.some(({ type }) => type === "task.updated")).toBe(assigneeAtEnd === null);
  }
});

describe("The `previous` member of an event", () => {
  const updates = async (key: string, type: string) =>
    (await call("GET", `/api/v1/events?type=${type}&order=asc&limit=100`, { key })).body.data as {
      id: string;
      data: object;
      previous: object;
    }[];

  it.each<[string, string, string, object, object, object]>([
    ["a user", "/users", "user.updated", { name: "Ada", email: "ada@example.com" }, { role: "admin", name: "Ada" }, { role: "member" }],
    [
      "a task",
      "/tasks",
      "task.updated",
      { title: "x", labels: ["a"], due_at: "2030-01-01T00:00:00Z" },
      { status: "done", labels: ["a", "b"], due_at: null },
      { status: "todo", labels: ["a"], due_at: "2030-01-01T00:00:00.000Z", completed_at: null },
    ],
    [
      "a key",
      "/keys",
      "key.updated",
      { name: "x" },
      { status: "disabled", allowed_ips: ["203.0.113.7"] },
      { status: "active", allowed_ips: [] },
    ],
  ])("has the former values of %s in `GET /events` and in webhook requests", async (_, list, type, content, patch, formerValues) => {
    const { key } = await makeTenant();
    const { path, secret } = await register(key, { event_types: [type] });
    const { body: created, headers } = await call("POST", `/api/v1${list}`, { key, body: content });
    const { body: changed } = await call("PATCH", headers.get("Location") ?? "", { key, body: patch });
    const previous = { ...formerValues, updated_at: created.updated_at };
    const [event] = await updates(key, type);
    expect(event?.previous).toEqual(previous);
    expect((await call("GET", `/api/v1/events/${event?.id}`, { key })).body.previous).toEqual(previous);
    expect(verifyRequest(secret, await waitForRequest(path))).toMatchObject({
      type,
      data: { id: created.id, updated_at: changed.updated_at },
      previous,
    });
  });

  it("is the same in a redelivery", async () => {
    const { key } = await makeTenant();
    const { id, path } = await register(key, { event_types: ["task.updated"] });
    const { headers } = await call("POST", "/api/v1/tasks", { key, body: { title: "One" } });
    await call("PATCH", headers.get("Location") ?? "", { key, body: { title: "Two" } });
    const [delivery] = (await call("GET", `/api/v1/webhooks/${id}/deliveries`, { key })).body.data;
    await call("POST", `/api/v1/deliveries/${delivery.id}/redeliver`, { key });
    const [first, second] = await waitForRequests(path, 2);
    expect(JSON.parse(first?.body ?? "{}").previous).toMatchObject({ title: "One" });
    expect(second?.body).toBe(first?.body);
  });

  it("has the values of the version before, for each of several concurrent changes", async () => {
    const { key } = await makeTenant();
    const { body: created, headers } = await call("POST", "/api/v1/tasks", { key, body: { title: "0" } });
    const path = headers.get("Location") ?? "";
    await Promise.all(Array.from({ length: 6 }, (_, n) => call("PATCH", path, { key, body: { title: `${n + 1}` } })));
    let last = { title: created.title, updated_at: created.updated_at };
    for (const { data, previous } of await updates(key, "task.updated")) {
      expect(previous).toEqual(last);
      const { title, updated_at } = data as typeof last;
      last = { title, updated_at };
    }
    expect(last.title).not.toBe("0");
  });

  it("has the assignee that a task lost when the user was deleted", async () => {
    const { key } = await makeTenant();
    const user = (await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } })).body.id;
    const { body: task } = await call("POST", "/api/v1/tasks", { key, body: { title: "x", assignee_id: user } });
    await call("DELETE", `/api/v1/users/${user}`, { key });
    expect((await updates(key, "task.updated"))[0]?.previous).toEqual({ assignee_id: user, updated_at: task.updated_at });
  });

  it("has no secret after a rotation and after the end of its overlap", async () => {
    const { key, accountId } = await makeTenant();
    const { keyId, key: oldSecret } = await makeKey(accountId);
    const { body: rotated } = await call("POST", `/api/v1/keys/${keyId}/rotate`, { key, body: { overlap_seconds: 600 } });
    await call("PATCH", `/api/v1/keys/${keyId}`, { key, body: { overlap_ends_at: null } });
    const stored = JSON.stringify(await readEventRows(accountId));
    for (const secret of [oldSecret, rotated.secret_key]) {
      expect(stored).not.toContain(secret.slice(21, 50));
      expect(stored).not.toContain(hashOf(secret));
    }
    expect(Object.keys((await updates(key, "key.updated"))[0]?.previous ?? {}).toSorted()).toEqual(["overlap_ends_at", "updated_at"]);
  });

  it("is null in an event that an earlier release stored without it", async () => {
    const { key, accountId } = await makeTenant();
    const { headers } = await call("POST", "/api/v1/tasks", { key, body: { title: "x" } });
    await call("PATCH", headers.get("Location") ?? "", { key, body: { title: "y" } });
    await clearPreviousValues(accountId);
    expect((await updates(key, "task.updated"))[0]?.previous).toBeNull();
  });

  it("has example values in a test event of an update type", async () => {
    const { key } = await makeTenant();
    const { id, path } = await register(key, { event_types: ["webhook.test"] });
    await call("POST", `/api/v1/webhooks/${id}/test`, { key, body: { event_type: "task.updated" } });
    const request = await waitForRequest(path);
    const types = (await call("GET", "/api/v1/event-types", { key })).body.data;
    const { example } = types.find(({ type }: { type: string }) => type === "task.updated");
    expect(example.previous.status).toBe("in_progress");
    expect(JSON.parse(request.body).previous).toEqual(example.previous);
  });
});

describe("The service", () => {
  it("delivers rate limit events without waiting for the sweep", async () => {
    const { key, accountId } = await makeTenant();
    const { path, secret } = await register(key, { event_types: ["rate_limit.warning", "rate_limit.reached"] });
    const small = await makeKey(accountId, { hourlyLimit: 5 });
    for (let used = 0; used < 6; used++) await call("GET", "/api/v1/me", { key: small.key });
    const requests = await waitForRequests(path, 2);
    const events = requests.map((request) => verifyRequest(secret, request));
    expect(events.toSorted((a, b) => String(b.type).localeCompare(String(a.type)))).toMatchObject([
      { type: "rate_limit.warning", data: { key_id: small.keyId, used: 4, limit: 5 } },
      { type: "rate_limit.reached", data: { key_id: small.keyId, used: 5, limit: 5 } },
    ]);
  });

  it("creates one event per expiry for a key that expires within seven days", async () => {
    const { key, accountId } = await makeTenant();
    const in8Days = Date.now() + 8 * dayMs;
    const { keyId } = await makeKey(accountId, { expiresAt: in8Days });
    const expiring = async () => (await call("GET", "/api/v1/events?type=key.expiring&order=asc", { key })).body.data;
    await cron();
    expect(await expiring()).toEqual([]);
    for (let minute = 0; minute < 3; minute++) await cron(Date.now() + dayMs + (minute + 1) * minuteMs);
    expect(await expiring()).toMatchObject([{ data: { id: keyId, expires_at: new Date(in8Days).toISOString() } }]);
    await call("PATCH", `/api/v1/keys/${keyId}`, { key, body: { expires_at: new Date(in8Days + dayMs).toISOString() } });
    await cron(Date.now() + 3 * dayMs);
    expect(await expiring()).toHaveLength(2);
  });

  it("creates events of expiring keys for all accounts in turn, so that no account waits for another", async () => {
    const [many, few] = [await makeTenant(), await makeTenant()];
    const tomorrow = Date.now() + dayMs;
    await insertExpiringCopies(many.keyId, 300, tomorrow);
    const { keyId } = await makeKey(few.accountId, { expiresAt: tomorrow + dayMs });
    await cron();
    const { data } = (await call("GET", "/api/v1/events?type=key.expiring", { key: few.key })).body;
    expect(data).toMatchObject([{ data: { id: keyId } }]);
    await revokeOtherKeyRows(many.accountId, many.keyId);
  });

  it("delivers an event of a key that was reported as leaked", async () => {
    const { key, accountId } = await makeTenant();
    const { path, secret } = await register(key, { event_types: ["key.revoked"] });
    const leaked = await makeKey(accountId);
    await call("POST", "/api/v1/keys/revoke-leaked", { body: { key: leaked.key } });
    expect(verifyRequest(secret, await waitForRequest(path))).toMatchObject({
      type: "key.revoked",
      data: { id: leaked.keyId, status: "revoked" },
    });
  });
});

describe("The catalogue of event types", () => {
  it("has every type with a schema that matches its example and real events", async () => {
    const { key } = await makeTenant();
    const { body: task } = await call("POST", "/api/v1/tasks", { key, body: { title: "Real" } });
    await call("PATCH", `/api/v1/tasks/${task.id}`, { key, body: { title: "Changed", status: "done" } });
    const { data } = (await call("GET", "/api/v1/event-types", { key })).body;
    // A deployment that adds its own resources has additional event types.
    expect(typesIn(data)).toEqual(
      expect.arrayContaining([
        "user.created",
        "user.updated",
        "user.deleted",
        "task.created",
        "task.updated",
        "task.completed",
        "task.deleted",
        "key.created",
        "key.updated",
        "key.rotated",
        "key.revoked",
        "key.expiring",
        "rate_limit.warning",
        "rate_limit.reached",
        "webhook.disabled",
        "webhook.test",
        "member.invited",
        "member.joined",
        "member.removed",
      ]),
    );
    for (const { schema, example } of data) expect(new Validator(schema, "2020-12", false).validate(example).errors).toEqual([]);
    for (const event of (await call("GET", "/api/v1/events", { key })).body.data) {
      const { schema } = data.find(({ type }: { type: string }) => type === event.type);
      const body = { type: event.type, timestamp: event.created_at, data: event.data, ...(event.previous && { previous: event.previous }) };
      expect(new Validator(schema, "2020-12", false).validate(body).errors).toEqual([]);
    }
  });
});

it("Deleting a user with a thousand long tasks unassigns each task and creates an event for each task", async () => {
  const { key, accountId } = await makeTenant();
  const user = (await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } })).body.id;
  const first = (await call("POST", "/api/v1/tasks", { key, body: { title: "First", description: "é".repeat(5000), assignee_id: user } }))
    .body.id;
  await insertTaskCopies(first, 999);
  expect((await call("DELETE", `/api/v1/users/${user}`, { key })).status).toBe(204);
  expect(await countUnassignedTasks(accountId)).toBe(1000);
  expect(await countEvents(accountId, "task.updated")).toBe(1000);
});
