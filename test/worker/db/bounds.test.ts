import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it } from "vitest";
import { operatorOn } from "../../../src/accounts/actor.ts";
import { measureDatabases } from "../../../src/db/database-sizes.ts";
import { eventCatalogue } from "../../../src/events/catalogue.ts";
import { changeRole } from "../../../src/identity/member.ts";
import { addPasskey } from "../../../src/identity/passkeys.ts";
import { maxStored, type Stored } from "../../../src/storage/storage.ts";
import { commitTo } from "../../../src/webhooks/outbox.ts";
import { call, db, makeKey, makeTenant, origin, type Tenant } from "../support/client.ts";
import { ask, makePerson, withCookie } from "../support/people.ts";
import { register } from "../support/receiver.ts";

const storedOf = async ({ accountId }: Tenant) =>
  await env.DB.prepare("SELECT users, tasks, events, idempotency_keys FROM account_storage WHERE account_id = ?").bind(accountId).first();

/** An account that stores all that it may but one. */
const almostFull = async (tenant: Tenant, what: Stored, left = 1) => {
  const column = what === "idempotencyKeys" ? "idempotency_keys" : what;
  await env.DB.prepare(
    `INSERT INTO account_storage (account_id, ${column}) VALUES (?, ?) ON CONFLICT DO UPDATE SET ${column} = excluded.${column}`,
  )
    .bind(tenant.accountId, maxStored[what] - left)
    .run();
};

describe("What an account stores", () => {
  it("is counted by D1 itself, for every writer: a change that is not made counts nothing", async () => {
    const tenant = await makeTenant();
    const { key } = tenant;
    const user = await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" }, "Idempotency-Key": "one" });
    await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ADA@example.com" } });
    await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" }, "Idempotency-Key": "one" });
    const task = await call("POST", "/api/v1/tasks", { key, body: { title: "x", assignee_id: user.body.id } });
    const before = (await storedOf(tenant)) as Record<string, number>;
    expect(before).toMatchObject({ users: 1, tasks: 1, idempotency_keys: 1 });
    const { count } = (await env.DB.prepare("SELECT count(*) AS count FROM events WHERE account_id = ?")
      .bind(tenant.accountId)
      .first()) as {
      count: number;
    };
    expect(before.events).toBe(count);
    await call("DELETE", `/api/v1/tasks/${task.body.id}`, { key });
    await call("DELETE", `/api/v1/users/${user.body.id}`, { key });
    expect(await storedOf(tenant)).toMatchObject({ users: 0, tasks: 0 });
  });

  it.each([
    ["users", "/api/v1/users", (n: number) => ({ name: "Ada", email: `ada${n}@example.com` })],
    ["tasks", "/api/v1/tasks", (n: number) => ({ title: `Task ${n}` })],
  ] as const)(
    "is bounded: %s beyond are refused with 409, what is there goes on, and deleting one makes room",
    async (what, path, body) => {
      const tenant = await makeTenant();
      const { key } = tenant;
      await almostFull(tenant, what);
      const made = await call("POST", path, { key, body: body(1) });
      expect(made.status).toBe(201);
      const refused = await call("POST", path, { key, body: body(2), "Idempotency-Key": "again" });
      expect([refused.status, refused.body.code]).toEqual([409, "limit_reached"]);
      expect(refused.body.detail).toContain(maxStored[what].toLocaleString("en"));
      expect(
        (await call("PATCH", `${path}/${made.body.id}`, { key, body: what === "users" ? { name: "Bea" } : { title: "y" } })).status,
      ).toBe(200);
      expect((await call("DELETE", `${path}/${made.body.id}`, { key })).status).toBe(204);
      // The same request, repeated, is no repetition of one that was refused.
      expect((await call("POST", path, { key, body: body(2), "Idempotency-Key": "again" })).status).toBe(201);
    },
  );

  it("is bounded: beyond its events nothing is changed that makes one, but what deletes, ends or tightens", async () => {
    const tenant = await makeTenant();
    const { key } = tenant;
    const task = await call("POST", "/api/v1/tasks", { key, body: { title: "x" } });
    const other = await call("POST", "/api/v1/keys", { key, body: { name: "Other" } });
    await almostFull(tenant, "events", 0);
    const refused = await call("POST", "/api/v1/tasks", { key, body: { title: "y" } });
    expect([refused.status, refused.body.code]).toEqual([409, "limit_reached"]);
    expect((await call("PATCH", `/api/v1/tasks/${task.body.id}`, { key, body: { title: "y" } })).status).toBe(409);
    expect((await call("PATCH", `/api/v1/keys/${other.body.id}`, { key, body: { status: "disabled" } })).status).toBe(200);
    expect((await call("DELETE", `/api/v1/keys/${other.body.id}`, { key })).status).toBe(204);
    expect((await call("DELETE", `/api/v1/tasks/${task.body.id}`, { key })).status).toBe(204);
  });

  it("is bounded: beyond its kept responses a POST works without an Idempotency-Key, and so do forms of pages", async () => {
    const tenant = await makeTenant();
    const { key } = tenant;
    await almostFull(tenant, "idempotencyKeys", 0);
    const refused = await call("POST", "/api/v1/tasks", { key, body: { title: "x" }, "Idempotency-Key": "one" });
    expect([refused.status, refused.body.code]).toEqual([409, "limit_reached"]);
    expect((await call("POST", "/api/v1/tasks", { key, body: { title: "x" } })).status).toBe(201);
    const { post } = await makePerson(tenant.accountId);
    expect((await post("/keys", { name: "By page", nonce: "one" })).status).toBe(200);
  });
});

