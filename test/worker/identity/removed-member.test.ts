import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import type { Guards } from "../../../src/guard/guards.ts";
import { authorityOfSession } from "../../../src/identity/acting-session.ts";
import { createSetupLink } from "../../../src/identity/invitations.ts";
import { changeRole, type Member, readMember, removeMember } from "../../../src/identity/member.ts";
import type { Role } from "../../../src/identity/roles.ts";
import { openSession } from "../../../src/identity/sessions.ts";
import { commitTo, type WriteContext } from "../../../src/outbox/outbox.ts";
import { makeAuthenticator } from "../support/authenticator.ts";
import { hidden, labelled } from "../support/browse.ts";
import { call, db, makeTenant } from "../support/client.ts";
import {
  countOpenInvitations,
  hasRowsOfMember,
  markMemberRemoved,
  moveToOtherAccount,
  readCurrentRole,
  readMemberId,
  redirectOpenInvitations,
  setMemberRole,
} from "../support/member-rows.ts";
import {
  accept,
  addPasskey,
  holdForm,
  makePerson,
  newEmailAddress,
  noOrigin,
  type Person,
  postForm,
  redirectsToSignIn,
  sessionCookieOf,
  signInResponseOf,
  withCookie,
} from "../support/people.ts";

// Before a removal or a role change, a member can prepare sign-ins, invitations and forms. After the removal or the role change, none of
// these may still work.

type Team = Awaited<ReturnType<typeof makeTeam>>;

/** Creates an account with an owner and another member, `leaver`. The tests remove `leaver` or change the member's role. */
async function makeTeam(role: Role) {
  const { accountId, key, keyId } = await makeTenant();
  const [owner, leaver] = [await makePerson(accountId), await makePerson(accountId, role)];
  const path = `/settings/members/${leaver.member.id}`;
  return {
    accountId,
    key,
    keyId,
    owner,
    leaver,
    removeLeaver: async () => expect((await owner.post(`${path}/remove`)).headers.get("Location")).toBe("/settings?done=removed"),
    changeLeaverRole: async (newRole: Role) =>
      expect((await owner.post(`${path}/role`, { role: newRole })).headers.get("Location")).toBe("/settings?done=role"),
  };
}

/** Sends an invitation from the settings page. Returns the token of the invitation link. */
async function invite(inviter: Person, role: Role, email = newEmailAddress()): Promise<string> {
  const { text } = await inviter.post("/settings/invitations", { email, role });
  return labelled(text, "Invitation link")?.split("#")[1] ?? "";
}

/**
 * Creates an invitation to the email address of a current member. The app itself does not allow such an invitation. Returns the token of
 * the invitation link.
 */
async function inviteMember({ accountId, owner }: Team, email: string, role: Role): Promise<string> {
  const token = await invite(owner, role);
  await redirectOpenInvitations(accountId, email);
  return token;
}

/** If a link can still be used, returns 200. If the link was already used or has ended, returns 409. */
const statusOfLink = async (token: string) => (await postForm("/setup/check", { token })).status;

/** Returns the id and the name of each key of an account. */
const readKeys = async (key: string) =>
  (await call("GET", "/api/v1/keys", { key })).body.data.map(({ id, name }: { id: string; name: string }) => [id, name]);

/** Returns a database client that calls `work` just before each batch. */
const beforeBatch = (work: () => Promise<unknown>): typeof db =>
  Object.create(db, {
    batch: {
      async value(...args: Parameters<typeof db.batch>) {
        await work();
        return db.batch(...args);
      },
    },
  });

