import { env } from "cloudflare:workers";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { describe, expect, inject, it } from "vitest";
import { verifyAccess } from "../../../src/identity/access.ts";
import { createSetupLink } from "../../../src/identity/invitations.ts";
import { listReceivedInvitations } from "../../../src/identity/join.ts";
import { hourMs, minuteMs } from "../../../src/lib/time/clock.ts";
import { hidden } from "../support/browse.ts";
import { call, db, makeTenant } from "../support/client.ts";
import {
  insertInvitations,
  readCurrentMembers,
  readInvitationId,
  readMemberId,
  redirectOpenInvitations,
  setMemberEmail,
} from "../support/member-rows.ts";
import { setSuspendedAt } from "../support/operations-rows.ts";
import { formHeaders, makePerson, newEmailAddress, postForm, sendRequest } from "../support/people.ts";

// These tests check the sign-in with Cloudflare Access. A test server publishes the signing keys of each team. The server uses the same
// path as Access.

const audience = "4714c1358e65fe4b408ad6d432a5f878f08194bdb4752441fd56faefa9b2b6f2";

async function makeTeam() {
  const domain = `${inject("shelf")}/${crypto.randomUUID()}`;
  const certsUrl = `${domain}/cdn-cgi/access/certs`;
  const keys: object[] = [];
  /** Sets the response of the URL that publishes the team's signing keys. */
  const serve = async (text: string, status = 200) =>
    (await fetch(certsUrl, { method: "PUT", body: text, headers: { "X-Status": String(status) } })).text();
  const serveKeys = () => serve(JSON.stringify({ keys }));
  const readServedKeys = async () => (await fetch(certsUrl)).text();
  const makeSigningKey = async (kid: string) => {
    const { privateKey, publicKey } = await generateKeyPair("RS256", { extractable: true });
    keys.push({ ...(await exportJWK(publicKey)), kid, alg: "RS256", use: "sig" });
    await serveKeys();
    return privateKey;
  };
  const privateKey = await makeSigningKey("first");
  const sign = (
    email: string | undefined,
    { key = privateKey, kid = "first", aud = audience, iss = domain, agoMs = 0, forMs = 60 * minuteMs } = {},
  ) => {
    const seconds = (ms: number) => Math.floor(ms / 1000);
    const issuedAt = Date.now() - agoMs;
    return new SignJWT(email === undefined ? {} : { email })
      .setProtectedHeader({ alg: "RS256", kid })
      .setIssuer(iss)
      .setAudience(aud)
      .setIssuedAt(seconds(issuedAt))
      .setExpirationTime(seconds(issuedAt + forMs))
      .sign(key);
  };
  /** Sends a request with a token, as if the request came through Access. The Worker is configured for the team. */
  const send = async (
    method: string,
    path: string,
    token: string | null,
    body?: string,
    { settings = {}, account }: { settings?: Partial<Env>; account?: string } = {},
  ) => {
    const headers = {
      ...formHeaders,
      ...(account !== undefined && { Cookie: `account=${account}` }),
      ...(token !== null && { "Cf-Access-Jwt-Assertion": token }),
    };
    const bindings = { ...env, ACCESS_TEAM_DOMAIN: domain, ACCESS_AUDIENCE: audience, ...settings } as Env;
    return sendRequest(method, path, headers, body, bindings);
  };
  return { config: { teamDomain: domain, audience }, makeSigningKey, serve, serveKeys, readServedKeys, sign, send };
}

/** Returns the labels of the buttons on a page. */
const buttonsIn = (text: string) =>
  [...text.matchAll(/<button[^>]*>([\s\S]*?)<\/button>/g)].map(([, inner = ""]) =>
    inner
      .replaceAll(/<[^>]+>/g, "")
      .replaceAll(/\s+/g, " ")
      .trim(),
  );

