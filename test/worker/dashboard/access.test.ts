import { env } from "cloudflare:workers";
import { Hono } from "hono";
import { describe, expect, it } from "vitest";
import { requireAccess } from "../../../src/dashboard/access.ts";
import { createPages } from "../../../src/dashboard/dashboard.ts";
import { type Access, declaredBy, needs } from "../../../src/dashboard/needs.ts";
import { Failure } from "../../../src/errors/failure.ts";
import { hourMs } from "../../../src/time/clock.ts";
import { hidden } from "../support/browse.ts";
import { call, makeKey, makeTenant, origin } from "../support/client.ts";
import { age, ask, makePerson } from "../support/people.ts";

/** What each route declares: what the first of its handlers says. */
const declared = new Map<string, Access | undefined>();
for (const { method, path, handler } of createPages().routes) {
  const route = `${method} ${path}`;
  if (!declared.has(route)) declared.set(route, declaredBy(handler));
}
const routes = [...declared.keys()];
const declaredAccess = (route: string) => declared.get(route);
const isStepUp = ({ status, text }: { status: number; text: string }) => status === 403 && text.includes("Confirm that it is you");

/** A member who signed in an hour ago. */
async function makeOldSession(accountId: string, role: Parameters<typeof makePerson>[1] = "owner") {
  const person = await makePerson(accountId, role);
  await age(person.member, "verified_at", hourMs);
  return person;
}

describe("Every route of the dashboard", () => {
  it.each(routes)("%s declares what it requires", (route) => {
    expect(declaredAccess(route)).toBeDefined();
  });

  it("is denied if it declares nothing, even if a declared route would match too", async () => {
    const app = new Hono()
      .use(requireAccess({ isOpen: true }) as never)
      .get("/new-page", (c) => c.text("shown"))
      .get("/keys/new-page", (c) => c.text("shown"))
      .get("/keys/:id", needs("public"), (c) => c.text("shown"));
    app.onError((error, c) => c.text(String(error), error instanceof Failure && error.code === "not_found" ? 404 : 500));
    const statusOf = async (path: string, method = "GET") => (await app.request(path, { method })).status;
    expect([await statusOf("/new-page"), await statusOf("/keys/new-page"), await statusOf("/new-page", "HEAD")]).toEqual([404, 404, 404]);
    expect(await statusOf("/keys/key_1")).toBe(200);
  });

  it("that is public needs no session, and no other is answered without one", async () => {
    for (const route of routes) {
      const [method = "", path = ""] = route.split(" ");
      const headers = { Origin: origin, "Content-Type": "application/x-www-form-urlencoded" };
      const { status, headers: sent } = await ask(method, path.replace(":id", "id"), headers, method === "POST" ? "" : undefined);
      const isSentToSignIn = status === 303 && sent.get("Location")?.startsWith("/login?return_to=");
      expect(isSentToSignIn, route).toBe(declaredAccess(route)?.needs !== "public");
    }
  });
});

