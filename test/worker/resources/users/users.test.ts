import { describe, expect, it } from "vitest";
import { call, makeTenant } from "../../support/client.ts";

const make = (key: string, body: object) => call("POST", "/api/v1/users", { key, body });

describe("A user", () => {
  it("is made, read, changed and deleted", async () => {
    const { key } = await makeTenant();
    const made = await make(key, { name: "Ada", email: "Ada@Example.com" });
    expect(made.body).toEqual({
      id: expect.stringMatching(/^usr_[0-9a-f]{32}$/),
      name: "Ada",
      email: "Ada@Example.com",
      role: "member",
      status: "active",
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      updated_at: made.body.created_at,
    });
    const path = made.headers.get("Location") ?? "";
    expect(path).toBe(`/api/v1/users/${made.body.id}`);
    expect((await call("GET", path, { key })).body).toEqual(made.body);
    const changed = await call("PATCH", path, { key, body: { role: "admin", status: "suspended" } });
    expect(changed.body).toMatchObject({ name: "Ada", role: "admin", status: "suspended" });
    expect((await call("DELETE", path, { key })).status).toBe(204);
    expect((await call("GET", path, { key })).status).toBe(404);
    expect((await call("DELETE", path, { key })).status).toBe(404);
  });

  it("has an address that no other user of the account has, in any case", async () => {
    const { key } = await makeTenant();
    await make(key, { name: "Ada", email: "ada@example.com" });
    const twice = await make(key, { name: "Ada", email: "ADA@example.COM" });
    expect([twice.status, twice.body.code, twice.body.errors[0].pointer]).toEqual([409, "conflict", "/email"]);
    const other = await make(key, { name: "Bob", email: "bob@example.com" });
    const changed = await call("PATCH", `/api/v1/users/${other.body.id}`, { key, body: { email: "Ada@example.com" } });
    expect([changed.status, changed.body.code]).toEqual([409, "conflict"]);
    const [stranger] = [await makeTenant()];
    expect((await make(stranger.key, { name: "Ada", email: "ada@example.com" })).status).toBe(201);
  });

  it("of one address is made once by many requests at once", async () => {
    const { key } = await makeTenant();
    const answers = await Promise.all(Array.from({ length: 10 }, () => make(key, { name: "Ada", email: "ada@example.com" })));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([201, ...Array(9).fill(409)]);
  });

  it("leaves its tasks without an assignee when it is deleted, each with a new version", async () => {
    const { key } = await makeTenant();
    const user = (await make(key, { name: "Ada", email: "ada@example.com" })).body;
    const task = await call("POST", "/api/v1/tasks", { key, body: { title: "x", assignee_id: user.id } });
    const other = await call("POST", "/api/v1/tasks", { key, body: { title: "y", assignee_id: user.id } });
    await call("DELETE", `/api/v1/users/${user.id}`, { key });
    const left = await call("GET", `/api/v1/tasks/${task.body.id}`, { key });
    expect(left.body.assignee_id).toBeNull();
    expect(Date.parse(left.body.updated_at)).toBeGreaterThan(Date.parse(task.body.updated_at));
    const etags = [task, left, other, await call("GET", `/api/v1/tasks/${other.body.id}`, { key })].map(({ headers }) =>
      headers.get("ETag"),
    );
    expect(new Set(etags).size).toBe(4);
  });
});

describe("The list of users", () => {
  it("is the newest first and filters by role, status and part of a name or address in any case", async () => {
    const { key } = await makeTenant();
    for (const [name, role, status] of [
      ["Ada Łukasz", "admin", "active"],
      ["Bob 100%_x", "member", "suspended"],
      ["ÉMILE", "member", "active"],
    ]) {
      await make(key, {
        name,
        email: `${name
          ?.slice(0, 3)
          .normalize("NFD")
          .replaceAll(/[^A-Za-z]/g, "")}@example.com`,
        role,
        status,
      });
    }
    const names = async (query: string) =>
      (await call("GET", `/api/v1/users?${query}`, { key })).body.data.map((user: { name: string }) => user.name);
    expect(await names("")).toEqual(["ÉMILE", "Bob 100%_x", "Ada Łukasz"]);
    expect(await names("role=admin")).toEqual(["Ada Łukasz"]);
    expect(await names("status=suspended")).toEqual(["Bob 100%_x"]);
    expect(await names("role=admin&role=member")).toEqual(["ÉMILE", "Bob 100%_x", "Ada Łukasz"]);
    expect(await names("role=viewer&role=member&status=suspended")).toEqual(["Bob 100%_x"]);
    expect(await names("q=ADA")).toEqual(["Ada Łukasz"]);
    expect(await names(`q=${encodeURIComponent("łUK")}`)).toEqual(["Ada Łukasz"]);
    expect(await names(`q=${encodeURIComponent("émile")}`)).toEqual(["ÉMILE"]);
    expect(await names(`q=${encodeURIComponent("%_")}`)).toEqual(["Bob 100%_x"]);
    expect(await names(`q=${encodeURIComponent("%")}&role=admin`)).toEqual([]);
    expect(await names(`q=${"x".repeat(200)}`)).toEqual([]);
  });

  it("shows nothing of another account", async () => {
    const [one, other] = [await makeTenant(), await makeTenant()];
    await make(one.key, { name: "Ada", email: "ada@example.com" });
    expect((await call("GET", "/api/v1/users", { key: other.key })).body).toEqual({ data: [], next_cursor: null, has_more: false });
  });
});
