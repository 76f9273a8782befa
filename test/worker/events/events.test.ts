import { env } from "cloudflare:workers";
import { Validator } from "@cfworker/json-schema";
import { describe, expect, it } from "vitest";
import { hashOf } from "../../../src/crypto/hash.ts";
import { dayMs, minuteMs } from "../../../src/time/clock.ts";
import { testEvent } from "../../../src/webhooks/events.ts";
import { writeEvents } from "../../../src/webhooks/write-events.ts";
import { call, cron, db, makeKey, makeTenant } from "../support/client.ts";
import { receivedAt, register, until, verified } from "../support/receiver.ts";

describe("An event", () => {
  it("reaches the webhook that wants it, signed so that the public package verifies it, and once", async () => {
    const { key } = await makeTenant();
    const { path, secret } = await register(key, { event_types: ["task.created"] });
    const { body: task, headers } = await call("POST", "/api/v1/tasks", { key, body: { title: "Tell" } });
    const requestId = headers.get("X-Request-Id");
    const [only, ...others] = await until(
      () => receivedAt(path),
      (seen) => seen.length > 0,
    );
    if (!only) throw new Error("nothing came");
    expect(others).toEqual([]);
    expect(verified(secret, only)).toEqual({ type: "task.created", timestamp: task.created_at, data: task });
    expect(only.headers["content-type"]).toBe("application/json");
    const event = (await call("GET", `/api/v1/events/${only.headers["webhook-id"]}`, { key })).body;
    expect(event).toEqual({
      id: only.headers["webhook-id"],
      type: "task.created",
      created_at: task.created_at,
      request_id: requestId,
      data: task,
      previous: null,
    });
    await call("PATCH", `/api/v1/tasks/${task.id}`, { key, body: { title: "Not wanted" } });
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(await receivedAt(path)).toHaveLength(1);
  });

  it("is left by every unsafe operation that answers 2xx", async () => {
    const { key, accountId } = await makeTenant();
    const made = async (path: string, body: object) => (await call("POST", path, { key, body })).body.id;
    const user = await made("/api/v1/users", { name: "Ada", email: "ada@example.com" });
    await call("PATCH", `/api/v1/users/${user}`, { key, body: { name: "Ada L." } });
    const task = await made("/api/v1/tasks", { title: "One", assignee_id: user });
    await call("PATCH", `/api/v1/tasks/${task}`, { key, body: { status: "done" } });
    await call("DELETE", `/api/v1/users/${user}`, { key });
    await call("DELETE", `/api/v1/tasks/${task}`, { key });
    const other = await made("/api/v1/keys", { name: "Other" });
    await call("PATCH", `/api/v1/keys/${other}`, { key, body: { name: "Another" } });
    await call("POST", `/api/v1/keys/${other}/rotate`, { key, body: {} });
    await call("DELETE", `/api/v1/keys/${other}`, { key });
    const { body } = await call("GET", "/api/v1/events?order=asc&limit=100", { key });
    expect(body.data.map(({ type }: { type: string }) => type)).toEqual([
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

  it("is found by any of several types, and the key must be allowed to read all of them", async () => {
    const { key, accountId } = await makeTenant();
    await call("POST", "/api/v1/tasks", { key, body: { title: "x", status: "done" } });
    await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } });
    const types = async (query: string) =>
      (await call("GET", `/api/v1/events?order=asc&${query}`, { key })).body.data.map(({ type }: { type: string }) => type);
    expect(await types("type=user.created&type=task.completed")).toEqual(["task.completed", "user.created"]);
    expect(await types("type=task.deleted&type=task.created")).toEqual(["task.created"]);
    const { key: narrow } = await makeKey(accountId, { scopes: ["webhooks:read", "tasks:read"] });
    const refused = await call("GET", "/api/v1/events?type=task.created&type=user.created", { key: narrow });
    expect([refused.status, refused.body.code]).toEqual([403, "forbidden"]);
  });

  it("is not missed by a reader who goes on where it was, though it was stored later than its time says", async () => {
    const { key, accountId } = await makeTenant();
    const tell = (now: number) => writeEvents({ db }, [testEvent({ accountId, id: `at ${now}` }, now)]);
    const now = Date.now();
    const read = async (query: string) => (await call("GET", `/api/v1/events?type=webhook.test&order=asc${query}`, { key })).body;
    for (const at of [now, now + 5]) await tell(at);
    const page = await read("&limit=1");
    await tell(now - 60_000);
    const rest = await read(`&limit=100&cursor=${encodeURIComponent(page.next_cursor)}`);
    expect(rest.data.map(({ data }: { data: { webhook_id: string } }) => data.webhook_id)).toEqual([`at ${now + 5}`, `at ${now - 60_000}`]);
    const newestFirst = (await call("GET", "/api/v1/events?type=webhook.test", { key })).body.data;
    expect(newestFirst.map(({ id }: { id: string }) => id)).toEqual([...page.data, ...rest.data].map(({ id }) => id).toReversed());
  });

  it("is not left by a change that was refused, or lost to another", async () => {
    const { key } = await makeTenant();
    const task = (await call("POST", "/api/v1/tasks", { key, body: { title: "One" } })).body;
    const path = `/api/v1/tasks/${task.id}`;
    const old = (await call("GET", path, { key })).headers.get("ETag") ?? "";
    await call("PATCH", path, { key, body: { title: "Two" } });
    expect((await call("PATCH", path, { key, body: { title: "Three" }, "If-Match": old })).status).toBe(412);
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

  it("goes to every webhook that wants it and to no other account's", async () => {
    const [tenant, stranger] = [await makeTenant(), await makeTenant()];
    const hooks = [await register(tenant.key), await register(tenant.key, { event_types: ["task.created", "user.created"] })];
    const foreign = await register(stranger.key);
    await call("POST", "/api/v1/tasks", { key: tenant.key, body: { title: "Fan out" } });
    for (const { path } of hooks)
      expect(
        await until(
          () => receivedAt(path),
          (seen) => seen.length > 0,
        ),
      ).toHaveLength(1);
    expect(await receivedAt(foreign.path)).toEqual([]);
  });
});

it("Deleting a user while its tasks are deleted and changed tells of each task what happened to it, and nothing after its end", async () => {
  const { key } = await makeTenant();
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
  for (const id of tasks.slice(0, 4)) {
    const types = events.filter(({ data }) => data.id === id).map(({ type }) => type);
    expect(types.filter((type) => type === "task.deleted")).toHaveLength(1);
    const { results } = await env.DB.prepare(
      "SELECT json_extract(data, '$.assignee_id') AS assignee, type FROM events WHERE json_extract(data, '$.id') = ?",
    )
      .bind(id)
      .all<{ assignee: string | null; type: string }>();
    const deletedAs = results.find(({ type }) => type === "task.deleted")?.assignee;
    // Unassigned first and then deleted, or deleted while it was assigned and so never unassigned.
    expect(results.some(({ type }) => type === "task.updated")).toBe(deletedAs === null);
  }
});

describe("The former values of what changed", () => {
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
  ])("stand beside %s in its event, in GET /events and in what webhooks are sent", async (_, list, type, content, patch, former) => {
    const { key } = await makeTenant();
    const { path, secret } = await register(key, { event_types: [type] });
    const { body: made, headers } = await call("POST", `/api/v1${list}`, { key, body: content });
    const { body: changed } = await call("PATCH", headers.get("Location") ?? "", { key, body: patch });
    const previous = { ...former, updated_at: made.updated_at };
    const [event] = await updates(key, type);
    expect(event?.previous).toEqual(previous);
    expect((await call("GET", `/api/v1/events/${event?.id}`, { key })).body.previous).toEqual(previous);
    const [sent] = await until(
      () => receivedAt(path),
      (seen) => seen.length > 0,
    );
    expect(sent && verified(secret, sent)).toMatchObject({ type, data: { id: made.id, updated_at: changed.updated_at }, previous });
  });

  it("are the same in a redelivery", async () => {
    const { key } = await makeTenant();
    const { id, path } = await register(key, { event_types: ["task.updated"] });
    const { headers } = await call("POST", "/api/v1/tasks", { key, body: { title: "One" } });
    await call("PATCH", headers.get("Location") ?? "", { key, body: { title: "Two" } });
    const [delivery] = (await call("GET", `/api/v1/webhooks/${id}/deliveries`, { key })).body.data;
    await call("POST", `/api/v1/deliveries/${delivery.id}/redeliver`, { key });
    const [first, again] = await until(
      () => receivedAt(path),
      (seen) => seen.length > 1,
    );
    expect(JSON.parse(first?.body ?? "{}").previous).toMatchObject({ title: "One" });
    expect(again?.body).toBe(first?.body);
  });

  it("follow each other: each names the version that its change was made on, though many come at once", async () => {
    const { key } = await makeTenant();
    const { body: made, headers } = await call("POST", "/api/v1/tasks", { key, body: { title: "0" } });
    const path = headers.get("Location") ?? "";
    await Promise.all(Array.from({ length: 6 }, (_, n) => call("PATCH", path, { key, body: { title: `${n + 1}` } })));
    let last = { title: made.title, updated_at: made.updated_at };
    for (const { data, previous } of await updates(key, "task.updated")) {
      expect(previous).toEqual(last);
      const { title, updated_at } = data as typeof last;
      last = { title, updated_at };
    }
    expect(last.title).not.toBe("0");
  });

  it("are of the assignee where a task has lost it with its user", async () => {
    const { key } = await makeTenant();
    const user = (await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } })).body.id;
    const { body: task } = await call("POST", "/api/v1/tasks", { key, body: { title: "x", assignee_id: user } });
    await call("DELETE", `/api/v1/users/${user}`, { key });
    expect((await updates(key, "task.updated"))[0]?.previous).toEqual({ assignee_id: user, updated_at: task.updated_at });
  });

  it("are never a secret: a key and its overlap end without one", async () => {
    const { key, accountId } = await makeTenant();
    const { keyId, key: former } = await makeKey(accountId);
    const { body: rotated } = await call("POST", `/api/v1/keys/${keyId}/rotate`, { key, body: { overlap_seconds: 600 } });
    await call("PATCH", `/api/v1/keys/${keyId}`, { key, body: { overlap_ends_at: null } });
    const { results } = await env.DB.prepare("SELECT data, previous, type FROM events WHERE account_id = ?").bind(accountId).all();
    const stored = JSON.stringify(results);
    for (const secret of [former, rotated.secret_key]) {
      expect(stored).not.toContain(secret.slice(21, 50));
      expect(stored).not.toContain(hashOf(secret));
    }
    expect(Object.keys((await updates(key, "key.updated"))[0]?.previous ?? {}).toSorted()).toEqual(["overlap_ends_at", "updated_at"]);
  });

  it("are null in an event that was stored without them", async () => {
    const { key, accountId } = await makeTenant();
    const { headers } = await call("POST", "/api/v1/tasks", { key, body: { title: "x" } });
    await call("PATCH", headers.get("Location") ?? "", { key, body: { title: "y" } });
    // As the release before stored it.
    await env.DB.prepare("UPDATE events SET previous = NULL WHERE account_id = ?").bind(accountId).run();
    expect((await updates(key, "task.updated"))[0]?.previous).toBeNull();
  });

  it("are in the test of such a type", async () => {
    const { key } = await makeTenant();
    const { id, path } = await register(key, { event_types: ["webhook.test"] });
    await call("POST", `/api/v1/webhooks/${id}/test`, { key, body: { event_type: "task.updated" } });
    const [sent] = await until(
      () => receivedAt(path),
      (seen) => seen.length > 0,
    );
    const types = (await call("GET", "/api/v1/event-types", { key })).body.data;
    const { example } = types.find(({ type }: { type: string }) => type === "task.updated");
    expect(example.previous.status).toBe("in_progress");
    expect(JSON.parse(sent?.body ?? "{}").previous).toEqual(example.previous);
  });
});

