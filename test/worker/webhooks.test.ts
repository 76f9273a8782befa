import { createExecutionContext, createMessageBatch, getQueueResult } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { Validator } from "@cfworker/json-schema";
import { describe, expect, it } from "vitest";
import { dayMs, minuteMs } from "../../src/clock.ts";
import { newId } from "../../src/ids.ts";
import { consume } from "../../src/webhooks/consume.ts";
import type { WakeUp } from "../../src/webhooks/wake.ts";
import { call, cron, makeKey, makeTenant } from "./client.ts";
import { deliveriesOf, newPath, receivedAt, receiver, register, until, verified } from "./receiver.ts";

describe("An event", () => {
  it("reaches the webhook that wants it, signed so that the public package verifies it, and once", async () => {
    const { key } = await makeTenant();
    const { path, secret } = await register(key, { event_types: ["task.created"] });
    const task = (await call("POST", "/api/v1/tasks", { key, body: { title: "Tell" } })).body;
    const [only, ...others] = await until(
      () => receivedAt(path),
      (seen) => seen.length > 0,
    );
    if (!only) throw new Error("nothing came");
    expect(others).toEqual([]);
    expect(verified(secret, only)).toEqual({ type: "task.created", timestamp: task.created_at, data: task });
    expect(only.headers["content-type"]).toBe("application/json");
    const event = (await call("GET", `/api/v1/events/${only.headers["webhook-id"]}`, { key })).body;
    expect(event).toEqual({ id: only.headers["webhook-id"], type: "task.created", created_at: task.created_at, data: task });
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
      "user.deleted",
      "task.updated",
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

describe("A delivery", () => {
  it("that fails is tried again later, and says why and what to do", async () => {
    const tenant = await makeTenant();
    const { key } = tenant;
    for (const [behaviour, error, status] of [
      ["fail", "status", 500],
      ["redirect", "redirect", 302],
    ] as const) {
      const { id } = await register(key, { event_types: ["task.created"] }, newPath(behaviour));
      const before = Date.now();
      await call("POST", "/api/v1/tasks", { key, body: { title: "Fail" } });
      const [delivery] = await until(
        () => deliveriesOf(tenant, id),
        ([first]) => first?.attempts_made === 1,
      );
      expect(delivery).toMatchObject({ status: "pending", attempts_made: 1, event_type: "task.created", redelivery_of: null });
      const waitMs = Date.parse(delivery.next_attempt_at) - before;
      expect(waitMs).toBeGreaterThanOrEqual(4000);
      expect(waitMs).toBeLessThan(6000 + 3000);
      const { attempts } = (await call("GET", `/api/v1/deliveries/${delivery.id}`, { key })).body;
      expect(attempts).toMatchObject([{ status, error }]);
      expect(attempts[0].advice).toMatch(/\.$/);
      expect((await call("GET", `/api/v1/webhooks/${id}`, { key })).body.status).toBe("failing");
      await call("DELETE", `/api/v1/webhooks/${id}`, { key });
    }
  });

  it("waits as long as a busy receiver asks", async () => {
    const tenant = await makeTenant();
    const { id } = await register(tenant.key, {}, newPath("busy"));
    const before = Date.now();
    await call("POST", "/api/v1/tasks", { key: tenant.key, body: { title: "Busy" } });
    const [delivery] = await until(
      () => deliveriesOf(tenant, id),
      ([first]) => first?.attempts_made === 1,
    );
    expect(Date.parse(delivery.next_attempt_at) - before).toBeGreaterThanOrEqual(7000);
  });

  it("of a receiver that is gone disables the webhook, tells the others, and holds what comes", async () => {
    const tenant = await makeTenant();
    const { key } = tenant;
    const witness = await register(key, { event_types: ["webhook.disabled"] });
    const gone = await register(key, { event_types: ["task.created"] }, newPath("gone"));
    await call("POST", "/api/v1/tasks", { key, body: { title: "One" } });
    const webhook = await until(
      async () => (await call("GET", `/api/v1/webhooks/${gone.id}`, { key })).body,
      ({ status }) => status === "disabled",
    );
    expect(webhook).toMatchObject({ status: "disabled", disabled_reason: "The receiver answered 410 Gone." });
    const [told] = await until(
      () => receivedAt(witness.path),
      (seen) => seen.length > 0,
    );
    expect(told && verified(witness.secret, told)).toMatchObject({ type: "webhook.disabled", data: { id: gone.id } });
    await call("POST", "/api/v1/tasks", { key, body: { title: "Two" } });
    expect((await deliveriesOf(tenant, gone.id)).map(({ status }: { status: string }) => status)).toEqual(["held", "failed"]);
    await call("PATCH", `/api/v1/webhooks/${gone.id}`, { key, body: { status: "active", url: receiver + newPath() } });
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect((await deliveriesOf(tenant, gone.id)).map(({ status }: { status: string }) => status)).toEqual(["held", "failed"]);
  });
});

describe("A redelivery", () => {
  it("of one delivery is a new delivery of the same event", async () => {
    const tenant = await makeTenant();
    const { key } = tenant;
    const { id, path } = await register(key);
    await call("POST", "/api/v1/tasks", { key, body: { title: "Again" } });
    await until(
      () => receivedAt(path),
      (seen) => seen.length === 1,
    );
    const [first] = await deliveriesOf(tenant, id);
    const answers = [
      await call("POST", `/api/v1/deliveries/${first.id}/redeliver`, { key }),
      await call("POST", `/api/v1/deliveries/${first.id}/redeliver`, { key }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([202, 202]);
    const seen = await until(
      () => receivedAt(path),
      (all) => all.length === 3,
    );
    expect(new Set(seen.map(({ headers }) => headers["webhook-id"]))).toEqual(new Set([first.event_id]));
    const again = (await call("GET", `/api/v1/deliveries/${answers[0]?.body.id}`, { key })).body;
    expect(again).toMatchObject({ event_id: first.event_id, redelivery_of: first.id });
  });

  it("of all that match counts first, is paced, and tells how far it is", async () => {
    const tenant = await makeTenant();
    const { key } = tenant;
    const from = new Date(Date.now() - 1000).toISOString();
    const { id, path } = await register(key, { event_types: ["task.created"] });
    await call("PATCH", `/api/v1/webhooks/${id}`, { key, body: { status: "disabled" } });
    for (let index = 0; index < 4; index++) await call("POST", "/api/v1/tasks", { key, body: { title: `Held ${index}` } });
    const redeliver = (more: object) => call("POST", `/api/v1/webhooks/${id}/redeliver`, { key, body: { from, ...more } });
    expect(await redeliver({ dry_run: true })).toMatchObject({ status: 200, body: { count: 4 } });
    expect((await redeliver({})).status).toBe(409);
    await call("PATCH", `/api/v1/webhooks/${id}`, { key, body: { status: "active" } });
    const { status, body } = await redeliver({});
    expect([status, body.count]).toEqual([202, 4]);
    const done = await until(
      async () => (await call("GET", `/api/v1/redeliveries/${body.id}`, { key })).body,
      (progress) => progress.status === "done",
    );
    expect(done).toEqual({ id: body.id, count: 4, sent: 4, status: "done" });
    expect(await receivedAt(path)).toHaveLength(4);
  });
});

it("A redelivery of many asks for the scopes of what it would send, and so does another URL for what still waits", async () => {
  const { key, accountId } = await makeTenant();
  const { id } = await register(key, { event_types: ["user.created"] }, newPath("fail"));
  await call("POST", "/api/v1/users", { key, body: { name: "Secret", email: "secret@example.com" } });
  await call("PATCH", `/api/v1/webhooks/${id}`, { key, body: { event_types: ["task.created"] } });
  const narrow = await makeKey(accountId, { scopes: ["webhooks:read", "webhooks:write", "tasks:read"] });
  const url = await call("PATCH", `/api/v1/webhooks/${id}`, { key: narrow.key, body: { url: `${receiver}/elsewhere` } });
  expect(url.body.code).toBe("forbidden");
  await env.DB.prepare("UPDATE deliveries SET status = 'failed' WHERE account_id = ?").bind(accountId).run();
  const from = new Date(Date.now() - minuteMs).toISOString();
  for (const dry_run of [true, false]) {
    const { body } = await call("POST", `/api/v1/webhooks/${id}/redeliver`, { key: narrow.key, body: { from, dry_run } });
    expect(body.code).toBe("forbidden");
  }
});

it("Two redeliveries of many in a row send each event once", async () => {
  const { key } = await makeTenant();
  const { id, path } = await register(key, { event_types: ["task.created"] });
  await call("PATCH", `/api/v1/webhooks/${id}`, { key, body: { status: "disabled" } });
  for (let index = 0; index < 3; index++) await call("POST", "/api/v1/tasks", { key, body: { title: `Held ${index}` } });
  await call("PATCH", `/api/v1/webhooks/${id}`, { key, body: { status: "active" } });
  const body = { from: new Date(Date.now() - minuteMs).toISOString() };
  const redeliver = () => call("POST", `/api/v1/webhooks/${id}/redeliver`, { key, body });
  // At once, both may find the same; what the later would send is on its way already.
  const [first, second] = await Promise.all([redeliver(), redeliver()]);
  expect([first.status, second.status]).toEqual([202, 202]);
  expect((await redeliver()).body.count).toBe(0);
  await until(
    () => receivedAt(path),
    (seen) => seen.length === 3,
  );
  expect((await call("POST", `/api/v1/webhooks/${id}/redeliver`, { key, body: { ...body, dry_run: true } })).body.count).toBe(0);
  const dry = { key, body: { ...body, dry_run: true }, "Idempotency-Key": "count" };
  await call("POST", `/api/v1/webhooks/${id}/redeliver`, dry);
  expect((await call("POST", `/api/v1/webhooks/${id}/redeliver`, dry)).headers.get("Idempotent-Replayed")).toBe("true");
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

describe("A webhook", () => {
  it("has its secret rotated: both sign until the overlap ends, then the new one alone", async () => {
    const { key } = await makeTenant();
    const { id, path, secret } = await register(key, { event_types: ["task.created"] });
    const { body } = await call("POST", `/api/v1/webhooks/${id}/rotate-secret`, { key, body: { overlap_seconds: 600 } });
    await call("POST", "/api/v1/tasks", { key, body: { title: "Both" } });
    const [both] = await until(
      () => receivedAt(path),
      (seen) => seen.length === 1,
    );
    for (const each of [secret, body.secret]) expect(both && verified(each, both)).toMatchObject({ type: "task.created" });
    const last = (await call("POST", `/api/v1/webhooks/${id}/rotate-secret`, { key, body: { overlap_seconds: 0 } })).body.secret;
    await call("POST", "/api/v1/tasks", { key, body: { title: "New" } });
    const [, alone] = await until(
      () => receivedAt(path),
      (seen) => seen.length === 2,
    );
    if (!alone) throw new Error("nothing came");
    expect(verified(last, alone)).toMatchObject({ type: "task.created" });
    for (const each of [secret, body.secret]) expect(() => verified(each, alone)).toThrow();
  });

  it("shows its secret once, and D1 holds it encrypted", async () => {
    const { key, accountId } = await makeTenant();
    const { id, secret } = await register(key);
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect((await call("GET", `/api/v1/webhooks/${id}`, { key })).text).not.toContain("whsec_");
    const row = await env.DB.prepare("SELECT * FROM webhooks WHERE account_id = ?").bind(accountId).first();
    expect(JSON.stringify(row)).not.toContain(secret.slice(6));
  });

  it("refuses URLs that it may not call, and says why", async () => {
    const { key } = await makeTenant();
    for (const url of ["ftp://example.org/", "https://10.0.0.1/", "https://user:pw@acme.dev/", "https://intranet/", "nonsense"]) {
      const { status, body } = await call("POST", "/api/v1/webhooks", { key, body: { url, event_types: ["*"] } });
      expect([url, status, body.errors?.[0]?.pointer]).toEqual([url, 422, "/url"]);
    }
  });

  it("is the twentieth of an account at most", async () => {
    const { key } = await makeTenant();
    for (let index = 0; index < 20; index++) await register(key);
    const { status, body } = await call("POST", "/api/v1/webhooks", { key, body: { url: receiver, event_types: ["*"] } });
    expect([status, body.code]).toEqual([409, "limit_reached"]);
  });

  it("asks for the scope of what its events are about", async () => {
    const { key } = await makeTenant({ scopes: ["webhooks:read", "webhooks:write", "tasks:read"] });
    const create = (event_types: string[]) => call("POST", "/api/v1/webhooks", { key, body: { url: receiver, event_types } });
    expect((await create(["task.created"])).status).toBe(201);
    expect((await create(["task.created", "user.created"])).body.code).toBe("forbidden");
    expect((await create(["*"])).body.code).toBe("forbidden");
    expect((await call("GET", "/api/v1/events?type=user.created", { key })).body.code).toBe("forbidden");
  });

  it("is sent a test on demand, it alone", async () => {
    const { key } = await makeTenant();
    const [tested, other] = [await register(key), await register(key)];
    // With no member to send, the body may be left out.
    const { status, body } = await call("POST", `/api/v1/webhooks/${tested.id}/test`, { key });
    expect(status).toBe(202);
    const [one] = await until(
      () => receivedAt(tested.path),
      (seen) => seen.length > 0,
    );
    expect(one && verified(tested.secret, one)).toMatchObject({ type: "webhook.test" });
    expect((await call("GET", `/api/v1/deliveries/${body.delivery_id}`, { key })).body.event_type).toBe("webhook.test");
    expect(await receivedAt(other.path)).toEqual([]);
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
    await call("POST", "/api/v1/tasks", { key, body: { title: "Real" } });
    const { data } = (await call("GET", "/api/v1/event-types", { key })).body;
    expect(data.map(({ type }: { type: string }) => type)).toEqual([
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
    ]);
    for (const { schema, example } of data) expect(new Validator(schema, "2020-12", false).validate(example).errors).toEqual([]);
    for (const event of (await call("GET", "/api/v1/events", { key })).body.data) {
      const { schema } = data.find(({ type }: { type: string }) => type === event.type);
      const body = { type: event.type, timestamp: event.created_at, data: event.data };
      expect(new Validator(schema, "2020-12", false).validate(body).errors).toEqual([]);
    }
  });
});

describe("The queue", () => {
  const batchOf = (queue: string, deliveryIds: string[]) =>
    createMessageBatch<WakeUp>(
      queue,
      deliveryIds.map((deliveryId, index) => ({ id: String(index), timestamp: new Date(), attempts: 1, body: { deliveryId } })),
    );

  it("has each message acknowledged that a delivery took over, and the others tried again", async () => {
    const batch = batchOf("developer-overview-deliveries", ["dlv_good", "dlv_bad"]);
    const deliver = (id: string) => (id === "dlv_bad" ? Promise.reject(new Error("no room")) : Promise.resolve());
    await consume(batch, deliver);
    const { explicitAcks, retryMessages } = await getQueueResult(batch, createExecutionContext());
    expect([explicitAcks, retryMessages.map(({ msgId }) => msgId)]).toEqual([["0"], ["1"]]);
  });

  it("has what it gave up taken from it, since the sweep goes on with it", async () => {
    const batch = batchOf("developer-overview-dead-deliveries", ["dlv_a", "dlv_b"]);
    await consume(batch, () => Promise.reject(new Error("not to be called")));
    expect((await getQueueResult(batch, createExecutionContext())).ackAll).toBe(true);
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

it("Ten thousand deliveries are redelivered within the time that D1 gives a statement", async () => {
  const { key, accountId } = await makeTenant();
  const { id } = await register(key, { event_types: ["task.created"] });
  const now = Date.now();
  const ids = Array.from({ length: 10_000 }, (_, index) => [
    newId("dlv", now - 10_000 + index),
    newId("evt", now - 10_000 + index),
    now - 10_000 + index,
  ]);
  await env.DB.prepare(
    "INSERT INTO deliveries SELECT value ->> 0, ?, ?, value ->> 1, 'task.created', NULL, NULL, 'failed', 10, NULL, NULL, 0, value ->> 2 FROM json_each(?)",
  )
    .bind(accountId, id, JSON.stringify(ids))
    .run();
  const from = new Date(now - minuteMs).toISOString();
  const { status, body } = await call("POST", `/api/v1/webhooks/${id}/redeliver`, { key, body: { from } });
  expect([status, body.count]).toEqual([202, 10_000]);
  await env.DB.prepare("DELETE FROM deliveries WHERE account_id = ?").bind(accountId).run();
});
