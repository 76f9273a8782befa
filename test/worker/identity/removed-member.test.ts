import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { actingSession } from "../../../src/identity/acting-session.ts";
import { makeSetup } from "../../../src/identity/invitations.ts";
import { claim } from "../../../src/identity/join.ts";
import { changeRole, type Member, readMember, removeMember } from "../../../src/identity/member.ts";
import type { Role } from "../../../src/identity/roles.ts";
import { openSession } from "../../../src/identity/sessions.ts";
import { commitTo, type WriteContext } from "../../../src/webhooks/outbox.ts";
import { makeAuthenticator } from "../support/authenticator.ts";
import { hidden, labelled } from "../support/browse.ts";
import { call, db, makeTenant, origin } from "../support/client.ts";
import { ask, holdForm, makePerson, type Person, withCookie } from "../support/people.ts";

// Every way in that a member can prepare before they are removed, or get another role: none of them works after.

const form = { Origin: origin, "Content-Type": "application/x-www-form-urlencoded" };
const post = (path: string, fields: Record<string, string> = {}) => ask("POST", path, form, new URLSearchParams(fields).toString());
const from = { ip: null, country: null, userAgent: null };
const anyAddress = () => `${crypto.randomUUID()}@example.com`;

/** An account with an owner who stays, and a member with the role who is to go. */
async function makeTeam(role: Role) {
  const { accountId, key, keyId } = await makeTenant();
  const [boss, leaver] = [await makePerson(accountId), await makePerson(accountId, role)];
  const path = `/settings/people/${leaver.member.id}`;
  return {
    accountId,
    key,
    keyId,
    boss,
    leaver,
    remove: async () => expect((await boss.post(`${path}/remove`)).headers.get("Location")).toBe("/settings?done=removed"),
    giveRole: async (other: Role) =>
      expect((await boss.post(`${path}/role`, { role: other })).headers.get("Location")).toBe("/settings?done=role"),
  };
}

/** Invites as the pages do; returns what the link carries. */
async function inviteBy(person: Person, role: Role, email = anyAddress()): Promise<string> {
  const { text } = await person.post("/settings/invitations", { email, role });
  return labelled(text, "Invitation link")?.split("#")[1] ?? "";
}

/** An invitation that is on its way in the database alone, as one of before the account had two to one address. */
async function inviteMember({ accountId, boss }: { accountId: string; boss: Person }, { email }: Member, role: Role): Promise<string> {
  const token = await inviteBy(boss, role);
  await env.DB.prepare("UPDATE invitations SET email = ? WHERE account_id = ? AND used_by IS NULL AND kind = 'invite'")
    .bind(email, accountId)
    .run();
  return token;
}

/** Whether a link is good: 200, or 409 where it was used or has ended. */
const statusOf = async (token: string) => (await post("/setup/check", { token })).status;

const liveRole = (accountId: string, email: string) =>
  env.DB.prepare("SELECT role FROM members WHERE account_id = ? AND email = ? AND removed_at IS NULL").bind(accountId, email).first("role");

const isOut = ({ status, headers }: { status: number; headers: Headers }) =>
  status === 303 && /^\/login/.test(headers.get("Location") ?? "");