describe("A removed member", () => {
  it("cannot return by an invitation that the member sent, and the audit log records each withdrawn invitation", async () => {
    const { owner, leaver, removeLeaver } = await makeTeam("owner");
    const tokens = [];
    for (const role of ["owner", "admin", "developer", "viewer"] as const) tokens.push(await invite(leaver, role));
    const tokenOfOwner = await invite(owner, "viewer");
    expect(await Promise.all(tokens.map(statusOfLink))).toEqual([200, 200, 200, 200]);
    expect((await owner.get("/settings")).text).toContain(`by <bdi>${leaver.member.name}</bdi>`);
    await removeLeaver();
    expect(await Promise.all(tokens.map(statusOfLink))).toEqual([409, 409, 409, 409]);
    expect(await statusOfLink(tokenOfOwner)).toBe(200);
    expect((await owner.get("/settings")).text).not.toContain(`by <bdi>${leaver.member.name}</bdi>`);
    expect((await owner.get("/settings/audit")).text.match(/member\.invitation_withdrawn<\/code>/g)).toHaveLength(4);
  });

  it("cannot return by a second invitation to the member's address, which was open when the member joined by the first", async () => {
    const { owner } = await makeTeam("viewer");
    const email = newEmailAddress();
    const first = await invite(owner, "viewer", email);
    const second = await invite(owner, "owner", email.toUpperCase());
    expect((await accept(first, email)).member.email).toBe(email);
    expect(await statusOfLink(second)).toBe(409);
    await expect(accept(second, email)).rejects.toThrow("already used");
    expect((await owner.post(`/settings/members/${await readMemberId(email)}/remove`)).status).toBe(303);
    expect(await statusOfLink(second)).toBe(409);
  });

  it("cannot return by an invitation to the member's address that is open during the removal, in any letter case", async () => {
    const team = await makeTeam("viewer");
    const { accountId, leaver, removeLeaver } = team;
    const email = leaver.member.email.toUpperCase();
    const token = await inviteMember(team, email, "owner");
    await removeLeaver();
    expect(await statusOfLink(token)).toBe(409);
    expect(await readCurrentRole(accountId, email)).toBeNull();
  });

  it("cannot return by a setup link that the operator created before the removal", async () => {
    // The service does not know which person has the setup link.
    const { accountId, leaver, removeLeaver } = await makeTeam("owner");
    const token = await createSetupLink({ db, now: Date.now() }, accountId);
    const authenticator = await makeAuthenticator();
    const fields = { token, name: "Again", email: newEmailAddress() };
    const { body: options } = await postForm("/setup/options", fields);
    await removeLeaver();
    const denied = await postForm("/setup", { ...fields, response: await authenticator.register(options) });
    expect([denied.status, denied.headers.get("Set-Cookie")]).toEqual([403, null]);
    expect(await readCurrentRole(accountId, leaver.member.email)).toBeNull();
    // The operator can create another setup link for the next owner.
    expect(await statusOfLink(await createSetupLink({ db, now: Date.now() }, accountId))).toBe(200);
  });

  it("cannot return by an invitation whose passkey was created before the removal and is sent after it", async () => {
    const { accountId, leaver, removeLeaver } = await makeTeam("owner");
    const email = newEmailAddress();
    const token = await invite(leaver, "owner", email);
    const authenticator = await makeAuthenticator();
    const { body: options } = await postForm("/setup/options", { token, name: "Again" });
    const response = await authenticator.register(options);
    await removeLeaver();
    expect((await postForm("/setup", { token, name: "Again", response })).status).toBe(403);
    expect(await readCurrentRole(accountId, email)).toBeNull();
  });

  it("cannot return by a session that starts before, during or after the removal", async () => {
    const { leaver, removeLeaver } = await makeTeam("developer");
    const [code = ""] = leaver.codes;
    const signIn = postForm("/login/recovery", { code });
    await removeLeaver();
    expect(redirectsToSignIn(await leaver.get("/keys"))).toBe(true);
    const cookie = sessionCookieOf(await signIn);
    if (cookie) expect(redirectsToSignIn(await withCookie(cookie).get("/keys"))).toBe(true);
    await expect(openSession({ db }, leaver.proof, Date.now(), noOrigin)).rejects.toThrow("no longer a member");
    expect(await hasRowsOfMember("sessions", leaver.member.id)).toBe(false);
  });

  it("cannot return by a recovery code or a passkey, even with a challenge from before the removal", async () => {
    const { leaver, removeLeaver } = await makeTeam("developer");
    const authenticator = await makeAuthenticator();
    await addPasskey(leaver, authenticator);
    const responseFromBefore = await signInResponseOf(authenticator);
    await removeLeaver();
    expect((await postForm("/login", responseFromBefore)).status).toBe(403);
    expect((await postForm("/login", await signInResponseOf(authenticator))).status).toBe(403);
    for (const code of leaver.codes) expect((await postForm("/login/recovery", { code })).status).toBe(403);
    for (const table of ["passkeys", "recovery_codes", "sessions"] as const)
      expect(await hasRowsOfMember(table, leaver.member.id), table).toBe(false);
  });

  it.each<[string, (team: Team) => Promise<[path: string, fields: Record<string, string>]>]>([
    ["creates a key", async () => ["/keys", { name: "Prepared", scopes: "tasks:read" }]],
    ["rotates a key", async ({ keyId }) => [`/keys/${keyId}/rotate`, { overlap_seconds: "0" }]],
    ["changes a key", async ({ keyId }) => [`/keys/${keyId}`, { name: "Prepared", scopes: "tasks:read" }]],
    ["sends an invitation", async () => ["/settings/invitations", { email: "prepared@example.com", role: "owner" }]],
    ["changes a role", async ({ owner }) => [`/settings/members/${owner.member.id}/role`, { role: "viewer" }]],
    ["removes a member", async ({ owner }) => [`/settings/members/${owner.member.id}/remove`, {}]],
    [
      "creates recovery codes",
      async ({ leaver }) => ["/settings/recovery-codes", { nonce: hidden((await leaver.get("/settings")).text, "nonce") }],
    ],
    [
      "adds a passkey",
      async ({ leaver }) => {
        const { body: options } = await leaver.post("/settings/passkeys/options");
        return ["/settings/passkeys", { name: "x", response: await (await makeAuthenticator()).register(options) }];
      },
    ],
  ])("cannot return by a form that %s and that the app is receiving during the removal", async (_, prepare) => {
    const team = await makeTeam("owner");
    const { accountId, key, keyId, owner, leaver, removeLeaver } = team;
    const form = await holdForm(leaver, ...(await prepare(team)));
    await removeLeaver();
    const { status, text } = await form.release();
    // Some forms show their own page again, with status 422. Other forms show an error page, with status 403.
    expect([[403, 422].includes(status), text.includes("Your session has ended, or your role was changed")]).toEqual([true, true]);
    expect(text).not.toMatch(/aria-label="(?:Secret key|Invitation link|Recovery codes)"/);
    expect(await readKeys(key)).toEqual([[keyId, "Test key"]]);
    expect(await readCurrentRole(accountId, owner.member.email)).toBe("owner");
    expect(await countOpenInvitations(accountId)).toBe(0);
  });

  it("can return by a new invitation, as a new member without the old sessions and recovery codes", async () => {
    const { accountId, owner, leaver, removeLeaver } = await makeTeam("owner");
    await removeLeaver();
    const { email } = leaver.member;
    const token = await invite(owner, "viewer", email);
    const authenticator = await makeAuthenticator();
    const { body: options } = await postForm("/setup/options", { token, name: "Again" });
    const joined = await postForm("/setup", { token, name: "Again", response: await authenticator.register(options) });
    const session = withCookie(sessionCookieOf(joined));
    expect((await session.get("/keys")).status).toBe(200);
    expect((await session.get("/keys/new")).status).toBe(403);
    expect([await readCurrentRole(accountId, email), redirectsToSignIn(await leaver.get("/keys"))]).toEqual(["viewer", true]);
    expect((await postForm("/login/recovery", { code: leaver.codes[0] ?? "" })).status).toBe(403);
  });
});

