import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it } from "vitest";
import { operatorOn } from "../../../src/accounts/actor.ts";
import { maxStored } from "../../../src/accounts/storage.ts";
import { measureDatabases } from "../../../src/db/database-sizes.ts";
import { changeRole } from "../../../src/identity/member.ts";
import { addPasskey } from "../../../src/identity/passkeys.ts";
import { eventCatalogue } from "../../../src/outbox/catalogue.ts";
import { commitTo } from "../../../src/outbox/outbox.ts";
import { call, db, makeKey, makeTenant, type Tenant } from "../support/client.ts";
import { operatorToken } from "../support/operate.ts";
import { fakePasskey, makePerson, postForm, sessionCookieOf, withCookie } from "../support/people.ts";
import { register } from "../support/receiver.ts";
import { countRows, leaveRoomFor, queryPlanOf, readStoredCounts } from "../support/storage-rows.ts";
import { countEvents } from "../support/webhook-rows.ts";

/**
 * Inserts `count` tasks, `count` users and `count` events. Every thousandth task has the status `done` and contains the word "needle".
 * Every thousandth user also contains the word "needle". Every thousandth event has the type `user.created`.
 */
async function insertManyRows(accountId: string, count: number): Promise<void> {
  const numbers = JSON.stringify(Array.from({ length: count }, (_, index) => index));
  const exampleUser = JSON.stringify(eventCatalogue.kinds.find(({ type }) => type === "user.created")?.example);
  await env.DB.batch([
    env.DB.prepare(
      `INSERT INTO tasks
          (id, account_id, title, description, search_text, status, priority, labels, due_at, revision, created_at, updated_at)
        SELECT 'tsk_' || printf('%032x', value), ?1, 't', '', iif(value % 1000 = 7, 'needle', 'hay'),
          iif(value % 1000 = 7, 'done', 'todo'), 'normal', '[]',
          iif(value % 3 = 0, NULL, value), 'r', value, value FROM json_each(?2)`,
    ).bind(accountId, numbers),
    env.DB.prepare(
      `INSERT INTO users (id, account_id, name, email, email_key, search_text, role, status, revision, created_at, updated_at)
        SELECT 'usr_' || printf('%032x', value), ?1, 'n', value || '@example.com', value || '@example.com',
          iif(value % 1000 = 7, 'needle', 'hay'), 'member', 'active', 'r', value, value FROM json_each(?2)`,
    ).bind(accountId, numbers),
    env.DB.prepare(
      `INSERT INTO events (account_id, id, type, data, created_at, sequence)
        SELECT ?1, 'evt_' || printf('%032x', value), iif(value % 1000 = 7, 'user.created', 'task.created'), ?3, value, value
        FROM json_each(?2)`,
    ).bind(accountId, numbers, exampleUser),
  ]);
}