describe("Cloudflare Access", () => {
  it("signs a member in by a verified email address, and tells others who can invite them", async () => {
    const { accountId } = await makeTenant();
    const { member } = await makePerson(accountId, "admin");
    const { sign, send } = await makeTeam();
    const { status, text } = await send("GET", "/settings", await sign(member.email.toUpperCase()));
    expect([status, text.includes(accountId), text.includes("(you)")]).toEqual([200, true, true]);
    const stranger = await send("GET", "/settings", await sign(newEmailAddress()));
    expect([stranger.status, stranger.text.includes("You are not invited"), stranger.text.includes("admins can")]).toEqual([
      403,
      true,
      true,
    ]);
  });

  it("accepts no setup link, passkey or recovery code", async () => {
    // If setup links were accepted, anyone with such a link could become a member under another person's email address.
    const { accountId } = await makeTenant();
    const owner = await makePerson(accountId);
    const { sign, send } = await makeTeam();
    const email = newEmailAddress();
    const invited = await send("POST", "/settings/invitations", await sign(owner.member.email), `email=${email}&role=viewer`);
    expect([invited.status, /https:\/\/[\w.:]+\/access,/.test(invited.text), invited.text.includes("/setup#")]).toEqual([200, true, false]);
    const token = await createSetupLink({ db, now: Date.now() }, accountId);
    for (const path of ["/login", "/login/recovery", "/setup"]) expect((await send("GET", path, await sign(email))).status, path).toBe(404);
    for (const path of ["/login", "/login/options", "/login/recovery", "/setup", "/setup/check", "/setup/options"])
      for (const accessToken of [null, await sign(email)])
        expect((await send("POST", path, accessToken, `token=${token}&name=x&email=${email}&code=${owner.codes[0]}`)).status, path).toBe(
          404,
        );
    expect(await readCurrentMembers(email)).toEqual([]);
  });

  it("lets an invited person join once, with the invited role, by a button that names the account and the inviter", async () => {
    const { accountId, key } = await makeTenant();
    const owner = await makePerson(accountId);
    const email = newEmailAddress();
    await owner.post("/settings/invitations", { email, role: "viewer" });
    const { sign, send } = await makeTeam();
    const token = await sign(email.toUpperCase());
    // A person becomes a member only by sending the join form. A person does not become a member by opening a page or by sending another
    // form.
    const visit = await send("GET", "/keys?status=active", token);
    expect([visit.status, visit.headers.get("Location")]).toEqual([303, `/access?return_to=${encodeURIComponent("/keys?status=active")}`]);
    expect((await send("POST", "/keys", token, "name=x")).headers.get("Location")).toBe("/access?return_to=%2F&unsent=1");
    expect(await readCurrentMembers(email)).toEqual([]);
    const { status, text } = await send("GET", "/access?return_to=/keys", token);
    expect([status, buttonsIn(text)]).toEqual([200, [`Join Tenant, invited by ${owner.member.name}`]]);
    expect([text.includes(owner.member.email), text.includes(accountId)]).toEqual([true, true]);
    const joinForm = new URLSearchParams({ return_to: hidden(text, "return_to"), invitation: hidden(text, "invitation") }).toString();
    const responses = await Promise.all([1, 2, 3].map(() => send("POST", "/access/join", token, joinForm)));
    expect(responses.map((response) => response.status).toSorted()).toEqual([303, 422, 422]);
    const joined = responses.find((response) => response.status === 303);
    expect([joined?.headers.get("Location"), joined?.headers.get("Set-Cookie")]).toEqual(["/keys", expect.stringContaining(accountId)]);
    expect((await send("GET", "/keys", token)).status).toBe(200);
    expect((await send("POST", "/keys", token, "name=x")).text).toContain("Your role is viewer");
    expect(await readCurrentMembers(email)).toEqual([{ account_id: accountId, role: "viewer" }]);
    const { body } = await call("GET", "/api/v1/events?type=member.joined", { key });
    expect(body.data[0].data).toMatchObject({ email, role: "viewer" });
    await owner.post(`/settings/members/${await readMemberId(email)}/remove`);
    expect((await send("GET", "/keys", token)).status).toBe(403);
  });

  it("offers the invitations of every account, even if one account has sent more than fit in the list", async () => {
    const [first, second] = [(await makeTenant()).accountId, (await makeTenant()).accountId];
    const email = newEmailAddress();
    await insertInvitations(first, email, { count: 150, createdAt: Date.now() - 1000 });
    await insertInvitations(second, email, { count: 1, createdAt: Date.now() });
    const offers = await listReceivedInvitations(db, email, Date.now());
    expect(offers).toHaveLength(100);
    expect(offers.slice(0, 2).map(({ invitation }) => invitation.accountId)).toEqual([first, second]);
  });

  it("requires a new invitation and the join button before a removed member can return", async () => {
    const { accountId } = await makeTenant();
    const [owner, removed] = [await makePerson(accountId), await makePerson(accountId, "admin")];
    const { email } = removed.member;
    const { sign, send } = await makeTeam();
    const token = await sign(email);
    expect((await send("GET", "/keys", token)).status).toBe(200);
    await removed.post("/settings/invitations", { email: newEmailAddress(), role: "viewer" });
    await redirectOpenInvitations(accountId, email, owner.member.id);
    await owner.post(`/settings/members/${removed.member.id}/remove`);
    expect([(await send("GET", "/keys", token)).status, (await send("GET", "/access", token)).status]).toEqual([403, 403]);
    await owner.post("/settings/invitations", { email, role: "viewer" });
    expect((await send("GET", "/keys", token)).headers.get("Location")).toBe("/access?return_to=%2Fkeys");
    expect(await readCurrentMembers(email)).toEqual([]);
  });

  it("rejects an invitation to another address, a withdrawn invitation, and an invitation of a suspended account", async () => {
    const { accountId } = await makeTenant();
    const owner = await makePerson(accountId);
    const email = newEmailAddress();
    await owner.post("/settings/invitations", { email, role: "viewer" });
    const id = await readInvitationId(email);
    const { sign, send } = await makeTeam();
    const joinAs = async (address: string) => (await send("POST", "/access/join", await sign(address), `invitation=${id}`)).status;
    expect(await joinAs(newEmailAddress())).toBe(403);
    expect(await joinAs((await makePerson(accountId, "viewer")).member.email)).toBe(422);
    await setSuspendedAt(accountId, Date.now());
    expect(await joinAs(email)).toBe(403);
    await setSuspendedAt(accountId, null);
    await owner.post(`/settings/invitations/${id}/withdraw`);
    expect([await joinAs(email), await readCurrentMembers(email)]).toEqual([403, []]);
  });

  it("asks a member of several accounts to select one, and never selects an account itself", async () => {
    const [first, second, foreign] = [await makeTenant(), await makeTenant(), await makeTenant()];
    const [{ member }, viewer] = [await makePerson(first.accountId), await makePerson(second.accountId, "viewer")];
    await setMemberEmail(viewer.member.id, member.email);
    const { sign, send } = await makeTeam();
    const token = await sign(member.email);
    const shownAccount = async (account: string) =>
      /<code>(acc_[0-9a-f]+)<\/code>/.exec((await send("GET", "/settings", token, undefined, { account })).text)?.[1];
    expect((await send("GET", "/keys", token)).headers.get("Location")).toBe("/access?return_to=%2Fkeys");
    // The cookie names an account that the member does not belong to. The app does not select one of the member's own accounts instead.
    expect((await send("GET", "/keys", token, undefined, { account: foreign.accountId })).headers.get("Location")).toMatch(/^\/access/);
    const { text } = await send("GET", "/access", token);
    expect(buttonsIn(text)).toEqual(["Open Tenant", "Open Tenant"]);
    expect([first, second, foreign].map(({ accountId }) => text.includes(accountId))).toEqual([true, true, false]);
    const select = (account: string) =>
      send("POST", "/access/account", token, new URLSearchParams({ account, return_to: "/keys" }).toString());
    const selected = await select(second.accountId);
    expect([selected.headers.get("Location"), selected.headers.get("Set-Cookie")]).toEqual([
      "/keys",
      expect.stringContaining(second.accountId),
    ]);
    expect([await shownAccount(first.accountId), await shownAccount(second.accountId)]).toEqual([first.accountId, second.accountId]);
    expect((await send("POST", "/keys", token, "name=x", { account: second.accountId })).text).toContain("Your role is viewer");
    const denied = await select(foreign.accountId);
    expect([denied.status, denied.headers.get("Set-Cookie")]).toEqual([422, null]);
    const page = await send("GET", "/settings", token, undefined, { account: first.accountId });
    expect(page.text).toContain('<a href="/access">Switch account</a>');
  });

  it("serves its pages only if it is configured and only with a token", async () => {
    const { cookie } = await makePerson((await makeTenant()).accountId);
    const { send } = await makeTeam();
    const settings = { ACCESS_TEAM_DOMAIN: "", ACCESS_AUDIENCE: "" } as never;
    expect((await sendRequest("GET", "/access", { Cookie: cookie })).status).toBe(404);
    expect((await send("POST", "/access/join", null, "invitation=inv_1", { settings })).status).toBe(404);
    expect((await send("POST", "/access/join", null, "invitation=inv_1")).status).toBe(403);
  });

  it.each(["\u212aate", "kate\u017f", "\u0131an", "stra\u00dfe", "\uff4bate"])(
    "rejects %s, an address with a letter that can be read as ASCII, at sign-in and in invitations",
    async (name) => {
      const { accountId } = await makeTenant();
      const owner = await makePerson(accountId);
      const domain = `${crypto.randomUUID()}.example`;
      const email = `${name}@${domain}`;
      const similarNames = [name.toLowerCase(), name.toUpperCase().toLowerCase(), name.normalize("NFKC").toLowerCase()];
      for (const similarName of new Set(similarNames)) {
        const { member } = await makePerson(accountId, "viewer");
        await setMemberEmail(member.id, `${similarName}@${domain}`);
      }
      const { sign, send } = await makeTeam();
      expect((await send("GET", "/keys", await sign(email))).status).toBe(403);
      const invitation = await owner.post("/settings/invitations", { email, role: "viewer" });
      expect([invitation.status, invitation.text.includes("letters that can be read as A to Z")]).toEqual([422, true]);
      const token = await createSetupLink({ db, now: Date.now() }, accountId);
      const setup = await postForm("/setup/options", { token, name: "x", email });
      expect([setup.status, setup.text.includes("letters that can be read as A to Z")]).toEqual([422, true]);
    },
  );

  it("ignores the case of ASCII letters in email addresses, and distinguishes the case of other letters", async () => {
    const { accountId } = await makeTenant();
    const owner = await makePerson(accountId);
    const domain = `${crypto.randomUUID()}.example`;
    await owner.post("/settings/invitations", { email: `\u00c9va@${domain}`, role: "viewer" });
    const { sign, send } = await makeTeam();
    expect((await send("GET", "/keys", await sign(`\u00e9va@${domain}`))).status).toBe(403);
    expect((await send("GET", "/keys", await sign(`\u00c9VA@${domain.toUpperCase()}`))).status).toBe(303);
  });

  it("rejects tokens that are forged, expired, or issued by another team or for another application", async () => {
    const { accountId } = await makeTenant();
    const { member, cookie } = await makePerson(accountId);
    const { sign, send } = await makeTeam();
    const otherTeam = await makeTeam();
    const { privateKey: unknownKey } = await generateKeyPair("RS256");
    const validToken = await sign(member.email);
    const [header = "", payload = "", signature = ""] = validToken.split(".");
    const base64url = (text: string) => Buffer.from(text).toString("base64url");
    const tokens: [string, string | null][] = [
      ["no token", null],
      ["a malformed token", "x"],
      ["another application", await sign(member.email, { aud: "another" })],
      ["another team", await otherTeam.sign(member.email)],
      ["another issuer", await sign(member.email, { iss: otherTeam.config.teamDomain })],
      ["an unknown signing key", await sign(member.email, { key: unknownKey })],
      ["no email address", await sign(undefined)],
      ["an expired token", await sign(member.email, { agoMs: 10 * minuteMs, forMs: minuteMs })],
      ["no signature", `${base64url('{"alg":"none"}')}.${payload}.`],
      ["another payload", `${header}.${base64url(JSON.stringify({ email: member.email }))}.${signature}`],
    ];
    for (const [name, token] of tokens) expect((await send("GET", "/settings", token)).status, name).toBe(403);
    expect((await send("GET", "/settings", validToken)).status).toBe(200);
    // A session cookie from a sign-in with a passkey does not replace the Access token.
    expect(cookie).toMatch(/^session=/);
  });

  it("fetches the signing keys of a team at most once a minute, even for a token with an unknown key", async () => {
    const { accountId } = await makeTenant();
    const { member } = await makePerson(accountId);
    const { sign, send, makeSigningKey } = await makeTeam();
    expect((await send("GET", "/keys", await sign(member.email))).status).toBe(200);
    const key = await makeSigningKey("second");
    // The first request fetched the signing keys less than a minute ago. The next request therefore does not fetch the keys again, and the
    // second key is unknown.
    expect((await send("GET", "/keys", await sign(member.email, { key, kid: "second" }))).status).toBe(403);
  });

  it("returns 503 if it is only partly configured, or if its signing keys cannot be fetched", async () => {
    const { accountId } = await makeTenant();
    const { member } = await makePerson(accountId);
    const { sign, send } = await makeTeam();
    const token = await sign(member.email);
    const statusWith = async (settings: object) => (await send("GET", "/keys", token, undefined, { settings })).status;
    expect(await statusWith({ ACCESS_AUDIENCE: "" })).toBe(503);
    expect(await statusWith({ ACCESS_TEAM_DOMAIN: "" })).toBe(503);
    expect(await statusWith({ ACCESS_TEAM_DOMAIN: "http://127.0.0.1:1" })).toBe(503);
  });

  it("requires a token from the last ten minutes before a key is created, and keeps the form", async () => {
    const { accountId, key } = await makeTenant();
    const { member } = await makePerson(accountId);
    const { sign, send } = await makeTeam();
    const keyForm = "name=Kept&scopes=tasks:read";
    const stepUp = await send("POST", "/keys", await sign(member.email, { agoMs: 11 * minuteMs }), keyForm);
    expect([stepUp.status, stepUp.text.includes("/cdn-cgi/access/logout"), stepUp.text.includes('name="name" value="Kept"')]).toEqual([
      403,
      true,
      true,
    ]);
    const created = await send("POST", "/keys", await sign(member.email, { agoMs: 9 * minuteMs }), keyForm);
    expect([created.status, created.text.includes('aria-label="Secret key"')]).toEqual([200, true]);
    expect((await call("GET", "/api/v1/keys", { key })).body.data.map(({ name }: { name: string }) => name)).toContain("Kept");
  });
});

