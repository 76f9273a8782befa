import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { operatorOn } from "../../../src/accounts/actor.ts";
import { byRecoveryCode, listSessions, openSession, type Proof } from "../../../src/identity/sessions.ts";
import { idBound } from "../../../src/lib/ids.ts";
import { dayMs, hourMs, minuteMs } from "../../../src/lib/time/clock.ts";
import { db, makeTenant } from "../support/client.ts";
import { countRowsRead, recordStatements } from "../support/d1.ts";
import { countAuditRows } from "../support/log-rows.ts";
import { backdateSessions, insertMembers, insertSessions, readSessionId } from "../support/member-rows.ts";
import {
  insertOwnAuditEntries,
  makePerson,
  noOrigin,
  type Person,
  postForm,
  redirectsToSignIn,
  sendRequest,
  sessionCookie,
  withCookie,
} from "../support/people.ts";

/** Sets the time of all audit log entries of an account to `timeMs`. */
const setTimeOfAuditEntries = (accountId: string, timeMs: number) =>
  env.DB.prepare("UPDATE audit SET id = ?1 || substr(id, -20) WHERE account_id = ?2").bind(idBound("aud", timeMs), accountId).run();

/** Returns a path. A POST request to this path ends the member's session. */
const endPathOf = async ({ member }: Person) => `/settings/sessions/${await readSessionId(member.id)}/end`;