describe("The row limits of an account", () => {
  it("are checked against counts by D1 itself, which exclude denied and repeated requests", async () => {
    const tenant = await makeTenant();
    const { key } = tenant;
    const user = await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" }, "Idempotency-Key": "one" });
    await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ADA@example.com" } });
    await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" }, "Idempotency-Key": "one" });
    const task = await call("POST", "/api/v1/tasks", { key, body: { title: "x", assignee_id: user.body.id } });
    const counts = await readStoredCounts(tenant.accountId);
    expect(counts).toMatchObject({ users: 1, tasks: 1, idempotency_keys: 1 });
    expect(counts?.events).toBe(await countEvents(tenant.accountId));
    await call("DELETE", `/api/v1/tasks/${task.body.id}`, { key });
    await call("DELETE", `/api/v1/users/${user.body.id}`, { key });
    expect(await readStoredCounts(tenant.accountId)).toMatchObject({ users: 0, tasks: 0 });
  });

  it.each([
    ["users", "/api/v1/users", (n: number) => ({ name: "Ada", email: `ada${n}@example.com` })],
    ["tasks", "/api/v1/tasks", (n: number) => ({ title: `Task ${n}` })],
  ] as const)("deny new %s with 409, allow updates, and allow a new row after a deletion", async (what, path, bodyOf) => {
    const tenant = await makeTenant();
    const { key } = tenant;
    await leaveRoomFor(tenant.accountId, what, 1);
    const created = await call("POST", path, { key, body: bodyOf(1) });
    expect(created.status).toBe(201);
    const item = `${path}/${created.body.id}`;
    const denied = await call("POST", path, { key, body: bodyOf(2), "Idempotency-Key": "again" });
    expect([denied.status, denied.body.code]).toEqual([409, "limit_reached"]);
    expect(denied.body.detail).toContain(maxStored[what].toLocaleString("en"));
    expect((await call("PATCH", item, { key, body: what === "users" ? { name: "Bea" } : { title: "y" } })).status).toBe(200);
    expect((await call("DELETE", item, { key })).status).toBe(204);
    // The denied response was not stored, so a request with the same Idempotency-Key can succeed now.
    expect((await call("POST", path, { key, body: bodyOf(2), "Idempotency-Key": "again" })).status).toBe(201);
  });

  it("deny changes at the limit of events, except those that delete, end or restrict something", async () => {
    const tenant = await makeTenant();
    const { key } = tenant;
    const task = await call("POST", "/api/v1/tasks", { key, body: { title: "x" } });
    const other = await call("POST", "/api/v1/keys", { key, body: { name: "Other" } });
    await leaveRoomFor(tenant.accountId, "events", 0);
    const denied = await call("POST", "/api/v1/tasks", { key, body: { title: "y" } });
    expect([denied.status, denied.body.code]).toEqual([409, "limit_reached"]);
    expect((await call("PATCH", `/api/v1/tasks/${task.body.id}`, { key, body: { title: "y" } })).status).toBe(409);
    expect((await call("PATCH", `/api/v1/keys/${other.body.id}`, { key, body: { status: "disabled" } })).status).toBe(200);
    expect((await call("DELETE", `/api/v1/keys/${other.body.id}`, { key })).status).toBe(204);
    expect((await call("DELETE", `/api/v1/tasks/${task.body.id}`, { key })).status).toBe(204);
  });

  it("deny requests with an Idempotency-Key at the limit of stored responses, but no other requests and no forms", async () => {
    const tenant = await makeTenant();
    const { key } = tenant;
    await leaveRoomFor(tenant.accountId, "idempotencyKeys", 0);
    const denied = await call("POST", "/api/v1/tasks", { key, body: { title: "x" }, "Idempotency-Key": "one" });
    expect([denied.status, denied.body.code]).toEqual([409, "limit_reached"]);
    expect((await call("POST", "/api/v1/tasks", { key, body: { title: "x" } })).status).toBe(201);
    const { post } = await makePerson(tenant.accountId);
    expect((await post("/keys", { name: "By page", nonce: "one" })).status).toBe(200);
  });
});