describe("A member with a new role", () => {
  it.each<[before: Role, after: Role, stillOpen: Role[]]>([
    ["owner", "admin", ["developer", "viewer"]],
    ["owner", "developer", []],
    ["admin", "developer", []],
    ["admin", "viewer", []],
    ["admin", "owner", ["developer", "viewer"]],
  ])("cannot regain the role %s by an own invitation: as %s, the member keeps only invitations to %j", async (before, after, stillOpen) => {
    const { leaver, changeLeaverRole } = await makeTeam(before);
    const roles = (["owner", "admin", "developer", "viewer"] as const).filter((role) => before === "owner" || !/owner|admin/.test(role));
    const tokens = new Map<Role, string>();
    for (const role of roles) tokens.set(role, await invite(leaver, role));
    await changeLeaverRole(after);
    for (const [role, token] of tokens) expect(await statusOfLink(token), role).toBe(stillOpen.includes(role) ? 200 : 409);
  });

  it("cannot regain the former role by an invitation to the member's address, or by a setup link", async () => {
    const team = await makeTeam("owner");
    const { accountId, leaver, changeLeaverRole } = team;
    const setupToken = await createSetupLink({ db, now: Date.now() }, accountId);
    const invitationToken = await inviteMember(team, leaver.member.email, "owner");
    await changeLeaverRole("viewer");
    expect([await statusOfLink(invitationToken), await statusOfLink(setupToken)]).toEqual([409, 409]);
  });

  it("cannot regain the former role by an old session, a recovery code or a passkey: each session has the new role", async () => {
    const { leaver, changeLeaverRole } = await makeTeam("owner");
    const authenticator = await makeAuthenticator();
    await addPasskey(leaver, authenticator);
    const responseFromBefore = await signInResponseOf(authenticator);
    await changeLeaverRole("viewer");
    const byPasskey = await postForm("/login", responseFromBefore);
    const byCode = await postForm("/login/recovery", { code: leaver.codes[0] ?? "" });
    for (const cookie of [leaver.cookie, sessionCookieOf(byPasskey), sessionCookieOf(byCode)])
      expect((await withCookie(cookie).get("/keys/new")).text, cookie).toContain("Your role is viewer");
  });

  it.each<[string, (team: Team) => [path: string, fields: Record<string, string>]]>([
    ["changes the member's own role", ({ leaver }) => [`/settings/members/${leaver.member.id}/role`, { role: "owner" }]],
    ["sends an invitation", () => ["/settings/invitations", { email: "prepared@example.com", role: "owner" }]],
    ["creates a key", () => ["/keys", { name: "Prepared", scopes: "keys:write" }]],
    ["rotates a key", ({ keyId }) => [`/keys/${keyId}/rotate`, { overlap_seconds: "0" }]],
    ["changes a key", ({ keyId }) => [`/keys/${keyId}`, { name: "Prepared", scopes: "tasks:read" }]],
    ["changes the role of the owner", ({ owner }) => [`/settings/members/${owner.member.id}/role`, { role: "viewer" }]],
  ])("cannot regain the former role by a form that %s and that the app is receiving during the change", async (_, prepare) => {
    const team = await makeTeam("owner");
    const { accountId, key, keyId, owner, leaver, changeLeaverRole } = team;
    const form = await holdForm(leaver, ...prepare(team));
    await changeLeaverRole("viewer");
    const { text } = await form.release();
    expect(text).toContain("Your session has ended, or your role was changed");
    expect(await readKeys(key)).toEqual([[keyId, "Test key"]]);
    expect([await readCurrentRole(accountId, leaver.member.email), await readCurrentRole(accountId, owner.member.email)]).toEqual([
      "viewer",
      "owner",
    ]);
    expect(await countOpenInvitations(accountId)).toBe(0);
  });
});