describe("The signing keys of Cloudflare Access", () => {
  const email = "ada@example.com";
  const forMs = 48 * hourMs;
  const badResponses: [string, string | null, number][] = [
    ["status 500 and an empty key set", '{"keys":[]}', 500],
    ["status 203 and a valid key set", null, 203],
    ["HTML", "<html>", 200],
    ["null", "null", 200],
    ["an empty object", "{}", 200],
    ["an empty key set", '{"keys":[]}', 200],
    ["a key set without any key", '{"keys":[null,1,"x",{}]}', 200],
    ["an RSA key without modulus and exponent", '{"keys":[{"kty":"RSA","kid":"first","alg":"RS256"}]}', 200],
    ["a symmetric key", '{"keys":[{"kty":"oct","kid":"first","alg":"HS256","k":"AAAA"}]}', 200],
  ];

  it.each(badResponses)("are not accepted from a response with %s, and are fetched again for the next token", async (_, text, status) => {
    const { config, sign, serve, serveKeys, readServedKeys } = await makeTeam();
    const token = await sign(email);
    await serve(text ?? (await readServedKeys()), status);
    const now = Date.now();
    await expect(verifyAccess(config, token, now)).rejects.toMatchObject({ code: "unavailable" });
    await serveKeys();
    expect((await verifyAccess(config, token, now + 1)).email).toBe(email);
  });

  it.each(badResponses)(
    "stay valid for a day if a later response contains %s, and are fetched again after a minute",
    async (_, text, status) => {
      const { config, sign, serve, serveKeys, readServedKeys, makeSigningKey } = await makeTeam();
      const token = await sign(email, { forMs });
      const validKeys = await readServedKeys();
      const now = Date.now();
      await verifyAccess(config, token, now);
      await serve(text ?? validKeys, status);
      const tokenOfUnknownKey = await sign("eve@example.com", { kid: "third", forMs });
      await expect(verifyAccess(config, tokenOfUnknownKey, now + 2 * minuteMs)).rejects.toMatchObject({ code: "forbidden" });
      for (const laterMs of [2 * minuteMs, 61 * minuteMs, 23 * hourMs])
        expect((await verifyAccess(config, token, now + laterMs)).email, String(laterMs)).toBe(email);
      await expect(verifyAccess(config, token, now + 25 * hourMs)).rejects.toMatchObject({ code: "unavailable" });
      const key = await makeSigningKey("second");
      await serveKeys();
      const newToken = await sign(email, { key, kid: "second", forMs });
      expect((await verifyAccess(config, newToken, now + 26 * hourMs)).email).toBe(email);
    },
  );
});
