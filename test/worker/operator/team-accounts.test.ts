import { describe, expect, it } from "vitest";
import { makeTenant } from "../support/client.ts";
import { operate } from "../support/operate.ts";

const newId = () => `cus_${crypto.randomUUID()}`;

describe("An account of the team API", () => {
  it("is created and updated by its external id, and found by it", async () => {
    const id = newId();
    const made = await operate("PUT", `/accounts/by-external-id/${id}`, { name: "Acme", email: "ops@acme.dev", metadata: { a: 1 } });
    expect([made.status, made.headers.get("Location")]).toEqual([201, `/operator/api/accounts/${made.body.id}`]);
    const again = await operate("PUT", `/accounts/by-external-id/${id}`, { name: "Acme Inc" });
    expect([again.status, again.body.id]).toEqual([200, made.body.id]);
    expect(again.body).toMatchObject({ external_id: id, name: "Acme Inc", email: "ops@acme.dev", metadata: { a: 1 } });
    for (const query of [`external_id=${id}`, `q=${id.slice(4, 20)}`])
      expect((await operate("GET", `/accounts?${query}`)).body.data.map((each: { id: string }) => each.id)).toEqual([made.body.id]);
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

  it.each(["-", "%20x", "x%20", "%C3%A9", "x".repeat(201)])("cannot have the external id %s", async (id) => {
    const { status, body } = await operate("PUT", `/accounts/by-external-id/${id}`, { name: "Acme" });
    expect([status, body.code, body.errors[0].parameter]).toEqual([400, "invalid_parameter", "external_id"]);
  });

  it("is read and changed with its ETag", async () => {
    const { accountId } = await makeTenant();
    const { headers, status } = await operate("GET", `/accounts/${accountId}`);
    expect(status).toBe(200);
    expect(headers.get("ETag")).toMatch(/^"[0-9a-f]{16}"$/);
  });
});
