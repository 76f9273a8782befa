import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { Hono } from "hono";
import { describe, expect, it } from "vitest";
import { requireAccess } from "../../../src/dashboard/access/access.ts";
import { type Access, declaredBy, needs } from "../../../src/dashboard/access/needs.ts";
import { createPages } from "../../../src/dashboard/dashboard.ts";
import type { Role } from "../../../src/identity/roles.ts";
import { Failure } from "../../../src/lib/errors/failure.ts";
import { hourMs } from "../../../src/lib/time/clock.ts";
import { hidden } from "../support/browse.ts";
import { type Answer, call, makeKey, makeTenant } from "../support/client.ts";
import { backdateSessions, readSessionId } from "../support/member-rows.ts";
import { formHeaders, makePerson, type Person, sendRequest } from "../support/people.ts";

/** The access that each route declares. The first handler of the route contains this declaration. */
const declarations = new Map<string, Access | undefined>();
for (const { method, path, handler } of createPages().routes) {
  const route = `${method} ${path}`;
  if (!declarations.has(route)) declarations.set(route, declaredBy(handler));
}
const routes = [...declarations.keys()];

/** Whether a response asks the member to confirm their identity. */
const asksForConfirmation = ({ status, text }: Answer) => status === 403 && text.includes("Confirm that it is you");

/** Creates a member who signed in an hour ago. */
async function makePersonWithOldSession(accountId: string, role: Role = "owner") {
  const person = await makePerson(accountId, role);
  await backdateSessions(person.member.id, "verified_at", hourMs);
  return person;
}

describe("A route of the dashboard", () => {
  it("is denied if it declares nothing, even if a route with a declaration also matches", async () => {
    const app = new Hono()
      .use(...(requireAccess({ isOpen: true }) as unknown as [never]))
      .get("/new-page", (c) => c.text("shown"))
      .get("/keys/new-page", (c) => c.text("shown"))
      .get("/keys/:id", needs("public"), (c) => c.text("shown"));
    app.onError((error, c) => c.text(String(error), error instanceof Failure && error.code === "not_found" ? 404 : 500));
    const statusOf = async (path: string, method = "GET") => (await app.request(path, { method }, env, createExecutionContext())).status;
    expect([await statusOf("/new-page"), await statusOf("/keys/new-page"), await statusOf("/new-page", "HEAD")]).toEqual([404, 404, 404]);
    expect(await statusOf("/keys/key_1")).toBe(200);
  });

  it("redirects a visitor without a session to the sign-in page, unless the route is public", async () => {
    for (const route of routes) {
      const [method = "", path = ""] = route.split(" ");
      const { status, headers } = await sendRequest(method, path.replace(":id", "id"), formHeaders, method === "POST" ? "" : undefined);
      const isRedirected = status === 303 && headers.get("Location")?.startsWith("/login?return_to=");
      expect(isRedirected, route).toBe(declarations.get(route)?.needs !== "public");
    }
  });
});

describe("A recent sign-in", () => {
  const current = {
    scopes: ["tasks:read", "users:read"],
    hourly_limit: "100",
    allowed_ips: "203.0.113.0/24",
    expires_at: "2090-01-01T00:00",
  };

  it.each([
    ["another scope", { ...current, scopes: ["tasks:read", "users:read", "tasks:write"] }],
    ["a higher limit", { ...current, hourly_limit: "101" }],
    ["the limit of its account", { ...current, hourly_limit: "" }],
    ["more IP addresses", { ...current, allowed_ips: "203.0.112.0/23" }],
    ["all IP addresses", { ...current, allowed_ips: "" }],
    ["a later expiry", { ...current, expires_at: "2091-01-01T00:00" }],
    ["no expiry", { ...current, expires_at: "" }],
  ])("is required before a key gets %s, and the form is kept", async (_, fields) => {
    const { accountId, key } = await makeTenant();
    const { keyId } = await makeKey(accountId);
    const { post, codes } = await makePersonWithOldSession(accountId);
    expect((await post(`/keys/${keyId}`, { ...current, name: "Narrow" })).status).toBe(303);
    const readKey = async () => (await call("GET", `/api/v1/keys/${keyId}`, { key })).body;
    const before = await readKey();
    const stepUp = await post(`/keys/${keyId}`, { ...fields, name: "Wide" });
    expect([asksForConfirmation(stepUp), hidden(stepUp.text, "name")]).toEqual([true, "Wide"]);
    expect(await readKey()).toEqual(before);
    const changed = await post(`/keys/${keyId}`, { ...fields, name: "Wide", confirm_code: codes[0] ?? "" });
    expect([changed.status, changed.headers.get("Location")]).toEqual([303, `/keys/${keyId}/settings?done=changed`]);
    expect((await readKey()).name).toBe("Wide");
  });

  it("is required before a webhook gets another URL or other event types, but not before it gets another description", async () => {
    const { accountId, key } = await makeTenant();
    const body = { url: "https://hooks.acme.dev/one", event_types: ["task.created", "task.updated"] };
    const { id } = (await call("POST", "/api/v1/webhooks", { key, body })).body;
    const { post, codes } = await makePersonWithOldSession(accountId);
    const same = { url: body.url, event_types: ["task.updated", "task.created"] };
    expect((await post(`/webhooks/${id}`, { ...same, description: "For the team" })).status).toBe(303);
    for (const change of [{ url: "https://hooks.acme.dev/two" }, { event_types: ["task.created"] }, { event_types: ["*"] }])
      expect(asksForConfirmation(await post(`/webhooks/${id}`, { ...same, ...change })), JSON.stringify(change)).toBe(true);
    expect((await call("GET", `/api/v1/webhooks/${id}`, { key })).body).toMatchObject(same);
    const confirmed = { ...same, url: "https://hooks.acme.dev/two", confirm_code: codes[0] ?? "" };
    expect((await post(`/webhooks/${id}`, confirmed)).headers.get("Location")).toBe(`/webhooks/${id}/settings?done=changed`);
  });

  it("is required before a member ends the session of another member, but not before a member ends an own session", async () => {
    const { accountId } = await makeTenant();
    const [admin, viewer] = [await makePersonWithOldSession(accountId, "admin"), await makePerson(accountId, "viewer")];
    const endPathOf = async ({ member }: Person) => `/settings/sessions/${await readSessionId(member.id)}/end`;
    expect(asksForConfirmation(await admin.post(await endPathOf(viewer)))).toBe(true);
    expect((await viewer.get("/")).status).toBe(200);
    const ended = await admin.post(await endPathOf(viewer), { confirm_code: admin.codes[0] ?? "" });
    expect([ended.status, (await viewer.get("/")).status]).toEqual([303, 303]);
    await backdateSessions(admin.member.id, "verified_at", hourMs);
    expect((await admin.post(await endPathOf(admin))).headers.get("Location")).toBe("/settings?done=ended");
  });
});

describe("A path without a page", () => {
  it("returns 404, with the navigation only for a member", async () => {
    const toVisitor = await sendRequest("GET", "/wp-login.php");
    expect([toVisitor.status, toVisitor.text.includes('<nav class="main"')]).toEqual([404, false]);
    const { get } = await makePerson((await makeTenant()).accountId);
    const toMember = await get("/wp-login.php");
    expect([toMember.status, toMember.text.includes('<nav class="main"')]).toEqual([404, true]);
    expect((await sendRequest("GET", "/api/v1/nothing")).status).toBe(401);
  });
});