describe("The full main database", () => {
  const databaseOfSize = (bytes: number) =>
    ({ prepare: () => ({ run: async () => ({ meta: { size_after: bytes } }) }) }) as unknown as D1Database;
  /** Stores `bytes` as the measured size of the main database. */
  const setMeasuredSize = (bytes: number) => measureDatabases(db, [["DB", databaseOfSize(bytes)]], Date.now());
  afterEach(async () => {
    await setMeasuredSize(1);
  });

  it("denies requests that add rows from 9 GB on, and still lets clients revoke, disable and delete", async () => {
    const tenant = await makeTenant();
    const { key } = tenant;
    const [first, second] = [await makeKey(tenant.accountId), await makeKey(tenant.accountId)];
    const user = await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } });
    const task = await call("POST", "/api/v1/tasks", { key, body: { title: "x", assignee_id: user.body.id } });
    await setMeasuredSize(8.99e9);
    expect((await call("POST", "/api/v1/tasks", { key, body: { title: "y" } })).status).toBe(201);
    await setMeasuredSize(9e9);
    for (const [method, path, body] of [
      ["POST", "/api/v1/tasks", { title: "y" }],
      ["POST", "/api/v1/users", { name: "Bea", email: "bea@example.com" }],
      ["POST", "/api/v1/keys", { name: "More" }],
      ["PATCH", `/api/v1/tasks/${task.body.id}`, { title: "z" }],
    ] as const) {
      const denied = await call(method, path, { key, body });
      expect([denied.status, denied.body.code], `${method} ${path}`).toEqual([503, "unavailable"]);
      expect(denied.headers.get("Retry-After")).toMatch(/^[1-5]$/);
    }
    expect((await call("GET", "/api/v1/tasks", { key })).body.data).toHaveLength(2);
    expect((await call("PATCH", `/api/v1/keys/${first.keyId}`, { key, body: { status: "disabled" } })).status).toBe(200);
    expect((await call("PATCH", `/api/v1/keys/${second.keyId}`, { key, body: { scopes: ["users:read"], hourly_limit: 10 } })).status).toBe(
      200,
    );
    expect((await call("DELETE", `/api/v1/keys/${second.keyId}`, { key })).status).toBe(204);
    expect((await call("GET", "/api/v1/me", { key: first.key })).body.code).toBe("disabled_key");
    expect((await call("DELETE", `/api/v1/users/${user.body.id}`, { key })).status).toBe(204);
    expect((await call("DELETE", `/api/v1/tasks/${task.body.id}`, { key })).status).toBe(204);
  });

  it("denies new names and new permissions, but allows changes that restrict a key or a member", async () => {
    const tenant = await makeTenant();
    const { key, accountId } = tenant;
    const { keyId } = await makeKey(accountId, { scopes: ["tasks:read"], hourlyLimit: 10, allowedIps: ["203.0.113.0/24"] });
    const disabledKey = await makeKey(accountId);
    await call("PATCH", `/api/v1/keys/${disabledKey.keyId}`, { key, body: { status: "disabled" } });
    const webhook = await register(key);
    const owner = await makePerson(accountId);
    const admin = await makePerson(accountId, "admin");
    await setMeasuredSize(9e9);
    for (const body of [
      { name: "Another" },
      { scopes: ["tasks:read", "tasks:write"] },
      { hourly_limit: 11 },
      { hourly_limit: 9, name: "Another" },
      { allowed_ips: [] },
      { allowed_ips: ["203.0.0.0/16"] },
    ])
      expect((await call("PATCH", `/api/v1/keys/${keyId}`, { key, body })).status, JSON.stringify(body)).toBe(503);
    expect((await call("PATCH", `/api/v1/keys/${disabledKey.keyId}`, { key, body: { status: "active" } })).status).toBe(503);
    expect((await call("PATCH", `/api/v1/webhooks/${webhook.id}`, { key, body: { description: "Another" } })).status).toBe(503);
    for (const body of [{ hourly_limit: 9 }, { allowed_ips: ["203.0.113.7"] }, { expires_at: new Date(Date.now() + 60_000).toISOString() }])
      expect((await call("PATCH", `/api/v1/keys/${keyId}`, { key, body })).status, JSON.stringify(body)).toBe(200);
    const context = { db, now: Date.now(), actor: operatorOn(accountId), commit: commitTo({ db }) };
    await expect(changeRole(context, admin.member, "owner")).rejects.toMatchObject({ code: "unavailable" });
    await changeRole(context, admin.member, "viewer");
    await expect(addPasskey(context, owner.member, fakePasskey())).rejects.toMatchObject({ code: "unavailable" });
  });

  it("lets members and operators sign in, and stores only the session", async () => {
    const { accountId } = await makeTenant();
    const { member, codes } = await makePerson(accountId);
    await setMeasuredSize(9e9);
    const [auditBefore, sessionsBefore] = [await countRows("audit"), await countRows("sessions")];
    const signedIn = await postForm("/login/recovery", { code: codes[0] ?? "" });
    expect([signedIn.status, signedIn.headers.get("Set-Cookie")]).toEqual([303, expect.stringContaining("session=")]);
    expect([await countRows("sessions"), await countRows("audit")]).toEqual([sessionsBefore + 1, auditBefore]);
    expect((await withCookie(sessionCookieOf(signedIn)).get("/keys")).status).toBe(200);
    expect(member.accountId).toBe(accountId);
    expect((await postForm("/operator/session", { token: operatorToken })).status).toBe(303);
  });
});

describe("A filtered list", () => {
  async function readPages(tenant: Tenant, path: string) {
    const pages: string[][] = [];
    for (let cursor = ""; ; ) {
      const { status, body } = await call("GET", `${path}${cursor}`, { key: tenant.key });
      expect(status).toBe(200);
      pages.push(body.data.map(({ id }: { id: string }) => id));
      if (!body.has_more) return pages;
      cursor = `&cursor=${encodeURIComponent(body.next_cursor)}`;
    }
  }

  it("scans 2,000 rows per page, says that there is more, and returns each match once", async () => {
    const tenant = await makeTenant();
    // The account has more rows than D1 may scan for one page.
    await insertManyRows(tenant.accountId, 2500);
    for (const path of [
      ...["created_at", "-created_at", "updated_at", "-updated_at", "due_at", "-due_at"].flatMap((sort) => [
        `/api/v1/tasks?q=needle&sort=${sort}`,
        `/api/v1/tasks?status=done&sort=${sort}`,
      ]),
      "/api/v1/users?q=needle",
      "/api/v1/events?type=user.created",
      "/api/v1/events?type=user.created&order=asc",
    ]) {
      const pages = await readPages(tenant, path);
      expect(pages.length, path).toBe(2);
      expect(new Set(pages.flat()).size, path).toBe(3);
    }
    // Without a filter, a page contains as many rows as requested.
    expect((await call("GET", "/api/v1/tasks?limit=100", { key: tenant.key })).body.data).toHaveLength(100);
  });
});

it("Analytics of tasks read only the index, without the descriptions of tasks", async () => {
  const tenant = await makeTenant();
  const query =
    "SELECT status, count(*), sum(created_at > 5), sum(completed_at > 5), sum(due_at < 5) FROM tasks WHERE account_id = ? GROUP BY status";
  const plan = await queryPlanOf({ query, values: [tenant.accountId] });
  expect(plan.join()).toContain("COVERING INDEX tasks_for_analytics");
});