describe("A member who was removed does not come back", () => {
  it("by an invitation that they made, to any role, and the audit log says that it ended", async () => {
    const { boss, leaver, remove } = await makeTeam("owner");
    const tokens = [];
    for (const role of ["owner", "admin", "developer", "viewer"] as const) tokens.push(await inviteBy(leaver, role));
    const others = await inviteBy(boss, "viewer");
    expect(await Promise.all(tokens.map(statusOf))).toEqual([200, 200, 200, 200]);
    expect((await boss.get("/settings")).text).toContain(`by <bdi>${leaver.member.name}</bdi>`);
    await remove();
    expect(await Promise.all(tokens.map(statusOf))).toEqual([409, 409, 409, 409]);
    expect(await statusOf(others)).toBe(200);
    expect((await boss.get("/settings")).text).not.toContain(`by <bdi>${leaver.member.name}</bdi>`);
    expect((await boss.get("/settings/audit")).text.match(/member\.invitation_withdrawn<\/code>/g)).toHaveLength(4);
  });

  it("by an invitation to their own address that was open beside the one that they joined by", async () => {
    const { accountId, boss } = await makeTeam("viewer");
    const email = anyAddress();
    const first = await inviteBy(boss, "viewer", email);
    const second = await inviteBy(boss, "owner", email.toUpperCase());
    await claim({ db }, Date.now(), {
      token: first,
      person: { name: "Twice", email },
      passkey: { id: crypto.randomUUID(), name: "x", publicKey: "", counter: 0, transports: [] },
      from,
    });
    expect(await statusOf(second)).toBe(409);
    const id = await env.DB.prepare("SELECT id FROM members WHERE account_id = ? AND email = ?").bind(accountId, email).first("id");
    expect((await boss.post(`/settings/people/${id}/remove`)).status).toBe(303);
    expect(await statusOf(second)).toBe(409);
  });

  it("by an invitation to their own address, in any case, that is open as they are removed", async () => {
    const team = await makeTeam("viewer");
    const { accountId, leaver, remove } = team;
    const email = leaver.member.email.toUpperCase();
    const token = await inviteMember(team, { ...leaver.member, email }, "owner");
    await remove();
    expect(await statusOf(token)).toBe(409);
    expect(await liveRole(accountId, email)).toBeNull();
  });

  it("by an owner's link that the operator had made, since nobody knows who has it", async () => {
    const { accountId, leaver, remove } = await makeTeam("owner");
    const token = await makeSetup({ db, now: Date.now() }, accountId);
    const device = await makeAuthenticator();
    const fields = { token, name: "Again", email: anyAddress() };
    const { body } = await post("/setup/options", fields);
    await remove();
    const refused = await post("/setup", { ...fields, response: await device.register(body) });
    expect([refused.status, refused.headers.get("Set-Cookie")]).toEqual([403, null]);
    expect(await liveRole(accountId, leaver.member.email)).toBeNull();
    // The operator makes another, for the next owner.
    expect(await statusOf(await makeSetup({ db, now: Date.now() }, accountId))).toBe(200);
  });

  it("by a link whose passkey was begun before and is made after", async () => {
    const { accountId, leaver, remove } = await makeTeam("owner");
    const email = anyAddress();
    const token = await inviteBy(leaver, "owner", email);
    const device = await makeAuthenticator();
    const { body } = await post("/setup/options", { token, name: "Again" });
    const response = await device.register(body);
    await remove();
    expect((await post("/setup", { token, name: "Again", response })).status).toBe(403);
    expect(await liveRole(accountId, email)).toBeNull();
  });

  it("by a session, whether it was open, is opened while they are removed, or by somebody who was let in a moment before", async () => {
    const { leaver, remove } = await makeTeam("developer");
    const [code = ""] = leaver.codes;
    const entering = post("/login/recovery", { code });
    await remove();
    expect(isOut(await leaver.get("/keys"))).toBe(true);
    const cookie = /session=[^;]+/.exec((await entering).headers.get("Set-Cookie") ?? "")?.[0];
    if (cookie) expect(isOut(await withCookie(cookie).get("/keys"))).toBe(true);
    await expect(openSession({ db }, leaver.member, Date.now(), from, "passkey")).rejects.toThrow("no longer a member");
    expect(await env.DB.prepare("SELECT 1 FROM sessions WHERE member_id = ?").bind(leaver.member.id).first()).toBeNull();
  });

  it("by a recovery code, or by a passkey, also with a challenge from before", async () => {
    const { leaver, remove } = await makeTeam("developer");
    const device = await makeAuthenticator();
    const { body } = await leaver.post("/settings/passkeys/options");
    await leaver.post("/settings/passkeys", { name: "Another", response: await device.register(body) });
    const before = await device.sign((await post("/login/options")).body);
    await remove();
    expect((await post("/login", { response: before })).status).toBe(403);
    expect((await post("/login", { response: await device.sign((await post("/login/options")).body) })).status).toBe(403);
    for (const code of leaver.codes) expect((await post("/login/recovery", { code })).status).toBe(403);
    for (const table of ["passkeys", "recovery_codes", "sessions"])
      expect(await env.DB.prepare(`SELECT 1 FROM ${table} WHERE member_id = ?`).bind(leaver.member.id).first(), table).toBeNull();
  });

  it.each<[string, (team: Team) => Promise<[path: string, fields: Record<string, string>]>]>([
    ["a key", async () => ["/keys", { name: "Prepared", scopes: "tasks:read" }]],
    ["a rotation", async ({ keyId }) => [`/keys/${keyId}/rotate`, { overlap_seconds: "0" }]],
    ["a change of a key", async ({ keyId }) => [`/keys/${keyId}`, { name: "Prepared", scopes: "tasks:read" }]],
    ["an invitation", async () => ["/settings/invitations", { email: "prepared@example.com", role: "owner" }]],
    ["a role", async ({ boss }) => [`/settings/people/${boss.member.id}/role`, { role: "viewer" }]],
    ["a removal", async ({ boss }) => [`/settings/people/${boss.member.id}/remove`, {}]],
    [
      "recovery codes",
      async ({ leaver }) => ["/settings/recovery-codes", { nonce: hidden((await leaver.get("/settings")).text, "nonce") }],
    ],
    [
      "a passkey",
      async ({ leaver }) => {
        const { body } = await leaver.post("/settings/passkeys/options");
        return ["/settings/passkeys", { name: "x", response: await (await makeAuthenticator()).register(body) }];
      },
    ],
  ])("by a form for %s that was on its way", async (_, prepare) => {
    const team = await makeTeam("owner");
    const { accountId, key, keyId, boss, leaver, remove } = team;
    const held = await holdForm(leaver, ...(await prepare(team)));
    await remove();
    const { status, text } = await held.release();
    // What a form is refused for comes back to its page, and else as an error.
    expect([[403, 422].includes(status), text.includes("Your session has ended, or your role was changed")]).toEqual([true, true]);
    expect(text).not.toMatch(/aria-label="(?:Secret key|Invitation link|Recovery codes)"/);
    const { data } = (await call("GET", "/api/v1/keys", { key })).body;
    expect(data.map(({ id, name }: { id: string; name: string }) => [id, name])).toEqual([[keyId, "Test key"]]);
    expect(await liveRole(accountId, boss.member.email)).toBe("owner");
    expect(await env.DB.prepare("SELECT 1 FROM invitations WHERE account_id = ? AND used_by IS NULL").bind(accountId).first()).toBeNull();
  });

  it("but by a new invitation, as somebody new: nothing of before works for them", async () => {
    const { accountId, boss, leaver, remove } = await makeTeam("owner");
    await remove();
    const { email } = leaver.member;
    const token = await inviteBy(boss, "viewer", email);
    const device = await makeAuthenticator();
    const { body } = await post("/setup/options", { token, name: "Again" });
    const joined = await post("/setup", { token, name: "Again", response: await device.register(body) });
    const session = withCookie(/session=[^;]+/.exec(joined.headers.get("Set-Cookie") ?? "")?.[0] ?? "");
    expect((await session.get("/keys")).status).toBe(200);
    expect((await session.get("/keys/new")).status).toBe(403);
    expect([await liveRole(accountId, email), isOut(await leaver.get("/keys"))]).toEqual(["viewer", true]);
    expect((await post("/login/recovery", { code: leaver.codes[0] ?? "" })).status).toBe(403);
  });
});

