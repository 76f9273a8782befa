import { describe, expect, it } from "vitest";
import { browse } from "../../support/browse.ts";
import { call, makeKey, makeTenant } from "../../support/client.ts";
import { operate } from "../../support/operate.ts";

const createUser = (key: string, body: object) => call("POST", "/api/v1/users", { key, body });

describe("The users API", () => {
  it("creates, reads, changes and deletes a user", async () => {
    const { key } = await makeTenant();
    const created = await createUser(key, { name: "Ada", email: "Ada@Example.com" });
    expect(created.body).toEqual({
      id: expect.stringMatching(/^usr_[0-9a-f]{32}$/),
      name: "Ada",
      email: "Ada@Example.com",
      role: "member",
      status: "active",
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      updated_at: created.body.created_at,
    });
    const path = created.headers.get("Location") ?? "";
    expect(path).toBe(`/api/v1/users/${created.body.id}`);
    expect((await call("GET", path, { key })).body).toEqual(created.body);
    const changed = await call("PATCH", path, { key, body: { role: "admin", status: "suspended" } });
    expect(changed.body).toMatchObject({ name: "Ada", role: "admin", status: "suspended" });
    expect((await call("DELETE", path, { key })).status).toBe(204);
    expect((await call("GET", path, { key })).status).toBe(404);
    expect((await call("DELETE", path, { key })).status).toBe(404);
  });

  it("returns 409 to an email address that another user of the account has, in upper or lower case", async () => {
    const { key } = await makeTenant();
    await createUser(key, { name: "Ada", email: "ada@example.com" });
    const duplicate = await createUser(key, { name: "Ada", email: "ADA@example.COM" });
    expect([duplicate.status, duplicate.body.code, duplicate.body.errors[0].pointer]).toEqual([409, "conflict", "/email"]);
    const other = await createUser(key, { name: "Bob", email: "bob@example.com" });
    const changed = await call("PATCH", `/api/v1/users/${other.body.id}`, { key, body: { email: "Ada@example.com" } });
    expect([changed.status, changed.body.code]).toEqual([409, "conflict"]);
    const otherAccount = await makeTenant();
    expect((await createUser(otherAccount.key, { name: "Ada", email: "ada@example.com" })).status).toBe(201);
  });

  it("creates one user from ten concurrent requests with the same email address", async () => {
    const { key } = await makeTenant();
    const responses = await Promise.all(Array.from({ length: 10 }, () => createUser(key, { name: "Ada", email: "ada@example.com" })));
    expect(responses.map(({ status }) => status).toSorted()).toEqual([201, ...Array(9).fill(409)]);
  });

  it("lists users newest first, and filters by role, status, and part of a name or email address", async () => {
    const { key } = await makeTenant();
    for (const [name, role, status] of [
      ["Ada Łukasz", "admin", "active"],
      ["Bob 100%_x", "member", "suspended"],
      ["ÉMILE", "member", "active"],
    ]) {
      await createUser(key, {
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

  it("are found by their names in any case and form, and so are tasks, keys and accounts", async () => {
    const [name, q] = ["Zoe\u0308 Straße", "ZOË STRASSE"];
    const { key, accountId } = await makeTenant();
    await createUser(key, { name, email: "someone@example.com" });
    await call("POST", "/api/v1/tasks", { key, body: { title: name } });
    await call("POST", "/api/v1/tasks", { key, body: { title: "Other" } });
    for (const path of ["users", "tasks"])
      expect((await call("GET", `/api/v1/${path}?q=${encodeURIComponent(q)}`, { key })).body.data, path).toHaveLength(1);
    const { keyId } = await makeKey(accountId, { name });
    const { text, headers } = await browse(accountId).get(`/search?q=${encodeURIComponent(q)}`);
    // If there is only one result, the page leads to it.
    expect(`${headers.get("Location")} ${text}`).toContain(`/keys/${keyId}`);
    const id = crypto.randomUUID();
    const account = await operate("PUT", `/accounts/by-external-id/${id}`, { name: `${name} ${id}` });
    const findAccounts = async (text: string) =>
      (await operate("GET", `/accounts?q=${encodeURIComponent(text)}`)).body.data.map((each: { id: string }) => each.id);
    expect(await findAccounts(`${q} ${id}`)).toEqual([account.body.id]);
    await operate("PATCH", `/accounts/${account.body.id}`, { name: `Another ${name}` });
    expect([await findAccounts(`${q} ${id}`), await findAccounts(id)]).toEqual([[], [account.body.id]]);
  });

  it("lists no users of another account", async () => {
    const [one, other] = [await makeTenant(), await makeTenant()];
    await createUser(one.key, { name: "Ada", email: "ada@example.com" });
    expect((await call("GET", "/api/v1/users", { key: other.key })).body).toEqual({ data: [], next_cursor: null, has_more: false });
  });
});