describe("The main database, where it is full", () => {
  const ofSize = (bytes: number) => ({ prepare: () => ({ run: async () => ({ meta: { size_after: bytes } }) }) }) as unknown as D1Database;
  const measure = (bytes: number) => measureDatabases(db, [["DB", ofSize(bytes)]], Date.now());
  afterEach(async () => {
    await measure(1);
  });

  it("refuses what adds rows from 9 GB on, and still revokes, disables, ends and deletes", async () => {
    const tenant = await makeTenant();
    const { key } = tenant;
    const [one, other] = [await makeKey(tenant.accountId), await makeKey(tenant.accountId)];
    const user = await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } });
    const task = await call("POST", "/api/v1/tasks", { key, body: { title: "x", assignee_id: user.body.id } });
    await measure(8.99e9);
    expect((await call("POST", "/api/v1/tasks", { key, body: { title: "y" } })).status).toBe(201);
    await measure(9e9);
    for (const [method, path, body] of [
      ["POST", "/api/v1/tasks", { title: "y" }],
      ["POST", "/api/v1/users", { name: "Bea", email: "bea@example.com" }],
      ["POST", "/api/v1/keys", { name: "More" }],
      ["PATCH", `/api/v1/tasks/${task.body.id}`, { title: "z" }],
    ] as const) {
      const refused = await call(method, path, { key, body });
      expect([refused.status, refused.body.code], `${method} ${path}`).toEqual([503, "unavailable"]);
      expect(refused.headers.get("Retry-After")).toMatch(/^[1-5]$/);
    }
    expect((await call("GET", "/api/v1/tasks", { key })).body.data).toHaveLength(2);
    expect((await call("PATCH", `/api/v1/keys/${one.keyId}`, { key, body: { status: "disabled" } })).status).toBe(200);
    expect((await call("PATCH", `/api/v1/keys/${other.keyId}`, { key, body: { scopes: ["users:read"], hourly_limit: 10 } })).status).toBe(
      200,
    );
    expect((await call("DELETE", `/api/v1/keys/${other.keyId}`, { key })).status).toBe(204);
    expect((await call("GET", "/api/v1/me", { key: one.key })).body.code).toBe("disabled_key");
    expect((await call("DELETE", `/api/v1/users/${user.body.id}`, { key })).status).toBe(204);
    expect((await call("DELETE", `/api/v1/tasks/${task.body.id}`, { key })).status).toBe(204);
  });

  it("refuses a new name and every change that widens, though it is of a key, a webhook or a member that may be ended", async () => {
    const tenant = await makeTenant();
    const { key, accountId } = tenant;
    const { keyId } = await makeKey(accountId, { scopes: ["tasks:read"], hourlyLimit: 10, allowedIps: ["203.0.113.0/24"] });
    const disabled = await makeKey(accountId);
    await call("PATCH", `/api/v1/keys/${disabled.keyId}`, { key, body: { status: "disabled" } });
    const webhook = await register(key);
    const owner = await makePerson(accountId);
    const admin = await makePerson(accountId, "admin");
    await measure(9e9);
    for (const body of [
      { name: "Another" },
      { scopes: ["tasks:read", "tasks:write"] },
      { hourly_limit: 11 },
      { hourly_limit: 9, name: "Another" },
      { allowed_ips: [] },
      { allowed_ips: ["203.0.0.0/16"] },
    ])
      expect((await call("PATCH", `/api/v1/keys/${keyId}`, { key, body })).status, JSON.stringify(body)).toBe(503);
    expect((await call("PATCH", `/api/v1/keys/${disabled.keyId}`, { key, body: { status: "active" } })).status).toBe(503);
    expect((await call("PATCH", `/api/v1/webhooks/${webhook.id}`, { key, body: { description: "Another" } })).status).toBe(503);
    for (const body of [{ hourly_limit: 9 }, { allowed_ips: ["203.0.113.7"] }, { expires_at: new Date(Date.now() + 60_000).toISOString() }])
      expect((await call("PATCH", `/api/v1/keys/${keyId}`, { key, body })).status, JSON.stringify(body)).toBe(200);
    const writing = { db, now: Date.now(), actor: operatorOn(accountId), commit: commitTo({ db }) };
    await expect(changeRole(writing, admin.member, "owner")).rejects.toMatchObject({ code: "unavailable" });
    await changeRole(writing, admin.member, "viewer");
    await expect(
      addPasskey(writing, owner.member, { id: crypto.randomUUID(), name: "x", publicKey: "", counter: 0, transports: [] }),
    ).rejects.toMatchObject({ code: "unavailable" });
  });

  it("lets members and operators sign in, and stores nothing of it but the session", async () => {
    const { accountId } = await makeTenant();
    const { member, codes } = await makePerson(accountId);
    await measure(9e9);
    const count = (table: string) => env.DB.prepare(`SELECT count(*) AS count FROM ${table}`).first<number>("count");
    const [audit, sessions] = [await count("audit"), await count("sessions")];
    const back = await ask(
      "POST",
      "/login/recovery",
      { Origin: origin, "Content-Type": "application/x-www-form-urlencoded" },
      `code=${codes[0]}`,
    );
    expect([back.status, back.headers.get("Set-Cookie")]).toEqual([303, expect.stringContaining("session=")]);
    expect([(await count("sessions")) ?? 0, await count("audit")]).toEqual([(sessions ?? 0) + 1, audit]);
    expect((await withCookie((back.headers.get("Set-Cookie") ?? "").split(";")[0] ?? "").get("/keys")).status).toBe(200);
    expect(member.accountId).toBe(accountId);
    const opened = await ask(
      "POST",
      "/operator/session",
      { Origin: origin, "Content-Type": "application/x-www-form-urlencoded" },
      `token=dvop_token-of-the-tests`,
    );
    expect(opened.status).toBe(303);
  });
});