/** The database, for which something happens just before the next batch. */
const beforeBatch = (work: () => Promise<unknown>): typeof db =>
  Object.create(db, {
    batch: {
      async value(...args: Parameters<typeof db.batch>) {
        await work();
        return db.batch(...args);
      },
    },
  });

type Team = Awaited<ReturnType<typeof makeTeam>>;

describe("A member with another role does not get the former one back", () => {
  it.each<[before: Role, after: Role, still: Role[]]>([
    ["owner", "admin", ["developer", "viewer"]],
    ["owner", "developer", []],
    ["admin", "developer", []],
    ["admin", "viewer", []],
    ["admin", "owner", ["developer", "viewer"]],
  ])("by an invitation that they made: of %s, %s keeps those that it may make", async (before, after, still) => {
    const { leaver, giveRole } = await makeTeam(before);
    const made = (["owner", "admin", "developer", "viewer"] as const).filter((role) => before === "owner" || !/owner|admin/.test(role));
    const tokens = new Map<Role, string>();
    for (const role of made) tokens.set(role, await inviteBy(leaver, role));
    await giveRole(after);
    for (const [role, token] of tokens) expect(await statusOf(token), role).toBe(still.includes(role) ? 200 : 409);
  });

  it("by an invitation to their own address, nor by an owner's link", async () => {
    const team = await makeTeam("owner");
    const { accountId, leaver, giveRole } = team;
    const setup = await makeSetup({ db, now: Date.now() }, accountId);
    const token = await inviteMember(team, leaver.member, "owner");
    await giveRole("viewer");
    expect([await statusOf(token), await statusOf(setup)]).toEqual([409, 409]);
  });

  it("by a session, a recovery code or a passkey: each has the new role", async () => {
    const { leaver, giveRole } = await makeTeam("owner");
    const device = await makeAuthenticator();
    const { body } = await leaver.post("/settings/passkeys/options");
    await leaver.post("/settings/passkeys", { name: "Another", response: await device.register(body) });
    const before = await device.sign((await post("/login/options")).body);
    await giveRole("viewer");
    const cookies = [leaver.cookie];
    for (const entered of [await post("/login", { response: before }), await post("/login/recovery", { code: leaver.codes[0] ?? "" })])
      cookies.push(/session=[^;]+/.exec(entered.headers.get("Set-Cookie") ?? "")?.[0] ?? "");
    for (const cookie of cookies) expect((await withCookie(cookie).get("/keys/new")).text, cookie).toContain("Your role is viewer");
  });

  it.each<[string, (team: Team) => [path: string, fields: Record<string, string>]]>([
    ["their own role", ({ leaver }) => [`/settings/people/${leaver.member.id}/role`, { role: "owner" }]],
    ["an invitation", () => ["/settings/invitations", { email: "prepared@example.com", role: "owner" }]],
    ["a key", () => ["/keys", { name: "Prepared", scopes: "keys:write" }]],
    ["a rotation", ({ keyId }) => [`/keys/${keyId}/rotate`, { overlap_seconds: "0" }]],
    ["a change of a key", ({ keyId }) => [`/keys/${keyId}`, { name: "Prepared", scopes: "tasks:read" }]],
    ["the end of another's role", ({ boss }) => [`/settings/people/${boss.member.id}/role`, { role: "viewer" }]],
  ])("by a form for %s that was on its way", async (_, prepare) => {
    const team = await makeTeam("owner");
    const { accountId, key, keyId, boss, leaver, giveRole } = team;
    const held = await holdForm(leaver, ...prepare(team));
    await giveRole("viewer");
    const { text } = await held.release();
    expect(text).toContain("Your session has ended, or your role was changed");
    const { data } = (await call("GET", "/api/v1/keys", { key })).body;
    expect(data.map(({ id, name }: { id: string; name: string }) => [id, name])).toEqual([[keyId, "Test key"]]);
    expect([await liveRole(accountId, leaver.member.email), await liveRole(accountId, boss.member.email)]).toEqual(["viewer", "owner"]);
    expect(await env.DB.prepare("SELECT 1 FROM invitations WHERE account_id = ? AND used_by IS NULL").bind(accountId).first()).toBeNull();
  });
});