describe("The service itself makes events", () => {
  it("of a limit that is nearly used, and delivers them without waiting for the sweep", async () => {
    const { key, accountId } = await makeTenant();
    const { path, secret } = await register(key, { event_types: ["rate_limit.warning", "rate_limit.reached"] });
    const small = await makeKey(accountId, { hourlyLimit: 5 });
    for (let used = 0; used < 6; used++) await call("GET", "/api/v1/me", { key: small.key });
    const seen = await until(
      () => receivedAt(path),
      (all) => all.length === 2,
    );
    const told = seen.map((one) => verified(secret, one)).toSorted((a, b) => String(b.type).localeCompare(String(a.type)));
    expect(told).toMatchObject([
      { type: "rate_limit.warning", data: { key_id: small.keyId, used: 4, limit: 5 } },
      { type: "rate_limit.reached", data: { key_id: small.keyId, used: 5, limit: 5 } },
    ]);
  });

  it("of a key that expires within seven days, once for each expiry", async () => {
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

  it("of keys that expire, of each account in turn, so that none waits for all keys of another", async () => {
    const [many, few] = [await makeTenant(), await makeTenant()];
    const soon = Date.now() + dayMs;
    await env.DB.prepare(
      `INSERT INTO api_keys (id, account_id, name, last4, secret_hash, scopes, state, hourly_limit, allowed_ips, expires_at, version, pushed_version,
        revision, created_at, updated_at)
      WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 300)
      SELECT id || n, account_id, name, last4, secret_hash, scopes, state, hourly_limit, allowed_ips, ?, 1, 1, revision, 1, 1 FROM api_keys, counted WHERE id = ?`,
    )
      .bind(soon, many.keyId)
      .run();
    const { keyId } = await makeKey(few.accountId, { expiresAt: soon + dayMs });
    await cron();
    const { data } = (await call("GET", "/api/v1/events?type=key.expiring", { key: few.key })).body;
    expect(data).toMatchObject([{ data: { id: keyId } }]);
    await env.DB.prepare("UPDATE api_keys SET state = 'revoked' WHERE account_id = ?").bind(many.accountId).run();
  });

  it("of a key that was reported as leaked", async () => {
    const { key, accountId } = await makeTenant();
    const { path, secret } = await register(key, { event_types: ["key.revoked"] });
    const leaked = await makeKey(accountId);
    await call("POST", "/api/v1/keys/revoke-leaked", { body: { key: leaked.key } });
    const [one] = await until(
      () => receivedAt(path),
      (seen) => seen.length > 0,
    );
    expect(one && verified(secret, one)).toMatchObject({ type: "key.revoked", data: { id: leaked.keyId, status: "revoked" } });
  });
});

describe("The catalogue", () => {
  it("has every type with an example that its schema takes, and that real events are like", async () => {
    const { key } = await makeTenant();
    const { body: task } = await call("POST", "/api/v1/tasks", { key, body: { title: "Real" } });
    await call("PATCH", `/api/v1/tasks/${task.id}`, { key, body: { title: "Changed", status: "done" } });
    const { data } = (await call("GET", "/api/v1/event-types", { key })).body;
    // And every other event that an own resource may make.
    expect(data.map(({ type }: { type: string }) => type)).toEqual(
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

it("Deleting a user with a thousand long tasks leaves an event of each, and all of them without an assignee", async () => {
  const { key, accountId } = await makeTenant();
  const user = (await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } })).body.id;
  const first = (await call("POST", "/api/v1/tasks", { key, body: { title: "First", description: "é".repeat(5000), assignee_id: user } }))
    .body.id;
  await env.DB.prepare(
    `INSERT INTO tasks SELECT 'tsk_' || printf('%032x', made.value), account_id, title, description, search_text, status, priority, assignee_id, labels, due_at,
      completed_at, revision, created_at, updated_at FROM tasks, json_each(?) AS made WHERE tasks.id = ?`,
  )
    .bind(JSON.stringify(Array.from({ length: 999 }, (_, index) => index)), first)
    .run();
  expect((await call("DELETE", `/api/v1/users/${user}`, { key })).status).toBe(204);
  const count = (sql: string) => env.DB.prepare(sql).bind(accountId).first("count");
  expect(await count("SELECT count(*) AS count FROM tasks WHERE account_id = ? AND assignee_id IS NULL")).toBe(1000);
  expect(await count("SELECT count(*) AS count FROM events WHERE account_id = ? AND type = 'task.updated'")).toBe(1000);
});
