import { describe, expect, it } from "vitest";
import { makeTenant } from "../support/client.ts";
import { operate, operatorToken } from "../support/operate.ts";

const newId = () => `cus_${crypto.randomUUID()}`;

describe("An account of the team API", () => {
  it("is created and updated by its external id, and found by it", async () => {
    const id = newId();
    const made = await operate("PUT", `/accounts/by-external-id/${id}`, { name: "Acme", email: "ops@acme.dev", metadata: { a: 1 } });
    expect([made.status, made.headers.get("Location")]).toEqual([201, `/team/v1/accounts/${made.body.id}`]);
    const again = await operate("PUT", `/accounts/by-external-id/${id}`, { name: "Acme Inc" });
    expect([again.status, again.body.id]).toEqual([200, made.body.id]);
    expect(again.body).toMatchObject({ external_id: id, name: "Acme Inc", email: "ops@acme.dev", metadata: { a: 1 } });
    for (const query of [`external_id=${id}`, `q=${id.slice(4, 20)}`])
      expect((await operate("GET", `/accounts?${query}`)).body.data.map((each: { id: string }) => each.id)).toEqual([made.body.id]);
  });

  it("is created once if several requests with a new external id come at once", async () => {
    const id = newId();
    const answers = await Promise.all(
      Array.from({ length: 6 }, () => operate("PUT", `/accounts/by-external-id/${id}`, { name: "Acme", metadata: { a: 1 } })),
    );
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 200, 200, 200, 200, 201]);
    expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1);
  });

  it("is put under a precondition", async () => {
    const id = newId();
    const put = (name: string, headers: Record<string, string>) =>
      operate("PUT", `/accounts/by-external-id/${id}`, { name }, operatorToken, headers);
    expect((await put("Acme", { "If-Match": '"0123456789abcdef"' })).status).toBe(412);
    const made = await put("Acme", { "If-None-Match": "*" });
    expect(made.status).toBe(201);
    expect((await put("Other", { "If-None-Match": "*" })).status).toBe(412);
    expect((await put("Other", { "If-Match": '"0123456789abcdef"' })).status).toBe(412);
    expect((await put("Other", { "If-Match": made.headers.get("ETag") ?? "" })).body.name).toBe("Other");
  });

  it("keeps its external id for itself", async () => {
    const id = newId();
    await operate("PUT", `/accounts/by-external-id/${id}`, { name: "One" });
    const other = await operate("POST", "/accounts", { name: "Two", email: "two@acme.dev", external_id: id });
    expect([other.status, other.body.code]).toEqual([409, "conflict"]);
  });

  it("changes nothing if a part of the change is not possible", async () => {
    const { accountId } = await makeTenant();
    const { status, body } = await operate("PATCH", `/accounts/${accountId}`, { name: "Half", plan_id: "plan_none" });
    expect([status, body.errors[0].pointer]).toEqual([422, "/plan_id"]);
    expect((await operate("GET", `/accounts/${accountId}`)).body.name).toBe("Tenant");
  });

  it("takes changes of its metadata as a merge patch", async () => {
    const { accountId } = await makeTenant();
    const patch = async (metadata: object | null) => (await operate("PATCH", `/accounts/${accountId}`, { metadata })).body.metadata;
    expect(await patch({ a: 1, b: { c: 2, d: 3 } })).toEqual({ a: 1, b: { c: 2, d: 3 } });
    expect(await patch({ a: null, b: { c: null } })).toEqual({ b: { d: 3 } });
    expect(await patch(null)).toEqual({});
    const tooLarge = await operate("PATCH", `/accounts/${accountId}`, { metadata: { text: "x".repeat(1024) } });
    expect([tooLarge.status, tooLarge.body.errors[0].pointer]).toEqual([422, "/metadata"]);
  });

  it.each([
    ["an account", "PATCH", (account: string) => `/accounts/${account}`],
    ["a key", "PATCH", (_: string, key: string) => `/keys/${key}`],
  ])("refuses metadata of %s that has a member __proto__ at any depth, or that is nested too deeply", async (_, method, pathOf) => {
    const { accountId, keyId } = await makeTenant();
    const deep = JSON.parse(`{"a":${"[".repeat(6000)}${"]".repeat(6000)}}`);
    for (const metadata of [JSON.parse('{"__proto__":{"a":1}}'), JSON.parse('{"b":[{"__proto__":1}]}'), deep]) {
      const { status, body } = await operate(method, pathOf(accountId, keyId), { metadata });
      expect([status, body.errors]).toEqual([422, [expect.objectContaining({ pointer: "/metadata", code: "invalid_value" })]]);
    }
  });

  it.each(["-", "%20x", "x%20", "%C3%A9", "x".repeat(201)])(
    "cannot have the external id %s, nor one to which no path leads",
    async (id) => {
      for (const external_id of [".", "..", "-"])
        expect((await operate("POST", "/accounts", { name: "Acme", external_id })).status).toBe(422);
      const { status, body } = await operate("PUT", `/accounts/by-external-id/${id}`, { name: "Acme" });
      expect([status, body.code, body.errors[0].parameter]).toEqual([400, "invalid_parameter", "external_id"]);
    },
  );

  it("keeps every change of many that come at once", async () => {
    const { accountId, keyId } = await makeTenant();
    const names = ["a", "b", "c", "d", "e", "f"];
    const expected = Object.fromEntries(names.map((name) => [name, name]));
    await Promise.all(names.map((name) => operate("PATCH", `/accounts/${accountId}`, { metadata: { [name]: name } })));
    expect((await operate("GET", `/accounts/${accountId}`)).body.metadata).toEqual(expected);
    await Promise.all(names.map((name) => operate("PATCH", `/keys/${keyId}`, { metadata: { [name]: name } })));
    expect((await operate("GET", `/keys/${keyId}`)).body.metadata).toEqual(expected);
  });

  it("is changed by only one of several changes that name the same version", async () => {
    const { accountId } = await makeTenant();
    const etag = (await operate("GET", `/accounts/${accountId}`)).headers.get("ETag") ?? "";
    const change = (body: object) => operate("PATCH", `/accounts/${accountId}`, body, operatorToken, { "If-Match": etag });
    const changes = [{ name: "One" }, { name: "Two" }, { limits: [{ per: "day", limit: 700 }] }, { metadata: { by: "four" } }];
    const statuses = (await Promise.all(changes.map(change))).map(({ status }) => status);
    expect(statuses.toSorted()).toEqual([200, 412, 412, 412]);
  });

  it("gets one audit entry for a change of its values and its limits", async () => {
    const { accountId } = await makeTenant();
    const { status } = await operate("PATCH", `/accounts/${accountId}`, {
      name: "Acme",
      metadata: { plan: "pro" },
      limits: [{ per: "day", limit: 700 }],
      retention_days: 14,
    });
    expect(status).toBe(200);
    const { body } = await operate("GET", "/audit");
    const own = body.data.filter(({ account_id }: { account_id: string }) => account_id === accountId);
    expect(own).toHaveLength(1);
    expect(own[0]).toMatchObject({ action: "account.changed", details: { changes: ["name", "metadata"], retention_days: 14 } });
  });
});