describe("An invitation", () => {
  const takeUp = (token: string, email: string, by = db) =>
    claim({ db: by }, Date.now(), {
      token,
      person: { name: "x", email },
      passkey: { id: crypto.randomUUID(), name: "x", publicKey: "", counter: 0, transports: [] },
      from,
    });

  it.each([
    ["was removed", "removed_at = 1"],
    ["may not make it any more", "role = 'viewer'"],
    ["is of another account", "account_id = (SELECT id FROM accounts AS other WHERE other.id <> members.account_id LIMIT 1)"],
  ])("is not taken up where the one who made it %s, though its row is still there", async (_, change) => {
    const { accountId, leaver, boss } = await makeTeam("owner");
    await makeTenant();
    const [email, later] = [anyAddress(), anyAddress()];
    const [token, second] = [await inviteBy(leaver, "admin", email), await inviteBy(leaver, "admin", later)];
    const changed = () => env.DB.prepare(`UPDATE members SET ${change} WHERE id = ?`).bind(leaver.member.id).run();
    // Also where that happens between the look at the invitation and the write.
    await expect(takeUp(token, email, beforeBatch(changed))).rejects.toThrow("used before, or has ended");
    await expect(takeUp(second, later)).rejects.toThrow("used before, or has ended");
    expect([await statusOf(token), await liveRole(accountId, email), await liveRole(accountId, later)]).toEqual([409, null, null]);
    expect((await boss.get("/settings")).text).not.toContain(email);
  });

  it("that is taken up while its maker is removed makes a member or none, and is not open after", async () => {
    for (let round = 0; round < 5; round++) {
      const { accountId, boss, leaver } = await makeTeam("owner");
      const email = anyAddress();
      const token = await inviteBy(leaver, "owner", email);
      const [taken] = await Promise.allSettled([takeUp(token, email), boss.post(`/settings/people/${leaver.member.id}/remove`)]);
      expect(await liveRole(accountId, email)).toBe(taken.status === "fulfilled" ? "owner" : null);
      expect(await statusOf(token)).toBe(409);
    }
  });
});