describe("An invitation", () => {
  it.each<[string, (memberId: string) => Promise<unknown>]>([
    ["was removed", (memberId) => markMemberRemoved(memberId, 1)],
    ["may no longer invite to its role", (memberId) => setMemberRole(memberId, "viewer")],
    ["belongs to another account", moveToOtherAccount],
  ])("cannot be accepted if its sender %s, even if its row still exists", async (_, changeSender) => {
    const { accountId, leaver, owner } = await makeTeam("owner");
    // Creates an account to which a test case can move the sender.
    await makeTenant();
    const [email, otherEmail] = [newEmailAddress(), newEmailAddress()];
    const [token, otherToken] = [await invite(leaver, "admin", email), await invite(leaver, "admin", otherEmail)];
    // The first attempt reads the invitation before the change of the sender, and writes after this change.
    const database = beforeBatch(() => changeSender(leaver.member.id));
    await expect(accept(token, email, database)).rejects.toThrow("already used, or has expired");
    await expect(accept(otherToken, otherEmail)).rejects.toThrow("already used, or has expired");
    expect(await statusOfLink(token)).toBe(409);
    expect([await readCurrentRole(accountId, email), await readCurrentRole(accountId, otherEmail)]).toEqual([null, null]);
    expect((await owner.get("/settings")).text).not.toContain(email);
  });

  it("that is accepted while its sender is removed creates a member or fails, and is closed afterwards", async () => {
    for (let round = 0; round < 5; round++) {
      const { accountId, owner, leaver } = await makeTeam("owner");
      const email = newEmailAddress();
      const token = await invite(leaver, "owner", email);
      const [accepted] = await Promise.allSettled([accept(token, email), owner.post(`/settings/members/${leaver.member.id}/remove`)]);
      expect(await readCurrentRole(accountId, email)).toBe(accepted.status === "fulfilled" ? "owner" : null);
      expect(await statusOfLink(token)).toBe(409);
    }
  });
});