describe("A session", () => {
  it("shows only the account of its member, even if the request names another account", async () => {
    const [own, foreign] = [await makeTenant(), await makeTenant()];
    const { get, cookie } = await makePerson(own.accountId);
    await makePerson(foreign.accountId);
    const accountIn = (text: string) => /<code>(acc_[0-9a-f]+)<\/code>/.exec(text)?.[1];
    expect(accountIn((await get(`/settings?account=${foreign.accountId}`)).text)).toBe(own.accountId);
    expect(accountIn((await get("/settings", { Cookie: `${cookie}; account=${foreign.accountId}` })).text)).toBe(own.accountId);
  });

  it("expires 12 hours after its last use, and 14 days after its start", async () => {
    const { accountId } = await makeTenant();
    const [idle, old] = [await makePerson(accountId), await makePerson(accountId)];
    await backdateSessions(idle.member.id, "last_seen_at", 12 * hourMs - minuteMs);
    expect((await idle.get("/keys")).status).toBe(200);
    await backdateSessions(idle.member.id, "last_seen_at", 12 * hourMs);
    expect(redirectsToSignIn(await idle.get("/keys"))).toBe(true);
    await backdateSessions(old.member.id, "created_at", 14 * dayMs);
    expect(redirectsToSignIn(await old.get("/keys"))).toBe(true);
  });

  it("ends when its member signs out, so that a copy of the cookie is rejected", async () => {
    const { accountId } = await makeTenant();
    const { post, cookie } = await makePerson(accountId);
    const signedOut = await post("/logout");
    expect([signedOut.status, signedOut.headers.get("Location"), signedOut.headers.get("Set-Cookie")]).toEqual([
      303,
      "/login",
      expect.stringMatching(/Max-Age=0/),
    ]);
    expect(redirectsToSignIn(await withCookie(cookie).get("/"))).toBe(true);
  });

  it("gets a new token at each sign-in, and never the token of a cookie from before the sign-in", async () => {
    const { accountId } = await makeTenant();
    const { codes } = await makePerson(accountId);
    const plantedToken = `${"a".repeat(43)}.${"a".repeat(43)}=`;
    const signedIn = await postForm("/login/recovery", { code: codes[0] ?? "" }, { Cookie: `session=${plantedToken}` });
    const cookie = signedIn.headers.get("Set-Cookie") ?? "";
    expect(cookie).toMatch(/^session=[\w-]{43}\.[\w%]{43,90}; Max-Age=1209600; Path=\/; HttpOnly; SameSite=Lax$/);
    expect(cookie).not.toContain(plantedToken);
    expect(redirectsToSignIn(await withCookie(`session=${plantedToken}`).get("/"))).toBe(true);
  });

  it("with a forged cookie is rejected without a database query", async () => {
    const { accountId } = await makeTenant();
    const { cookie } = await makePerson(accountId);
    const [token, signature] = cookie.split(".");
    const forgedCookies = [`session=${"a".repeat(43)}`, `session=${"a".repeat(43)}.${signature}`, `${token}.${"a".repeat(43)}%3D`];
    const withoutDatabase = { ...env, DB: undefined as never };
    for (const forged of forgedCookies) {
      const { status, headers } = await sendRequest("GET", "/keys", { Cookie: forged }, undefined, withoutDatabase);
      expect([forged, status, headers.get("Location")]).toEqual([forged, 303, "/login?return_to=%2Fkeys"]);
    }
    expect((await sendRequest("GET", "/keys", { Cookie: cookie }, undefined, withoutDatabase)).status).toBe(500);
  });

  it("can be ended by its member and by an admin of its account, but by no other member or account", async () => {
    const { accountId } = await makeTenant();
    const foreignOwner = await makePerson((await makeTenant()).accountId);
    const [admin, viewer, otherViewer] = [
      await makePerson(accountId, "admin"),
      await makePerson(accountId, "viewer"),
      await makePerson(accountId, "viewer"),
    ];
    const path = await endPathOf(viewer);
    expect([(await otherViewer.post(path)).status, (await foreignOwner.post(path)).status, (await viewer.get("/")).status]).toEqual([
      404, 404, 200,
    ]);
    expect((await admin.post(path)).status).toBe(303);
    expect(redirectsToSignIn(await viewer.get("/"))).toBe(true);
    expect((await otherViewer.post(await endPathOf(otherViewer))).status).toBe(303);
    expect(redirectsToSignIn(await otherViewer.get("/"))).toBe(true);
  });

  it("can be ended by an admin only if the admin may remove its member", async () => {
    // If admins could end any session, an admin could lock out an owner.
    const { accountId } = await makeTenant();
    const [owner, admin] = [await makePerson(accountId), await makePerson(accountId, "admin")];
    const others = [owner, await makePerson(accountId, "admin"), await makePerson(accountId, "developer")];
    const paths = await Promise.all(others.map(endPathOf));
    const { text } = await admin.get("/settings");
    expect(paths.map((path) => text.includes(path))).toEqual([false, false, true]);
    const statuses = await Promise.all(paths.map(async (path) => (await admin.post(path)).status));
    expect(statuses).toEqual([404, 404, 303]);
    expect(await Promise.all(others.map(async ({ get }) => redirectsToSignIn(await get("/"))))).toEqual([false, false, true]);
    expect((await owner.post(paths[1] ?? "")).status).toBe(303);
  });

  it("adds at most 200 audit log entries a day after passkey sign-ins, and always one after a recovery code sign-in", async () => {
    const { accountId } = await makeTenant();
    const person = await makePerson(accountId, "viewer");
    await insertOwnAuditEntries(person, "session.started", 199);
    const before = await countAuditRows(accountId);
    const open = (how: Proof["how"]) => openSession({ db }, { ...person.proof, how }, Date.now(), noOrigin);
    await open("passkey");
    expect(await countAuditRows(accountId)).toBe(before + 1);
    const token = await open("passkey");
    const page = await withCookie(await sessionCookie(token)).get("/settings");
    expect([await countAuditRows(accountId), page.status]).toEqual([before + 1, 200]);
    await open(byRecoveryCode);
    expect((await person.post("/logout")).status).toBe(303);
    expect(await countAuditRows(accountId)).toBe(before + 3);
    await setTimeOfAuditEntries(accountId, Date.now() - dayMs - minuteMs);
    await open("passkey");
    expect(await countAuditRows(accountId)).toBe(before + 4);
  });

  it("is one of at most 100 in the list: the own sessions, then the five latest sessions of each other member", async () => {
    const { accountId } = await makeTenant();
    const owner = await makePerson(accountId);
    const [memberCount, sessionsPerMember] = [25, 50];
    await insertMembers(accountId, memberCount, `${accountId}_`);
    await insertSessions(accountId, sessionsPerMember, Date.now());
    const { text } = await owner.get("/settings");
    expect(text.match(/End session/g)).toHaveLength(100);
    expect([text.includes(await endPathOf(owner)), text.includes("the latest sessions of other members")]).toEqual([true, true]);
    const { recordingDb, statements } = recordStatements();
    const listed = await listSessions({ db: recordingDb, actor: operatorOn(accountId), now: Date.now() }, owner.member);
    const numbersOfOthers = listed.slice(1).map(({ session }) => Number(session.id.slice(-3)));
    expect(Math.min(...numbersOfOthers)).toBe(47);
    // Each member has 50 sessions, but D1 reads fewer than 25 rows per member.
    for (const statement of statements) expect(await countRowsRead(statement)).toBeLessThan(memberCount * 25);
  });
});
