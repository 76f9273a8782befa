import { beforeEach, describe, expect, it } from "vitest";
import { deleteOldLinks } from "../../../src/identity/portal.ts";
import { hidden, textOf } from "../support/browse.ts";
import { type Answer, call, db, makeTenant } from "../support/client.ts";
import { expireSessions, insertMembers } from "../support/member-rows.ts";
import { operate, operatorActionsOn } from "../support/operate.ts";
import { formHeaders, makePerson, postForm, redirectsToSignIn, sendRequest, withCookie } from "../support/people.ts";

const returnUrl = "http://localhost:3000/settings";
const inFrame = { "Sec-Fetch-Dest": "iframe" };
let accountId = "";
beforeEach(async () => {
  ({ accountId } = await makeTenant());
});

const newLink = (more: object = {}) => ({
  member: { external_id: "user_42", name: "Grace", email: "grace@globex.dev" },
  role: "developer",
  return_url: returnUrl,
  ...more,
});
const makeLink = (more: object = {}, token?: string) => operate("POST", `/accounts/${accountId}/portal-links`, newLink(more), token);
const makeToken = async (scopes: string[]) => (await operate("POST", "/tokens", { name: "Portal", scopes })).body.token as string;
const tokenIn = ({ body }: Answer): string => new URL(body.url).searchParams.get("token") ?? "";
const newToken = async (more: object = {}) => tokenIn(await makeLink(more));
const claim = (token: string, headers = {}, fields = {}) => postForm("/portal", { token, ...fields }, headers);
const portalCookieOf = ({ headers }: Answer): string => /portal(?:-frame)?=(?!;)[^;]+/.exec(headers.get("Set-Cookie") ?? "")?.[0] ?? "";

/** Claims a new link. Returns what its session can do. */
async function enter(more: object = {}) {
  const claimed = await claim(await newToken(more));
  expect(claimed.status).toBe(303);
  const cookie = portalCookieOf(claimed);
  return { cookie, claimed, ...withCookie(cookie) };
}
const isIn = async ({ get }: { get: (path: string) => Promise<Answer> }) => (await get("/keys")).status === 200;

describe("The team API creates a portal link", () => {
  it("that expires in five minutes, and shows its URL once", async () => {
    const headers = { "Idempotency-Key": crypto.randomUUID() };
    const before = Date.now();
    const make = () => operate("POST", `/accounts/${accountId}/portal-links`, newLink(), undefined, headers);
    const { status, body } = await make();
    expect([status, body.id]).toEqual([201, expect.stringMatching(/^plk_[0-9a-f]{32}$/)]);
    expect(Date.parse(body.expires_at) - before).toBeGreaterThan(299_000);
    expect(Date.parse(body.expires_at) - before).toBeLessThan(302_000);
    expect((await make()).body).toEqual({ ...body, url: null });
    // The operator audit outlives an erased account, so it has no id of a person.
    expect(await operatorActionsOn(accountId)).not.toContain("portal.linked");
  });

  it("at most 20 times for one person who opens none, while others still get theirs", async () => {
    for (let n = 0; n < 20; n++) expect((await makeLink()).status).toBe(201);
    expect((await makeLink()).body.code).toBe("limit_reached");
    expect((await makeLink({ member: { external_id: "user_43" } })).status).toBe(201);
  });

  it.each([
    ["a return URL with http: that is not on this machine", { return_url: "http://app.acme.dev/" }, "/return_url"],
    ["a return URL at an origin that the settings do not list", { return_url: "https://app.acme.dev/" }, "/return_url"],
    ["a return URL with a name before the host", { return_url: "http://app.acme.dev@localhost/" }, "/return_url"],
    ["a return URL that is a script", { return_url: "javascript:alert(1)//localhost" }, "/return_url"],
    ["a return URL whose host only begins like this machine", { return_url: "http://localhost.evil.dev/" }, "/return_url"],
    ["a return URL whose host would end a part of the policy", { return_url: "http://x;sandbox.localhost/" }, "/return_url"],
    ["a page of another site", { page: "//evil.dev" }, "/page"],
    ["a time under a minute", { expires_in: 59 }, "/expires_in"],
    ["a time over an hour", { expires_in: 3601 }, "/expires_in"],
    ["a member without an id", { member: { name: "Grace" } }, "/member/external_id"],
    ["a name with a control character", { member: { external_id: "u", name: "a\u0007" } }, "/member/name"],
    ["an unknown role", { role: "root" }, "/role"],
  ])("but refuses %s", async (_, more, pointer) => {
    const { status, body } = await makeLink(more);
    expect([status, body.errors[0].pointer]).toEqual([422, pointer]);
  });

  it("for an owner only with the scope operate", async () => {
    const token = await makeToken(["portal:write"]);
    expect([(await makeLink({ role: "admin" }, token)).status, (await makeLink({ role: "owner" }, token)).status]).toEqual([201, 422]);
    expect((await makeLink({ role: "owner" }, await makeToken(["portal:write", "operate"]))).status).toBe(201);
    expect((await makeLink({}, await makeToken(["accounts:write"]))).body.code).toBe("insufficient_scope");
  });

  it("not for a suspended account, and not for one that is being erased", async () => {
    await operate("POST", `/accounts/${accountId}/suspend`);
    expect((await makeLink()).body.code).toBe("account_suspended");
    await operate("POST", `/accounts/${accountId}/erase`, { confirm: accountId });
    expect((await makeLink()).status).toBeGreaterThanOrEqual(404);
  });
});