describe("A member whose role was changed since it was read", () => {
  it.each<[string, (writing: WriteContext & { guards: Guards }, member: Member) => Promise<void>]>([
    ["is not given another role", (writing, member) => changeRole(writing, member, "viewer")],
    ["is not removed", removeMember],
  ])("%s by an admin who read the former role, because an admin cannot manage an owner", async (_, change) => {
    const { accountId, owner, leaver, changeLeaverRole } = await makeTeam("developer");
    const admin = await makePerson(accountId, "admin");
    const actor = { accountId, by: { type: "member" as const, id: admin.member.id }, from: noOrigin };
    const memberAsRead = await readMember({ db, actor, now: Date.now() }, leaver.member.id);
    await changeLeaverRole("owner");
    const token = await invite(leaver, "owner");
    const outbox = { db, authority: authorityOfSession(db, { ...admin, session: null, verifiedAt: 0, account: {} as never }) };
    const writing = { db, actor, now: Date.now(), commit: commitTo(outbox), guards: env.KEY_GUARD };
    await expect(change(writing, memberAsRead)).rejects.toThrow("is owner now, and was developer when you asked");
    expect([await readCurrentRole(accountId, leaver.member.email), await statusOfLink(token)]).toEqual(["owner", 200]);
    expect((await leaver.get("/keys")).status).toBe(200);
    expect((await owner.get("/settings/audit")).text).not.toContain("member.removed");
  });

  it("keeps the owner's change if an owner and an admin change the role at the same time", async () => {
    for (let round = 0; round < 5; round++) {
      const { accountId, owner, leaver } = await makeTeam("developer");
      const admin = await makePerson(accountId, "admin");
      const path = `/settings/members/${leaver.member.id}/role`;
      const [byOwner] = await Promise.all([owner.post(path, { role: "owner" }), admin.post(path, { role: "viewer" })]);
      // If the admin's change is written first, the owner's change fails. The owner's request then read the role before the admin's change.
      expect(await readCurrentRole(accountId, leaver.member.email)).toBe(byOwner.status === 303 ? "owner" : "viewer");
    }
  });
});
