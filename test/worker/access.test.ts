import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { describe, expect, inject, it } from "vitest";
import { createApp } from "../../src/app.ts";
import { minuteMs } from "../../src/clock.ts";
import { answerOf, call, makeTenant, origin } from "./client.ts";
import { makePerson } from "./people.ts";

// Sign-in by Cloudflare Access: a team of our own, whose keys lie on a shelf as Access would give them.

const app = createApp({ isLocal: true, isOpen: false });
const audience = "4714c1358e65fe4b408ad6d432a5f878f08194bdb4752441fd56faefa9b2b6f2";

async function makeTeam() {
  const domain = `${inject("shelf")}/${crypto.randomUUID()}`;
  const keys: object[] = [];
  const makeKey = async (kid: string) => {
    const { privateKey, publicKey } = await generateKeyPair("RS256", { extractable: true });
    keys.push({ ...(await exportJWK(publicKey)), kid, alg: "RS256", use: "sig" });
    await (await fetch(`${domain}/cdn-cgi/access/certs`, { method: "PUT", body: JSON.stringify({ keys }) })).text();
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
  const ask = async (method: string, path: string, token: string | null, body?: string, settings: Partial<Env> = {}) => {
    const ctx = createExecutionContext();
    const headers = {
      Origin: origin,
      "Content-Type": "application/x-www-form-urlencoded",
      ...(token !== null && { "Cf-Access-Jwt-Assertion": token }),
    };
    const request = new Request(origin + path, { method, headers, redirect: "manual", ...(body !== undefined && { body }) });
    const bindings = { ...env, ACCESS_TEAM_DOMAIN: domain, ACCESS_AUDIENCE: audience, ...settings } as Env;
    const answer = await answerOf(await app.fetch(request, bindings, ctx));
    await waitOnExecutionContext(ctx);
    return answer;
  };
  return { domain, makeKey, sign, ask };
}

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

  it("lets an invited person join at their first visit, once, with the role that they were invited to", async () => {
    const { accountId, key } = await makeTenant();
    const owner = await makePerson(accountId);
    const email = `${crypto.randomUUID()}@example.com`;
    await owner.post("/settings/invitations", { email, role: "viewer" });
    const { sign, ask } = await makeTeam();
    const token = await sign(email);
    const visits = await Promise.all([1, 2, 3].map(() => ask("GET", "/keys", token)));
    expect(visits.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect((await ask("POST", "/keys", token, "name=x")).text).toContain("Your role is viewer");
    const { results } = await env.DB.prepare("SELECT role FROM members WHERE email = ?").bind(email).all();
    expect(results).toEqual([{ role: "viewer" }]);
    const { body } = await call("GET", "/api/v1/events?type=member.joined", { key });
    expect(body.data[0].data).toMatchObject({ email, role: "viewer" });
    await owner.post(
      `/settings/people/${(await env.DB.prepare("SELECT id FROM members WHERE email = ?").bind(email).first("id")) as string}/remove`,
    );
    expect((await ask("GET", "/keys", token)).status).toBe(403);
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
      ["another issuer's", await sign(member.email, { iss: other.domain })],
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

  it("asks for the keys of a team once a minute at most, whatever is sent", async () => {
    const { accountId } = await makeTenant();
    const { member } = await makePerson(accountId);
    const { sign, ask, makeKey } = await makeTeam();
    expect((await ask("GET", "/keys", await sign(member.email))).status).toBe(200);
    const key = await makeKey("second");
    // The keys were read a moment ago, and are asked for once a minute at most.
    expect((await ask("GET", "/keys", await sign(member.email, { key, kid: "second" }))).status).toBe(403);
  });

  it("lets nobody in where it is half set up, or its keys cannot be had", async () => {
    const { accountId } = await makeTenant();
    const { member } = await makePerson(accountId);
    const { sign, ask } = await makeTeam();
    const token = await sign(member.email);
    expect((await ask("GET", "/keys", token, undefined, { ACCESS_AUDIENCE: "" as never })).status).toBe(503);
    expect((await ask("GET", "/keys", token, undefined, { ACCESS_TEAM_DOMAIN: "" as never })).status).toBe(503);
    expect((await ask("GET", "/keys", token, undefined, { ACCESS_TEAM_DOMAIN: "http://127.0.0.1:1" as never })).status).toBe(503);
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