describe("The page of a portal link", () => {
  it("names the app, the person, the account and the role, and opens nothing by itself", async () => {
    const token = await newToken();
    for (let n = 0; n < 2; n++) {
      const page = await sendRequest("GET", `/portal?token=${token}`);
      expect([page.status, page.headers.get("Set-Cookie"), page.headers.get("X-Frame-Options")]).toEqual([200, null, "DENY"]);
      expect(textOf(page)).toContain("You come from localhost:3000 , as Grace . You open the account Tenant with the role developer.");
      expect(/<button[^>]*>([^<]*)/.exec(page.text)?.[1]).toBe("Continue");
    }
    expect((await claim(token)).headers.get("Location")).toBe("/");
  });

  it("claims it once, and the second claim from elsewhere ends the session of the first", async () => {
    const token = await newToken({ page: "/keys" });
    const first = await claim(token, { "User-Agent": "One" });
    expect([first.status, first.headers.get("Location")]).toEqual([303, "/keys"]);
    const session = withCookie(portalCookieOf(first));
    const again = await claim(token, { "User-Agent": "One" });
    expect([again.status, portalCookieOf(again), await isIn(session)]).toEqual([409, "", true]);
    expect(textOf(again)).not.toContain("has ended. This");
    expect((await session.get(`/portal?token=${token}`)).headers.get("Location")).toBe("/keys");
    const other = await sendRequest("GET", `/portal?token=${token}`, { "User-Agent": "Another" });
    expect([other.status, other.text.includes("End that session"), await isIn(session)]).toEqual([409, true, true]);
    const thief = await claim(token, { "User-Agent": "Another" });
    expect([thief.status, portalCookieOf(thief), await isIn(session)]).toEqual([409, "", false]);
    expect(textOf(thief)).toContain("The session that this link had opened has ended.");
  });

  it("lets one of two claims at the same moment in", async () => {
    const token = await newToken();
    const both = await Promise.all([claim(token), claim(token)]);
    expect(both.map(({ status }) => status).toSorted()).toEqual([303, 409]);
  });

  it("does not let in after its end, after the token that made it is revoked, or when it never existed", async () => {
    const team = await makeToken(["portal:write"]);
    const ofToken = tokenIn(await makeLink({}, team));
    const { body } = await operate("GET", "/tokens?limit=100");
    for (const { id, name } of body.data) if (name === "Portal") await operate("DELETE", `/tokens/${id}`);
    for (const token of [ofToken, "a".repeat(43), "", "x".repeat(5000), "%00"]) {
      expect((await sendRequest("GET", `/portal?token=${token}`)).status).toBe(409);
      expect((await claim(token)).status).toBe(409);
    }
  });

  it("is deleted an hour after its end, used or not", async () => {
    const tokens = [await newToken(), await newToken()];
    await claim(tokens[0] ?? "");
    expect(await deleteOldLinks(db, [accountId], Date.now() + 3_600_000, 100)).toBe(0);
    expect(await deleteOldLinks(db, [accountId], Date.now() + 4_000_000, 100)).toBe(2);
  });

  it("takes no claim that another page sends", async () => {
    const token = await newToken();
    expect((await claim(token, { Origin: "https://evil.dev" })).status).toBe(403);
    expect((await claim(token, { "Sec-Fetch-Site": "cross-site" })).status).toBe(403);
    expect((await claim(token)).status).toBe(303);
  });

  it("does not replace a session that is there until the reader agrees", async () => {
    const owner = await makePerson(accountId);
    const token = await newToken();
    const page = await owner.get(`/portal?token=${token}`);
    expect(textOf(page)).toContain(`${owner.member.name} is signed in`);
    const asked = await owner.post("/portal", { token });
    expect([asked.status, asked.headers.get("Set-Cookie")]).toEqual([409, null]);
    expect((await owner.get("/settings")).status).toBe(200);
    const claimed = await owner.post("/portal", { token, replace: hidden(page.text, "replace") });
    expect(claimed.status).toBe(303);
    expect(redirectsToSignIn(await owner.get("/settings"))).toBe(true);
    expect(await isIn(withCookie(portalCookieOf(claimed)))).toBe(true);
  });
});