describe("Somebody whose role was changed since it was looked at", () => {
  it.each<[string, (writing: WriteContext, member: Member) => Promise<void>]>([
    ["is not demoted", (writing, member) => changeRole(writing, member, "viewer")],
    ["is not removed", removeMember],
  ])("%s by who saw the role of before: an admin manages no owner", async (_, change) => {
    const { accountId, boss, leaver, giveRole } = await makeTeam("developer");
    const admin = await makePerson(accountId, "admin");
    const actor = { accountId, by: { type: "member" as const, id: admin.member.id }, from };
    const seen = await readMember({ db, actor, now: Date.now() }, leaver.member.id);
    await giveRole("owner");
    const token = await inviteBy(leaver, "owner");
    const outbox = { db, authority: actingSession(db, { ...admin, session: null, verifiedAt: 0, account: {} as never }) };
    const writing = { db, actor, now: Date.now(), commit: commitTo(outbox) };
    await expect(change(writing, seen)).rejects.toThrow("is owner now, and was developer when you asked");
    expect([await liveRole(accountId, leaver.member.email), await statusOf(token)]).toEqual(["owner", 200]);
    expect((await leaver.get("/keys")).status).toBe(200);
    expect((await boss.get("/settings/audit")).text).not.toContain("member.removed");
  });

  it("stays what they are, however often an admin and an owner act at once", async () => {
    for (let round = 0; round < 5; round++) {
      const { accountId, boss, leaver } = await makeTeam("developer");
      const admin = await makePerson(accountId, "admin");
      const path = `/settings/people/${leaver.member.id}/role`;
      const [promoted] = await Promise.all([boss.post(path, { role: "owner" }), admin.post(path, { role: "viewer" })]);
      // The owner's change holds, unless it was itself made of a role that had changed.
      expect(await liveRole(accountId, leaver.member.email)).toBe(promoted.status === 303 ? "owner" : "viewer");
    }
  });
});
