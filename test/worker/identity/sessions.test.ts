import { env } from "cloudflare:workers";
import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { describe, expect, it } from "vitest";
import { operatorOn } from "../../../src/accounts/actor.ts";
import { byRecoveryCode, listSessions, openSession } from "../../../src/identity/sessions.ts";
import { idBound } from "../../../src/ids/ids.ts";
import { dayMs, hourMs, minuteMs } from "../../../src/time/clock.ts";
import { call, db, makeTenant } from "../support/client.ts";
import { age, ask, form, isOut, makePerson, type Person, sessionCookie, storeOwn, withCookie } from "../support/people.ts";

describe("A session", () => {
  it("shows the account of its member, and no other, for every request", async () => {
    const [mine, theirs] = [await makeTenant(), await makeTenant()];
    const { get, post, cookie } = await makePerson(mine.accountId);
    await makePerson(theirs.accountId);
    const shown = (text: string) => /<code>(acc_[0-9a-f]+)<\/code>/.exec(text)?.[1];
    expect(shown((await get(`/settings?account=${theirs.accountId}`)).text)).toBe(mine.accountId);
    expect(shown((await get("/settings", { Cookie: `${cookie}; account=${theirs.accountId}` })).text)).toBe(mine.accountId);
    expect((await get(`/keys/${theirs.keyId}`)).status).toBe(404);
    for (const path of [`/keys/${theirs.keyId}/revoke`, `/keys/${theirs.keyId}/rotate`, `/keys/${theirs.keyId}/disable`])
      expect((await post(path)).status, path).toBe(404);
    expect((await call("GET", "/api/v1/me", { key: theirs.key })).status).toBe(200);
  });

  it("ends twelve hours after its last page, and fourteen days after it began", async () => {
    const { accountId } = await makeTenant();
    const [idle, long] = [await makePerson(accountId), await makePerson(accountId)];
    await age(idle.member, "last_seen_at", 12 * hourMs - minuteMs);
    expect((await idle.get("/keys")).status).toBe(200);
    await age(idle.member, "last_seen_at", 12 * hourMs);
    expect(isOut(await idle.get("/keys"))).toBe(true);
    await age(long.member, "created_at", 14 * dayMs);
    expect(isOut(await long.get("/keys"))).toBe(true);
  });

  it("ends by sign-out, for everybody who has the cookie", async () => {
    const { accountId } = await makeTenant();
    const { post, cookie } = await makePerson(accountId);
    const out = await post("/logout");
    expect([out.status, out.headers.get("Location"), out.headers.get("Set-Cookie")]).toEqual([
      303,
      "/login",
      expect.stringMatching(/Max-Age=0/),
    ]);
    expect(isOut(await withCookie(cookie).get("/"))).toBe(true);
  });

  it("is a new one at each sign-in: none that was set before is taken up", async () => {
    const { accountId } = await makeTenant();
    const { codes } = await makePerson(accountId);
    const planted = `${"a".repeat(43)}.${"a".repeat(43)}=`;
    const body = new URLSearchParams({ code: codes[0] ?? "" }).toString();
    const entered = await ask("POST", "/login/recovery", { ...form, Cookie: `session=${planted}` }, body);
    const cookie = entered.headers.get("Set-Cookie") ?? "";
    expect(cookie).toMatch(/^session=[\w-]{43}\.[\w%]{43,90}; Max-Age=1209600; Path=\/; HttpOnly; SameSite=Lax$/);
    expect(cookie).not.toContain(planted);
    expect(isOut(await withCookie(`session=${planted}`).get("/"))).toBe(true);
  });

  it("that somebody has made up costs no query", async () => {
    const { accountId } = await makeTenant();
    const { cookie } = await makePerson(accountId);
    const [token, signature] = cookie.split(".");
    const madeUp = [`session=${"a".repeat(43)}`, `session=${"a".repeat(43)}.${signature}`, `${token}.${"a".repeat(43)}%3D`];
    const withoutDatabase = { ...env, DB: undefined as never };
    for (const each of madeUp) {
      const { status, headers } = await ask("GET", "/keys", { Cookie: each }, undefined, withoutDatabase);
      expect([each, status, headers.get("Location")]).toEqual([each, 303, "/login?return_to=%2Fkeys"]);
    }
    expect((await ask("GET", "/keys", { Cookie: cookie }, undefined, withoutDatabase)).status).toBe(500);
  });

  it("is ended by its member, and by an admin, not by another member, nor from another account", async () => {
    const { accountId } = await makeTenant();
    const elsewhere = await makePerson((await makeTenant()).accountId);
    const [admin, one, other] = [
      await makePerson(accountId, "admin"),
      await makePerson(accountId, "viewer"),
      await makePerson(accountId, "viewer"),
    ];
    const idOf = async ({ member }: { member: { id: string } }) =>
      String(await env.DB.prepare("SELECT id FROM sessions WHERE member_id = ?").bind(member.id).first("id"));
    const path = `/settings/sessions/${await idOf(one)}/end`;
    expect([(await other.post(path)).status, (await elsewhere.post(path)).status, (await one.get("/")).status]).toEqual([404, 404, 200]);
    expect((await admin.post(path)).status).toBe(303);
    expect(isOut(await one.get("/"))).toBe(true);
    expect((await other.post(`/settings/sessions/${await idOf(other)}/end`)).status).toBe(303);
    expect(isOut(await other.get("/"))).toBe(true);
  });

  it("is ended by an admin only where the admin may remove its member, so that nobody keeps an owner out", async () => {
    const { accountId } = await makeTenant();
    const [owner, admin] = [await makePerson(accountId), await makePerson(accountId, "admin")];
    const others = [owner, await makePerson(accountId, "admin"), await makePerson(accountId, "developer")];
    const ids = await Promise.all(
      others.map(({ member }) => env.DB.prepare("SELECT id FROM sessions WHERE member_id = ?").bind(member.id).first<string>("id")),
    );
    const { text } = await admin.get("/settings");
    expect(ids.map((id) => text.includes(`/settings/sessions/${id}/end`))).toEqual([false, false, true]);
    const statuses = await Promise.all(ids.map(async (id) => (await admin.post(`/settings/sessions/${id}/end`)).status));
    expect(statuses).toEqual([404, 404, 303]);
    expect(await Promise.all(others.map(async (each) => isOut(await each.get("/"))))).toEqual([false, false, true]);
    expect((await owner.post(`/settings/sessions/${ids[1]}/end`)).status).toBe(303);
  });

  it("by passkey is in the audit log 200 times a day, and one by recovery code always", async () => {
    const { accountId } = await makeTenant();
    const person = await makePerson(accountId, "viewer");
    const entries = () => env.DB.prepare("SELECT count(*) AS count FROM audit WHERE account_id = ?").bind(accountId).first<number>("count");
    await storeOwn(person, "session.started", 199);
    const before = (await entries()) ?? 0;
    const opens = (how: string) => openSession({ db }, person.member, Date.now(), { ip: null, country: null, userAgent: null }, how);
    await opens("passkey");
    expect(await entries()).toBe(before + 1);
    const token = await opens("passkey");
    expect([await entries(), (await withCookie(await sessionCookie(token)).get("/settings")).status]).toEqual([before + 1, 200]);
    await opens(byRecoveryCode);
    expect((await person.post("/logout")).status).toBe(303);
    expect(await entries()).toBe(before + 3);
    await env.DB.prepare("UPDATE audit SET id = ?1 || substr(id, -20) WHERE account_id = ?2")
      .bind(idBound("aud", Date.now() - dayMs - minuteMs), accountId)
      .run();
    await opens("passkey");
    expect(await entries()).toBe(before + 4);
  });

  it("of one's own leaves 200 entries a day when it ends, and one of somebody else always", async () => {
    const { accountId } = await makeTenant();
    const [owner, viewer] = [await makePerson(accountId), await makePerson(accountId, "viewer")];
    await storeOwn(owner, "session.ended", 200);
    const ended = () =>
      env.DB.prepare("SELECT count(*) AS count FROM audit WHERE account_id = ? AND action = 'session.ended'")
        .bind(accountId)
        .first("count");
    const sessionOf = ({ member }: Person) => env.DB.prepare("SELECT id FROM sessions WHERE member_id = ?").bind(member.id).first("id");
    expect((await owner.post(`/settings/sessions/${await sessionOf(viewer)}/end`)).status).toBe(303);
    expect(await ended()).toBe(201);
    expect((await owner.post("/logout")).status).toBe(303);
    expect(await ended()).toBe(201);
  });

  it("is listed among a hundred at most, first the visitor's own, then the latest five of each other member; no others are read", async () => {
    const { accountId } = await makeTenant();
    const owner = await makePerson(accountId);
    const own = await env.DB.prepare("SELECT id FROM sessions WHERE member_id = ?").bind(owner.member.id).first<string>("id");
    const [many, each] = [25, 50];
    await db.run(sql`INSERT INTO members (id, account_id, name, email, email_key, role, created_at)
      WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ${many})
      SELECT ${`${accountId}_`} || n, ${accountId}, 'Many', n || '@example.com', n || '@example.com', 'viewer', 1 FROM counted`);
    await db.run(sql`INSERT INTO sessions (token_hash, id, member_id, verified_at, last_seen_at, created_at)
      WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ${each})
      SELECT members.id || printf('_%03d', n), 'ses_' || members.id || printf('_%03d', n), members.id, ${Date.now()}, ${Date.now()} + n, ${Date.now()}
      FROM members, counted WHERE account_id = ${accountId} AND name = 'Many'`);
    const { text } = await owner.get("/settings");
    expect(text.match(/End session/g)).toHaveLength(100);
    expect([text.includes(`/settings/sessions/${own}/end`), text.includes("the latest of other members")]).toEqual([true, true]);
    const statements: [string, unknown[]][] = [];
    const noting = drizzle(env.DB, { logger: { logQuery: (query, values) => void statements.push([query, values]) } }) as typeof db;
    const listed = await listSessions({ db: noting, actor: operatorOn(accountId), now: Date.now() }, owner.member);
    const ofOthers = listed.slice(1).map(({ session }) => Number(session.id.slice(-3)));
    expect(Math.min(...ofOthers)).toBe(47);
    for (const [query, values] of statements) {
      const { meta } = await env.DB.prepare(query)
        .bind(...values)
        .run();
      expect(meta.rows_read).toBeLessThan(many * 25);
    }
  });

  it("is listed while it is in use, though later ones of its member have lapsed", async () => {
    const { accountId } = await makeTenant();
    const [owner, viewer] = [await makePerson(accountId), await makePerson(accountId, "viewer")];
    const id = await env.DB.prepare("SELECT id FROM sessions WHERE member_id = ?").bind(viewer.member.id).first<string>("id");
    for (let n = 0; n < 6; n++)
      await openSession({ db }, viewer.member, Date.now(), { ip: null, country: null, userAgent: null }, "passkey");
    await env.DB.prepare("UPDATE sessions SET last_seen_at = last_seen_at - ? WHERE member_id = ? AND id <> ?")
      .bind(13 * hourMs, viewer.member.id, id)
      .run();
    expect((await owner.get("/settings")).text).toContain(`/settings/sessions/${id}/end`);
  });

  it("cannot be used by a page of elsewhere", async () => {
    const { accountId, keyId, key } = await makeTenant();
    const { post } = await makePerson(accountId);
    for (const headers of [{ Origin: "https://evil.example" }, { Origin: "null" }, { Origin: "" }])
      expect((await post(`/keys/${keyId}/revoke`, {}, headers as Record<string, string>)).status, JSON.stringify(headers)).toBe(403);
    expect((await call("GET", "/api/v1/me", { key })).status).toBe(200);
  });
});