describe("A member who came by a portal link", () => {
  it("is found by the id of the team alone, and gets the role and the name of the last link", async () => {
    const owner = await makePerson(accountId);
    await enter({ member: { external_id: "user_42", email: owner.member.email, name: "Grace" } });
    const second = await enter({ member: { external_id: "user_42", name: "Grace Hopper" }, role: "viewer" });
    const settings = await owner.get("/settings");
    expect(settings.text.match(/from another app: user_42/g)).toHaveLength(1);
    expect(textOf(settings)).toContain("Grace Hopper");
    expect((await second.post("/keys", { name: "x" })).status).toBe(403);
    expect((await owner.get("/settings/audit")).text).toContain("member.role_changed");
    expect(await isIn(owner)).toBe(true);
  });

  it("with the highest role invites nobody, changes no sign-in, and ends no session of others", async () => {
    const owner = await makePerson(accountId, "viewer");
    const { get, post } = await enter({ role: "owner" });
    const forms: [string, Record<string, string>][] = [
      ["/settings/invitations", { email: "eve@globex.dev", role: "viewer" }],
      [`/settings/members/${owner.member.id}/role`, { role: "owner" }],
      [`/settings/members/${owner.member.id}/remove`, {}],
      ["/settings/passkeys/options", {}],
      ["/settings/passkeys", { response: "{}" }],
      ["/settings/recovery-codes", {}],
    ];
    for (const [path, fields] of forms) expect([path, (await post(path, fields)).status]).toEqual([path, 403]);
    const settings = await get("/settings");
    for (const form of ["/settings/invitations", "/settings/passkeys", "/settings/recovery-codes", "/settings/members/"])
      expect(settings.text).not.toContain(`action="${form}`);
    expect(settings.text.match(/End session/g)).toHaveLength(1);
    expect((await post("/settings/invitations", {})).text).toContain("You came here from another app");
  });

  it("needs no other sign-in for ten minutes, and then a new link", async () => {
    const { post } = await enter({ role: "admin" });
    const create = () => post("/keys", { name: "A key", scopes: ["users:read"] });
    expect((await create()).status).toBe(200);
    await expireSessions(accountId, 11 * 60_000);
    const denied = await create();
    expect([denied.status, denied.text.includes(`href="${returnUrl}"`)]).toEqual([403, true]);
  });

  it("has the role of the latest link: an older one gives none back, and no owner can change it", async () => {
    const older = await newToken({ role: "admin" });
    const member = await enter({ role: "viewer" });
    expect((await claim(older)).status).toBe(409);
    expect(textOf(await member.get("/settings"))).toMatch(/Grace.{0,120}viewer/);
    const owner = await makePerson(accountId);
    const settings = await owner.get("/settings");
    const id = /members\/(mem_\w+)\/remove/.exec(settings.text)?.[1];
    expect(settings.text).not.toContain(`/settings/members/${id}/role`);
    expect((await owner.post(`/settings/members/${id}/role`, { role: "admin" })).status).toBe(409);
  });

  it("is out when the service token that made the link is revoked", async () => {
    const { body } = await operate("POST", "/tokens", { name: "Portal", scopes: ["portal:write"] });
    const claimed = await claim(tokenIn(await makeLink({}, body.token)));
    const session = withCookie(portalCookieOf(claimed));
    expect(await isIn(session)).toBe(true);
    await operate("DELETE", `/tokens/${body.id}`);
    expect(await isIn(session)).toBe(false);
  });

  it("makes room for the next one if the account has 1,000 members: the one seen longest ago is retired", async () => {
    await enter();
    await expireSessions(accountId, 25 * 3_600_000);
    await insertMembers(accountId, 999, `mem_${crypto.randomUUID()}`);
    expect(await isIn(await enter({ member: { external_id: "user_43" } }))).toBe(true);
    expect((await claim(await newToken({ member: { external_id: "user_44" } }))).status).toBe(409);
  });

  it("goes back to the app of the team by the header and by signing out", async () => {
    const { get, post } = await enter();
    expect((await get("/keys")).text).toContain(`href="${returnUrl}"`);
    const out = await post("/logout");
    expect([out.status, out.text.includes(`href="${returnUrl}"`), await isIn({ get })]).toEqual([200, true, false]);
  });

  it.each([
    ["after 24 hours", () => expireSessions(accountId, 24 * 3_600_000 + 1000)],
    [
      "when the account is suspended, and stays out after it",
      async () => {
        await operate("POST", `/accounts/${accountId}/suspend`);
        await operate("POST", `/accounts/${accountId}/resume`);
      },
    ],
    ["when the account is erased", () => operate("POST", `/accounts/${accountId}/erase`, { confirm: accountId })],
    ["when the team ends its sessions", () => operate("DELETE", `/accounts/${accountId}/portal-sessions`)],
    [
      "when the team ends the sessions of the person",
      () => operate("DELETE", `/accounts/${accountId}/portal-sessions?external_id=user_42`),
    ],
  ])("is out %s, and so are the links", async (_, end) => {
    const session = await enter();
    const open = await newToken();
    expect(await isIn(session)).toBe(true);
    await end();
    expect(await isIn(session)).toBe(false);
    if (!_.startsWith("after")) expect((await claim(open)).status).toBe(409);
  });

  it("stays in when the team ends the sessions of another person, and is out after an owner removes them", async () => {
    const owner = await makePerson(accountId);
    const session = await enter();
    const open = await newToken();
    await operate("DELETE", `/accounts/${accountId}/portal-sessions?external_id=user_43`);
    expect(await isIn(session)).toBe(true);
    const id = /members\/(mem_\w+)\/remove/.exec((await owner.get("/settings")).text)?.[1];
    expect((await owner.post(`/settings/members/${id}/remove`)).status).toBe(303);
    expect([await isIn(session), (await claim(open)).status]).toEqual([false, 409]);
  });

  it("does not make the last owner with a passkey dispensable", async () => {
    const owner = await makePerson(accountId);
    await enter({ role: "owner" });
    const left = await owner.post(`/settings/members/${owner.member.id}/remove`);
    expect([left.status, textOf(left)]).toEqual([422, expect.stringContaining("last owner")]);
  });

  it("sees nothing of another account and of the desk, on any page with an id", async () => {
    const other = await makeTenant();
    const { get, post } = await enter({ role: "owner" });
    for (const path of [`/keys/${other.keyId}`, `/keys/${other.keyId}/rotate`, `/activity/req_${"0".repeat(32)}`, "/operator/nothing"])
      expect([path, (await get(path)).status]).toEqual([path, 404]);
    for (const path of ["/operator", "/operator/traffic", "/docs/team"]) expect((await get(path)).text).not.toContain(other.accountId);
    expect((await post(`/keys/${other.keyId}/revoke`, {})).status).toBe(404);
    expect((await get(`/?account=${other.accountId}`)).text).toContain("Tenant");
    expect((await call("GET", "/api/v1/me", { key: other.key })).status).toBe(200);
  });
});

