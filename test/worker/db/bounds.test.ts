import { afterEach, describe, expect, it } from "vitest";
import { maxStored } from "../../../src/accounts/storage.ts";
import { measureDatabases } from "../../../src/db/database-sizes.ts";
import { call, db, makeKey, makeTenant } from "../support/client.ts";
import { operatorToken } from "../support/operate.ts";
import { makePerson, postForm, sessionCookieOf, withCookie } from "../support/people.ts";
import { countRows, leaveRoomFor, readStoredCounts } from "../support/storage-rows.ts";
import { countEvents } from "../support/webhook-rows.ts";

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
