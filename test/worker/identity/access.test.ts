import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { describe, expect, inject, it } from "vitest";
import { createApp } from "../../../src/app.ts";
import { verifyAccess } from "../../../src/identity/access.ts";
import { makeSetup } from "../../../src/identity/invitations.ts";
import { listOffers } from "../../../src/identity/join.ts";
import { hourMs, minuteMs } from "../../../src/time/clock.ts";
import { hidden } from "../support/browse.ts";
import { answerOf, call, db, makeTenant, origin } from "../support/client.ts";
import { ask as askClosed, makePerson } from "../support/people.ts";

// Sign-in by Cloudflare Access: a team of our own, whose keys lie on a shelf as Access would give them.

const app = createApp({ isLocal: true, isOpen: false });
const audience = "4714c1358e65fe4b408ad6d432a5f878f08194bdb4752441fd56faefa9b2b6f2";

async function makeTeam() {
  const domain = `${inject("shelf")}/${crypto.randomUUID()}`;
  const keys: object[] = [];
  /** Has Access respond so to the question for its keys. */
  const serve = async (text: string, status = 200) =>
    (await fetch(`${domain}/cdn-cgi/access/certs`, { method: "PUT", body: text, headers: { "X-Status": String(status) } })).text();
  const serveKeys = () => serve(JSON.stringify({ keys }));
  const makeKey = async (kid: string) => {
    const { privateKey, publicKey } = await generateKeyPair("RS256", { extractable: true });
    keys.push({ ...(await exportJWK(publicKey)), kid, alg: "RS256", use: "sig" });
    await serveKeys();
    return privateKey;
  };
  const privateKey = await makeKey("first");
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
  const ask = async (
    method: string,
    path: string,
    token: string | null,
    body?: string,
    { settings = {}, account }: { settings?: Partial<Env>; account?: string } = {},
  ) => {
    const ctx = createExecutionContext();
    const headers = {
      Origin: origin,
      ...(account !== undefined && { Cookie: `account=${account}` }),
      "Content-Type": "application/x-www-form-urlencoded",
      ...(token !== null && { "Cf-Access-Jwt-Assertion": token }),
    };
    const request = new Request(origin + path, { method, headers, redirect: "manual", ...(body !== undefined && { body }) });
    const bindings = { ...env, ACCESS_TEAM_DOMAIN: domain, ACCESS_AUDIENCE: audience, ...settings } as Env;
    const answer = await answerOf(await app.fetch(request, bindings, ctx));
    await waitOnExecutionContext(ctx);
    return answer;
  };
  return { config: { teamDomain: domain, audience }, makeKey, serve, serveKeys, sign, ask };
}

const anyAddress = () => `${crypto.randomUUID()}@example.com`;

const membersBy = async (email: string) =>
  (await env.DB.prepare("SELECT account_id, role FROM members WHERE email = ? AND removed_at IS NULL").bind(email).all()).results;

/** What the buttons of a page say. */
const buttonsOf = (text: string) =>
  [...text.matchAll(/<button[^>]*>([\s\S]*?)<\/button>/g)].map(([, inner = ""]) =>
    inner
      .replaceAll(/<[^>]+>/g, "")
      .replaceAll(/\s+/g, " ")
      .trim(),
  );