describe("In a frame", () => {
  const enterFrame = async () => {
    const token = await newToken({ embed: true, page: "/keys" });
    const page = await sendRequest("GET", `/portal?token=${token}`, inFrame);
    const cookie = "portal-check=1";
    return { token, page, claimed: await claim(token, { ...inFrame, Cookie: cookie }) };
  };

  it("a link with embed continues by itself, in a session of its own, and only for the team's origins", async () => {
    const { page, claimed } = await enterFrame();
    const ancestors = (answer: Answer) => /frame-ancestors ([^;]*)/.exec(answer.headers.get("Content-Security-Policy") ?? "")?.[1];
    expect([page.text.includes("data-continue"), page.headers.get("X-Frame-Options"), ancestors(page)]).toEqual([
      true,
      null,
      "http://localhost:3000",
    ]);
    expect(claimed.headers.get("Set-Cookie")).toMatch(
      /portal-frame=[^;]+; Max-Age=86400; Path=\/; HttpOnly; Secure; SameSite=None; Partitioned/,
    );
    const { get, post } = withCookie(portalCookieOf(claimed));
    const keys = await get("/keys", inFrame);
    expect([keys.status, keys.headers.get("X-Frame-Options"), ancestors(keys)]).toEqual([200, null, "http://localhost:3000"]);
    expect([
      keys.text.includes('<nav class="main"'),
      keys.text.includes("<footer"),
      keys.text.includes('data-framed-by="http://localhost:3000"'),
    ]).toEqual([false, false, true]);
    expect((await post("/keys", { name: "In a frame" }, inFrame)).status).toBe(200);
    const outside = await get("/keys");
    expect([redirectsToSignIn(outside), ancestors(outside)]).toEqual([true, "'none'"]);
  });

  it("a link without embed is for a tab", async () => {
    const token = await newToken();
    const page = await sendRequest("GET", `/portal?token=${token}`, inFrame);
    expect([page.headers.get("X-Frame-Options"), page.text.includes("data-continue")]).toEqual(["DENY", false]);
    expect((await claim(token, { ...inFrame, Cookie: "portal-check=1" })).status).toBe(403);
    expect((await claim(token)).status).toBe(303);
  });

  it("a link for somebody else replaces the session of the frame only if the reader agrees", async () => {
    const { claimed } = await enterFrame();
    const cookie = `${portalCookieOf(claimed)}; portal-check=1`;
    const token = await newToken({ embed: true, member: { external_id: "user_43" } });
    const page = await withCookie(cookie).get(`/portal?token=${token}`, inFrame);
    expect([page.text.includes("data-continue"), textOf(page).includes("Grace is signed in")]).toEqual([false, true]);
    expect((await withCookie(cookie).post("/portal", { token }, inFrame)).status).toBe(409);
    expect((await withCookie(cookie).post("/portal", { token, replace: hidden(page.text, "replace") }, inFrame)).status).toBe(303);
  });

  it("a browser that keeps no cookies there gets the link for a tab, which still works", async () => {
    const token = await newToken({ embed: true });
    const refused = await claim(token, inFrame);
    expect([refused.status, refused.text.includes(`href="/portal?token=${token}" target="_blank"`)]).toEqual([409, true]);
    expect((await claim(token)).status).toBe(303);
  });

  it("the session of a tab shows nothing, and neither does an overview without a session", async () => {
    const { cookie } = await enter();
    const framed = await withCookie(cookie).get("/keys", inFrame);
    expect([framed.status, framed.text.includes("<table"), framed.headers.get("X-Frame-Options")]).toEqual([403, false, "DENY"]);
    const open = await call("GET", "/keys", { ...inFrame, "Sec-Fetch-Site": "none" });
    expect([open.status, open.headers.get("X-Frame-Options")]).toEqual([403, "DENY"]);
  });
});

it("The forms of portal links need the header of a form", async () => {
  expect((await sendRequest("POST", "/portal", { ...formHeaders, "Content-Type": "application/json" }, "{}")).status).toBe(415);
});