describe("A search", () => {
  /** So many tasks and users that no page looks at all of them. */
  const crowd = 2500;
  async function crowded(): Promise<Tenant> {
    const tenant = await makeTenant();
    const made = JSON.stringify(Array.from({ length: crowd }, (_, index) => index));
    await env.DB.batch([
      env.DB.prepare(
        `INSERT INTO tasks (id, account_id, title, description, search_text, status, priority, labels, due_at, revision, created_at, updated_at)
        SELECT 'tsk_' || printf('%032x', value), ?1, 't', '', iif(value % 1000 = 7, 'needle', 'hay'), iif(value % 1000 = 7, 'done', 'todo'), 'normal', '[]',
          iif(value % 3 = 0, NULL, value), 'r', value, value FROM json_each(?2)`,
      ).bind(tenant.accountId, made),
      env.DB.prepare(
        `INSERT INTO users (id, account_id, name, email, email_key, search_text, role, status, revision, created_at, updated_at)
        SELECT 'usr_' || printf('%032x', value), ?1, 'n', value || '@example.com', value || '@example.com', iif(value % 1000 = 7, 'needle', 'hay'), 'member',
          'active', 'r', value, value FROM json_each(?2)`,
      ).bind(tenant.accountId, made),
      env.DB.prepare(
        `INSERT INTO events (account_id, id, type, data, created_at, sequence)
        SELECT ?1, 'evt_' || printf('%032x', value), iif(value % 1000 = 7, 'user.created', 'task.created'), ?3, value, value FROM json_each(?2)`,
      ).bind(tenant.accountId, made, JSON.stringify(eventCatalogue.kinds.find(({ type }) => type === "user.created")?.example)),
    ]);
    return tenant;
  }

  async function pagesOf(tenant: Tenant, path: string) {
    const pages: string[][] = [];
    for (let cursor = ""; ; ) {
      const { status, body } = await call("GET", `${path}${cursor}`, { key: tenant.key });
      expect(status).toBe(200);
      pages.push(body.data.map(({ id }: { id: string }) => id));
      if (!body.has_more) return pages;
      cursor = `&cursor=${encodeURIComponent(body.next_cursor)}`;
    }
  }

  it("looks at 2,000 rows and says that there is more, and finds each match once", async () => {
    const tenant = await crowded();
    for (const path of [
      ...["created_at", "-created_at", "updated_at", "-updated_at", "due_at", "-due_at"].flatMap((sort) => [
        `/api/v1/tasks?q=needle&sort=${sort}`,
        `/api/v1/tasks?status=done&sort=${sort}`,
      ]),
      "/api/v1/users?q=needle",
      "/api/v1/events?type=user.created",
      "/api/v1/events?type=user.created&order=asc",
    ]) {
      const pages = await pagesOf(tenant, path);
      expect(pages.length, path).toBe(2);
      expect(new Set(pages.flat()).size, path).toBe(3);
    }
    // Without a filter, a page is full.
    expect((await call("GET", "/api/v1/tasks?limit=100", { key: tenant.key })).body.data).toHaveLength(100);
  });

  it("of analytics reads no description", async () => {
    const tenant = await makeTenant();
    const { results } = await env.DB.prepare(
      "EXPLAIN QUERY PLAN SELECT status, count(*), sum(created_at > 5), sum(completed_at > 5), sum(due_at < 5) FROM tasks WHERE account_id = ? GROUP BY status",
    )
      .bind(tenant.accountId)
      .all<{ detail: string }>();
    expect(results.map(({ detail }) => detail).join()).toContain("COVERING INDEX tasks_for_analytics");
  });
});