describe("Cloudflare Access", () => {
  it("lets a member in by a verified address, and tells others who may invite them", async () => {
    const { accountId } = await makeTenant();
    const { member } = await makePerson(accountId, "admin");
    const { sign, ask } = await makeTeam();
    const { status, text } = await ask("GET", "/settings", await sign(member.email.toUpperCase()));
    expect([status, text.includes(accountId), text.includes("(you)")]).toEqual([200, true, true]);
    const stranger = await ask("GET", "/settings", await sign(`${crypto.randomUUID()}@example.com`));
    expect([stranger.status, stranger.text.includes("You are not invited"), stranger.text.includes("admins can")]).toEqual([
      403,
      true,
      true,
    ]);
  });

  it("takes no link, passkey or code: the holder of a link would become a member under the address of somebody else", async () => {
    const { accountId } = await makeTenant();
    const owner = await makePerson(accountId);
    const { sign, ask } = await makeTeam();
    const email = anyAddress();
    const invited = await ask("POST", "/settings/invitations", await sign(owner.member.email), `email=${email}&role=viewer`);
    expect([invited.status, /https:\/\/[\w.:]+\/access,/.test(invited.text), invited.text.includes("/setup#")]).toEqual([200, true, false]);
    const token = await makeSetup({ db, now: Date.now() }, accountId);
    for (const path of ["/login", "/login/recovery", "/setup"]) expect((await ask("GET", path, await sign(email))).status, path).toBe(404);
    for (const path of ["/login", "/login/options", "/login/recovery", "/setup", "/setup/check", "/setup/options"])
      for (const signed of [null, await sign(email)])
        expect((await ask("POST", path, signed, `token=${token}&name=x&email=${email}&code=${owner.codes[0]}`)).status, path).toBe(404);
    expect(await membersBy(email)).toEqual([]);
  });

  it("lets an invited person join by a button that names the account and who invites, once, with the role that they were invited to", async () => {
    const { accountId, key } = await makeTenant();
    const owner = await makePerson(accountId);
    const email = anyAddress();
    await owner.post("/settings/invitations", { email, role: "viewer" });
    const { sign, ask } = await makeTeam();
    const token = await sign(email.toUpperCase());
    // Nobody joins by coming, nor by a form that was on its way.
    const visit = await ask("GET", "/keys?status=active", token);
    expect([visit.status, visit.headers.get("Location")]).toEqual([303, `/access?return_to=${encodeURIComponent("/keys?status=active")}`]);
    expect((await ask("POST", "/keys", token, "name=x")).headers.get("Location")).toBe("/access?return_to=%2F&unsent=1");
    expect(await membersBy(email)).toEqual([]);
    const { status, text } = await ask("GET", "/access?return_to=/keys", token);
    expect([status, buttonsOf(text)]).toEqual([200, [`Join Tenant, invited by ${owner.member.name}`]]);
    expect([text.includes(owner.member.email), text.includes(accountId)]).toEqual([true, true]);
    const joining = new URLSearchParams({ return_to: hidden(text, "return_to"), invitation: hidden(text, "invitation") }).toString();
    const joins = await Promise.all([1, 2, 3].map(() => ask("POST", "/access/join", token, joining)));
    expect(joins.map(({ status: each }) => each).toSorted()).toEqual([303, 422, 422]);
    const joined = joins.find(({ status: each }) => each === 303);
    expect([joined?.headers.get("Location"), joined?.headers.get("Set-Cookie")]).toEqual(["/keys", expect.stringContaining(accountId)]);
    expect((await ask("GET", "/keys", token)).status).toBe(200);
    expect((await ask("POST", "/keys", token, "name=x")).text).toContain("Your role is viewer");
    expect(await membersBy(email)).toEqual([{ account_id: accountId, role: "viewer" }]);
    const { body } = await call("GET", "/api/v1/events?type=member.joined", { key });
    expect(body.data[0].data).toMatchObject({ email, role: "viewer" });
    const id = await env.DB.prepare("SELECT id FROM members WHERE email = ?").bind(email).first<string>("id");
    await owner.post(`/settings/people/${id}/remove`);
    expect((await ask("GET", "/keys", token)).status).toBe(403);
  });

  it("shows the invitations of each account, however many another has made", async () => {
    const [one, other] = [(await makeTenant()).accountId, (await makeTenant()).accountId];
    const email = `${crypto.randomUUID()}@acme.dev`;
    const invited = (accountId: string, count: number, createdAt: number) =>
      env.DB.prepare(
        `INSERT INTO invitations (token_hash, id, account_id, kind, role, email, expires_at, created_at)
        WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ?1)
        SELECT lower(hex(randomblob(32))), 'inv_' || lower(hex(randomblob(16))), ?2, 'invite', 'viewer', ?3, ?4 + 86400000, ?4 FROM counted`,
      )
        .bind(count, accountId, email, createdAt)
        .run();
    await invited(one, 150, Date.now() - 1000);
    await invited(other, 1, Date.now());
    const offers = await listOffers(db, email, Date.now());
    expect(offers).toHaveLength(100);
    expect(offers.slice(0, 2).map(({ invitation }) => invitation.accountId)).toEqual([one, other]);
  });

  it("gives a removed member nothing but a new invitation, which takes the button again", async () => {
    const { accountId } = await makeTenant();
    const [owner, gone] = [await makePerson(accountId), await makePerson(accountId, "admin")];
    const { email } = gone.member;
    const { sign, ask } = await makeTeam();
    const token = await sign(email);
    expect((await ask("GET", "/keys", token)).status).toBe(200);
    await gone.post("/settings/invitations", { email: anyAddress(), role: "viewer" });
    await env.DB.prepare("UPDATE invitations SET email = ?, invited_by = ? WHERE account_id = ? AND used_by IS NULL")
      .bind(email, owner.member.id, accountId)
      .run();
    await owner.post(`/settings/people/${gone.member.id}/remove`);
    expect([(await ask("GET", "/keys", token)).status, (await ask("GET", "/access", token)).status]).toEqual([403, 403]);
    await owner.post("/settings/invitations", { email, role: "viewer" });
    expect((await ask("GET", "/keys", token)).headers.get("Location")).toBe("/access?return_to=%2Fkeys");
    expect(await membersBy(email)).toEqual([]);
  });

  it("takes up no invitation of another address, none that was withdrawn, and none to a suspended account", async () => {
    const { accountId } = await makeTenant();
    const owner = await makePerson(accountId);
    const email = anyAddress();
    await owner.post("/settings/invitations", { email, role: "viewer" });
    const id = await env.DB.prepare("SELECT id FROM invitations WHERE email = ?").bind(email).first<string>("id");
    const { sign, ask } = await makeTeam();
    const join = async (address: string) => (await ask("POST", "/access/join", await sign(address), `invitation=${id}`)).status;
    expect(await join(anyAddress())).toBe(403);
    expect(await join((await makePerson(accountId, "viewer")).member.email)).toBe(422);
    const suspend = (at: number | null) => env.DB.prepare("UPDATE accounts SET suspended_at = ? WHERE id = ?").bind(at, accountId).run();
    await suspend(Date.now());
    expect(await join(email)).toBe(403);
    await suspend(null);
    await owner.post(`/settings/invitations/${id}/withdraw`);
    expect([await join(email), await membersBy(email)]).toEqual([403, []]);
  });

  it("lets a member of several accounts choose, and chooses for nobody", async () => {
    const [one, two, strange] = [await makeTenant(), await makeTenant(), await makeTenant()];
    const [first, second] = [await makePerson(one.accountId), await makePerson(two.accountId, "viewer")];
    const { email } = first.member;
    await env.DB.prepare("UPDATE members SET email = ?, email_key = ? WHERE id = ?").bind(email, email, second.member.id).run();
    const { sign, ask } = await makeTeam();
    const token = await sign(email);
    const shown = async (account?: string) =>
      /<code>(acc_[0-9a-f]+)<\/code>/.exec((await ask("GET", "/settings", token, undefined, account ? { account } : {})).text)?.[1];
    expect((await ask("GET", "/keys", token)).headers.get("Location")).toBe("/access?return_to=%2Fkeys");
    // One that was chosen before, and is no longer theirs, is not replaced by another.
    expect((await ask("GET", "/keys", token, undefined, { account: strange.accountId })).headers.get("Location")).toMatch(/^\/access/);
    const { text } = await ask("GET", "/access", token);
    expect(buttonsOf(text)).toEqual(["Open Tenant", "Open Tenant"]);
    expect([text.includes(one.accountId), text.includes(two.accountId), text.includes(strange.accountId)]).toEqual([true, true, false]);
    const choose = (account: string) =>
      ask("POST", "/access/account", token, new URLSearchParams({ account, return_to: "/keys" }).toString());
    const chosen = await choose(two.accountId);
    expect([chosen.headers.get("Location"), chosen.headers.get("Set-Cookie")]).toEqual(["/keys", expect.stringContaining(two.accountId)]);
    expect([await shown(one.accountId), await shown(two.accountId)]).toEqual([one.accountId, two.accountId]);
    expect((await ask("POST", "/keys", token, "name=x", { account: two.accountId })).text).toContain("Your role is viewer");
    const refused = await choose(strange.accountId);
    expect([refused.status, refused.headers.get("Set-Cookie")]).toEqual([422, null]);
    const page = await ask("GET", "/settings", token, undefined, { account: one.accountId });
    expect(page.text).toContain('<a href="/access">Switch account</a>');
  });

  it("is the only way to these pages: without it they are not there", async () => {
    const { cookie } = await makePerson((await makeTenant()).accountId);
    const { ask } = await makeTeam();
    const settings = { ACCESS_TEAM_DOMAIN: "", ACCESS_AUDIENCE: "" } as never;
    expect((await askClosed("GET", "/access", { Cookie: cookie })).status).toBe(404);
    expect((await ask("POST", "/access/join", null, "invitation=inv_1", { settings })).status).toBe(404);
    expect((await ask("POST", "/access/join", null, "invitation=inv_1")).status).toBe(403);
  });

  it.each(["\u212aate", "kate\u017f", "\u0131an", "stra\u00dfe", "\uff4bate"])(
    "lets nobody in by %s, an address with a letter that others read as one of ASCII, and invites none",
    async (name) => {
      const { accountId } = await makeTenant();
      const owner = await makePerson(accountId);
      const domain = `${crypto.randomUUID()}.example`;
      const victims = [name.toLowerCase(), name.toUpperCase().toLowerCase(), name.normalize("NFKC").toLowerCase()];
      for (const victim of new Set(victims)) {
        const { member } = await makePerson(accountId, "viewer");
        const email = `${victim}@${domain}`;
        await env.DB.prepare("UPDATE members SET email = ?, email_key = ? WHERE id = ?").bind(email, email, member.id).run();
      }
      const { sign, ask } = await makeTeam();
      expect((await ask("GET", "/keys", await sign(`${name}@${domain}`))).status).toBe(403);
      const refused = await owner.post("/settings/invitations", { email: `${name}@${domain}`, role: "viewer" });
      expect([refused.status, refused.text.includes("letters that can be read as A to Z")]).toEqual([422, true]);
      const fields = { token: await makeSetup({ db, now: Date.now() }, accountId), name: "x", email: `${name}@${domain}` };
      const asked = await askClosed(
        "POST",
        "/setup/options",
        { Origin: origin, "Content-Type": "application/x-www-form-urlencoded" },
        new URLSearchParams(fields).toString(),
      );
      expect([asked.status, asked.text.includes("letters that can be read as A to Z")]).toEqual([422, true]);
    },
  );

  it("tells addresses apart that differ in the case of other letters than ASCII's, and not by that of ASCII's", async () => {
    const { accountId } = await makeTenant();
    const owner = await makePerson(accountId);
    const domain = `${crypto.randomUUID()}.example`;
    await owner.post("/settings/invitations", { email: `\u00c9va@${domain}`, role: "viewer" });
    const { sign, ask } = await makeTeam();
    expect((await ask("GET", "/keys", await sign(`\u00e9va@${domain}`))).status).toBe(403);
    expect((await ask("GET", "/keys", await sign(`\u00c9VA@${domain.toUpperCase()}`))).status).toBe(303);
  });

  it("refuses every token that is not its own, for this application, now", async () => {
    const { accountId } = await makeTenant();
    const { member, cookie } = await makePerson(accountId);
    const { sign, ask } = await makeTeam();
    const other = await makeTeam();
    const { privateKey: forger } = await generateKeyPair("RS256");
    const good = await sign(member.email);
    const [head = "", payload = ""] = good.split(".");
    const unsigned = `${Buffer.from('{"alg":"none"}').toString("base64url")}.${payload}.`;
    const tokens: [string, string | null][] = [
      ["none", null],
      ["no token", "x"],
      ["another application's", await sign(member.email, { aud: "another" })],
      ["another team's", await other.sign(member.email)],
      ["another issuer's", await sign(member.email, { iss: other.config.teamDomain })],
      ["a forger's", await sign(member.email, { key: forger })],
      ["without an address", await sign(undefined)],
      ["ended", await sign(member.email, { agoMs: 10 * minuteMs, forMs: minuteMs })],
      ["unsigned", unsigned],
      [
        "with another's payload",
        `${head}.${Buffer.from(JSON.stringify({ email: member.email })).toString("base64url")}.${good.split(".")[2]}`,
      ],
    ];
    for (const [name, token] of tokens) expect((await ask("GET", "/settings", token)).status, name).toBe(403);
    expect((await ask("GET", "/settings", good)).status).toBe(200);
    // A session by passkey does not get past Access.
    expect(cookie).toMatch(/^session=/);
  });

  it("asks for the keys of a team once a minute at most, for any tokens", async () => {
    const { accountId } = await makeTenant();
    const { member } = await makePerson(accountId);
    const { sign, ask, makeKey } = await makeTeam();
    expect((await ask("GET", "/keys", await sign(member.email))).status).toBe(200);
    const key = await makeKey("second");
    // The keys were read a moment ago, and are asked for once a minute at most.
    expect((await ask("GET", "/keys", await sign(member.email, { key, kid: "second" }))).status).toBe(403);
  });

  describe("keys", () => {
    const forMs = 48 * hourMs;
    const garbage: [string, string, number][] = [
      ["an error with a set", '{"keys":[]}', 500],
      ["a good set with another status", "", 203],
      ["a page", "<html>", 200],
      ["null", "null", 200],
      ["no set", "{}", 200],
      ["an empty set", '{"keys":[]}', 200],
      ["a set of nothing", '{"keys":[null,1,"x",{}]}', 200],
      ["a set of keys without their numbers", '{"keys":[{"kty":"RSA","kid":"first","alg":"RS256"}]}', 200],
      ["a set of shared secrets", '{"keys":[{"kty":"oct","kid":"first","alg":"HS256","k":"AAAA"}]}', 200],
    ];

    it.each(garbage)("that come as %s are never taken: they are asked for again at the next token", async (_, text, status) => {
      const { config, sign, serve, serveKeys } = await makeTeam();
      const token = await sign("ada@example.com");
      const good = await (await fetch(`${config.teamDomain}/cdn-cgi/access/certs`)).text();
      await serve(text || good, status);
      const now = Date.now();
      await expect(verifyAccess(config, token, now)).rejects.toMatchObject({ code: "unavailable" });
      await serveKeys();
      expect((await verifyAccess(config, token, now + 1)).email).toBe("ada@example.com");
    });

    it.each(garbage)(
      "of before go on where %s comes in their place, for a day, and are asked for again in a minute",
      async (_, text, status) => {
        const { config, sign, serve, serveKeys, makeKey } = await makeTeam();
        const token = await sign("ada@example.com", { forMs });
        const good = await (await fetch(`${config.teamDomain}/cdn-cgi/access/certs`)).text();
        const now = Date.now();
        await verifyAccess(config, token, now);
        await serve(text || good, status);
        const missing = await sign("eve@example.com", { kid: "third", forMs });
        await expect(verifyAccess(config, missing, now + 2 * minuteMs)).rejects.toMatchObject({ code: "forbidden" });
        for (const laterMs of [2 * minuteMs, 61 * minuteMs, 23 * hourMs])
          expect((await verifyAccess(config, token, now + laterMs)).email, String(laterMs)).toBe("ada@example.com");
        await expect(verifyAccess(config, token, now + 25 * hourMs)).rejects.toMatchObject({ code: "unavailable" });
        const key = await makeKey("second");
        await serveKeys();
        const newer = await sign("ada@example.com", { key, kid: "second", forMs });
        expect((await verifyAccess(config, newer, now + 26 * hourMs)).email).toBe("ada@example.com");
      },
    );

    it("that are bad beside good ones take nothing from them", async () => {
      const { config, sign, serve } = await makeTeam();
      const { keys } = JSON.parse(await (await fetch(`${config.teamDomain}/cdn-cgi/access/certs`)).text());
      await serve(JSON.stringify({ keys: [null, { kty: "RSA", kid: "bad" }, { kty: "OKP", kid: "other" }, ...keys] }));
      expect((await verifyAccess(config, await sign("ada@example.com"), Date.now())).email).toBe("ada@example.com");
    });
  });

  it("lets nobody in where it is half set up, or its keys cannot be had", async () => {
    const { accountId } = await makeTenant();
    const { member } = await makePerson(accountId);
    const { sign, ask } = await makeTeam();
    const token = await sign(member.email);
    expect((await ask("GET", "/keys", token, undefined, { settings: { ACCESS_AUDIENCE: "" as never } })).status).toBe(503);
    expect((await ask("GET", "/keys", token, undefined, { settings: { ACCESS_TEAM_DOMAIN: "" as never } })).status).toBe(503);
    expect((await ask("GET", "/keys", token, undefined, { settings: { ACCESS_TEAM_DOMAIN: "http://127.0.0.1:1" as never } })).status).toBe(
      503,
    );
  });

  it("asks for a token of the last ten minutes before a secret is made, and keeps the form meanwhile", async () => {
    const { accountId, key } = await makeTenant();
    const { member } = await makePerson(accountId);
    const { sign, ask } = await makeTeam();
    const asked = await ask("POST", "/keys", await sign(member.email, { agoMs: 11 * minuteMs }), "name=Kept&scopes=tasks:read");
    expect([asked.status, asked.text.includes("/cdn-cgi/access/logout"), asked.text.includes('name="name" value="Kept"')]).toEqual([
      403,
      true,
      true,
    ]);
    const made = await ask("POST", "/keys", await sign(member.email, { agoMs: 9 * minuteMs }), "name=Kept&scopes=tasks:read");
    expect([made.status, made.text.includes('aria-label="Secret key"')]).toEqual([200, true]);
    expect((await call("GET", "/api/v1/keys", { key })).body.data.map(({ name }: { name: string }) => name)).toContain("Kept");
  });
});