describe("A recent sign-in", () => {
  const always = routes.filter((route) => declaredAccess(route)?.stepUp === "always");

  it("is declared by every route that lets somebody do more, ends a secret or sends events again", () => {
    expect(always).toEqual(
      expect.arrayContaining([
        "POST /keys",
        "POST /keys/:id/enable",
        "POST /keys/:id/end-overlap",
        "POST /keys/:id/rotate",
        "POST /keys/:id/revoke",
        "POST /webhooks",
        "POST /webhooks/:id/rotate-secret",
        "POST /webhooks/:id/delete",
        "POST /webhooks/:id/redeliver",
        "POST /deliveries/:id/redeliver",
        "POST /settings/invitations",
        "POST /settings/people/:id/role",
      ]),
    );
  });

  it.each(always)("is asked for by %s", async (route) => {
    const { post } = await makeOldSession((await makeTenant()).accountId);
    expect(isStepUp(await post(route.split(" ")[1]?.replace(":id", "id_1") ?? ""))).toBe(true);
  });

  it("is asked for once, and the form goes on to the same page", async () => {
    const { accountId } = await makeTenant();
    const { key, keyId } = await makeKey(accountId);
    const { post, codes } = await makeOldSession(accountId);
    await post(`/keys/${keyId}/disable`);
    expect(isStepUp(await post(`/keys/${keyId}/enable`))).toBe(true);
    expect((await call("GET", "/api/v1/me", { key })).body.code).toBe("disabled_key");
    const enabled = await post(`/keys/${keyId}/enable`, { confirm_code: codes[0] ?? "" });
    expect([enabled.status, enabled.headers.get("Location")]).toEqual([303, `/keys/${keyId}?done=enabled`]);
    await post(`/keys/${keyId}/disable`);
    expect((await post(`/keys/${keyId}/enable`)).status).toBe(303);
  });

  const wide = { scopes: ["tasks:read", "users:read"], hourly_limit: "100", allowed_ips: "203.0.113.0/24", expires_at: "2090-01-01T00:00" };

  it.each([
    ["another scope", { ...wide, scopes: ["tasks:read", "users:read", "tasks:write"] }],
    ["a higher limit", { ...wide, hourly_limit: "101" }],
    ["the account's limit", { ...wide, hourly_limit: "" }],
    ["more addresses", { ...wide, allowed_ips: "203.0.112.0/23" }],
    ["any address", { ...wide, allowed_ips: "" }],
    ["a later expiry", { ...wide, expires_at: "2091-01-01T00:00" }],
    ["no expiry", { ...wide, expires_at: "" }],
  ])("is asked for before a key gets %s, and the form is kept", async (_, fields) => {
    const { accountId, key } = await makeTenant();
    const { keyId } = await makeKey(accountId);
    const { post, codes } = await makeOldSession(accountId);
    expect((await post(`/keys/${keyId}`, { ...wide, name: "Narrow" })).status).toBe(303);
    const read = async () => (await call("GET", `/api/v1/keys/${keyId}`, { key })).body;
    const before = await read();
    const asked = await post(`/keys/${keyId}`, { ...fields, name: "Wide" });
    expect([isStepUp(asked), hidden(asked.text, "name")]).toEqual([true, "Wide"]);
    expect(await read()).toEqual(before);
    const changed = await post(`/keys/${keyId}`, { ...fields, name: "Wide", confirm_code: codes[0] ?? "" });
    expect([changed.status, changed.headers.get("Location")]).toEqual([303, `/keys/${keyId}?done=changed`]);
    expect((await read()).name).toBe("Wide");
  });

  it("is not asked for where a key gets another name, or may do less", async () => {
    const { accountId } = await makeTenant();
    const { keyId } = await makeKey(accountId);
    const { post } = await makeOldSession(accountId);
    const narrower = { scopes: ["tasks:read"], hourly_limit: "99", allowed_ips: "203.0.113.7", expires_at: "2089-01-01T00:00" };
    for (const fields of [{ name: "Other" }, { name: "Other", ...wide }, { name: "Other", ...narrower }])
      expect((await post(`/keys/${keyId}`, fields)).status).toBe(303);
  });

  it("is asked for before a webhook gets another URL or other event types, not for another description", async () => {
    const { accountId, key } = await makeTenant();
    const body = { url: "https://hooks.acme.dev/one", event_types: ["task.created", "task.updated"] };
    const { id } = (await call("POST", "/api/v1/webhooks", { key, body })).body;
    const { post, codes } = await makeOldSession(accountId);
    const same = { url: body.url, event_types: ["task.updated", "task.created"] };
    expect((await post(`/webhooks/${id}`, { ...same, description: "For the team" })).status).toBe(303);
    for (const change of [{ url: "https://hooks.acme.dev/two" }, { event_types: ["task.created"] }, { event_types: ["*"] }])
      expect(isStepUp(await post(`/webhooks/${id}`, { ...same, ...change })), JSON.stringify(change)).toBe(true);
    expect((await call("GET", `/api/v1/webhooks/${id}`, { key })).body).toMatchObject(same);
    const fields = { ...same, url: "https://hooks.acme.dev/two", confirm_code: codes[0] ?? "" };
    expect((await post(`/webhooks/${id}`, fields)).headers.get("Location")).toBe(`/webhooks/${id}?done=changed`);
  });

  it("is asked for before the session of another member ends, not for one's own", async () => {
    const { accountId } = await makeTenant();
    const [admin, other] = [await makeOldSession(accountId, "admin"), await makePerson(accountId, "viewer")];
    const pathOf = async ({ member }: { member: { id: string } }) =>
      `/settings/sessions/${await env.DB.prepare("SELECT id FROM sessions WHERE member_id = ?").bind(member.id).first("id")}/end`;
    expect(isStepUp(await admin.post(await pathOf(other)))).toBe(true);
    expect((await other.get("/")).status).toBe(200);
    const ended = await admin.post(await pathOf(other), { confirm_code: admin.codes[0] ?? "" });
    expect([ended.status, (await other.get("/")).status]).toEqual([303, 303]);
    await age(admin.member, "verified_at", hourMs);
    expect((await admin.post(await pathOf(admin))).headers.get("Location")).toBe("/settings?done=ended");
  });
});

describe("A path that is not there", () => {
  it("is 404 without a session, and keeps the navigation with one", async () => {
    const stranger = await ask("GET", "/wp-login.php");
    expect([stranger.status, stranger.text.includes('<nav class="main"')]).toEqual([404, false]);
    const { get } = await makePerson((await makeTenant()).accountId);
    const member = await get("/wp-login.php");
    expect([member.status, member.text.includes('<nav class="main"')]).toEqual([404, true]);
    expect((await ask("GET", "/api/v1/nothing")).status).toBe(401);
  });
});
