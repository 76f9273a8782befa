import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { createSetupLink } from "../../../src/identity/invitations.ts";
import { listPasskeys, maxPasskeys } from "../../../src/identity/passkeys.ts";
import { hourMs } from "../../../src/lib/time/clock.ts";
import { type ClientData, makeAuthenticator } from "../support/authenticator.ts";
import { labelled } from "../support/browse.ts";
import { db, makeTenant } from "../support/client.ts";
import { backdateSessions, countSpentChallenges, readOwnersOfPasskey } from "../support/member-rows.ts";
import { addPasskey, makePerson, postForm, signInResponseOf } from "../support/people.ts";

// These tests check the server side of passkeys. The software authenticator of the tests can also sign client data that no browser would
// send.

const signIn = async (...given: Parameters<typeof signInResponseOf>) => postForm("/login", await signInResponseOf(...given));

/** Finds the audit log entry about the first passkey that was added in an account. Returns the length of the passkey id in this entry. */
const readAuditedIdLength = (accountId: string) =>
  env.DB.prepare("SELECT length(target_id) AS length FROM audit WHERE account_id = ? AND action = 'passkey.added'")
    .bind(accountId)
    .first<number>("length");

describe("A passkey", () => {
  it("of a member signs the member in, and confirms the member's identity", async () => {
    const person = await makePerson((await makeTenant()).accountId);
    const authenticator = await makeAuthenticator();
    expect((await addPasskey(person, authenticator)).headers.get("Location")).toBe("/settings?done=passkey-added");
    const signedIn = await postForm("/login", { ...(await signInResponseOf(authenticator)), return_to: "/keys" });
    expect([signedIn.status, signedIn.headers.get("Location")]).toEqual([303, "/keys"]);
    await backdateSessions(person.member.id, "verified_at", hourMs);
    const { body: options } = await person.post("/confirm/options");
    const created = await person.post("/keys", {
      name: "Confirmed",
      scopes: "tasks:read",
      confirm_response: await authenticator.sign(options),
    });
    expect(labelled(created.text, "Secret key")).toMatch(/^dvo_/);
  });

  it("is rejected if its id is too long, if the member already has 20 passkeys, or has added 20 in 24 hours", async () => {
    const person = await makePerson((await makeTenant()).accountId, "viewer");
    const withIdOf = (bytes: number) => makeAuthenticator(Buffer.alloc(bytes, crypto.randomUUID()).toString("base64url"));
    expect((await addPasskey(person, await withIdOf(1024))).text).toContain("The passkey was not accepted.");
    const longest = await withIdOf(1023);
    expect((await addPasskey(person, longest)).status).toBe(303);
    expect(await readAuditedIdLength(person.member.accountId)).toBe(32);
    // The member now has two passkeys: the passkey from joining, and the passkey with the longest id.
    for (let count = 2; count < maxPasskeys; count++) expect((await addPasskey(person, await makeAuthenticator())).status).toBe(303);
    const tooMany = await addPasskey(person, await makeAuthenticator());
    expect([tooMany.status, tooMany.text.includes(`You may have ${maxPasskeys} passkeys.`)]).toEqual([422, true]);
    expect((await signIn(longest)).status).toBe(303);
    // After joining, the member has added 19 passkeys. The limit is 20 added passkeys in 24 hours, so the member may add one more passkey.
    await person.post(`/settings/passkeys/${longest.id}/remove`);
    expect((await addPasskey(person, await makeAuthenticator())).status).toBe(303);
    const added = (await listPasskeys(db, person.member.id)).at(-1);
    await person.post(`/settings/passkeys/${added?.id}/remove`);
    const tooOften = await addPasskey(person, await makeAuthenticator());
    expect([tooOften.status, tooOften.text.includes("You added 20 passkeys in 24 hours.")]).toEqual([422, true]);
  });

  it("that is already registered is rejected with an explanation, both when a member adds it and when a person joins", async () => {
    const { accountId } = await makeTenant();
    const [owner, otherMember] = [await makePerson(accountId), await makePerson(accountId)];
    const authenticator = await makeAuthenticator();
    await addPasskey(owner, authenticator);
    const added = await addPasskey(otherMember, await makeAuthenticator(authenticator.id));
    expect([added.status, added.text.includes("This passkey is registered already.")]).toEqual([422, true]);
    const token = await createSetupLink({ db, now: Date.now() }, accountId);
    const fields = { token, name: "Eve", email: "eve@example.com" };
    const { body: options } = await postForm("/setup/options", fields);
    const joined = await postForm("/setup", { ...fields, response: await (await makeAuthenticator(authenticator.id)).register(options) });
    expect([joined.status, joined.text.includes("This passkey is registered already.")]).toEqual([403, true]);
    expect(await readOwnersOfPasskey(authenticator.id)).toEqual([owner.member.id]);
    // The link can still be used.
    expect((await postForm("/setup/check", { token })).status).toBe(200);
  });

  it.each<[string, ClientData]>([
    ["in a frame of another site", { crossOrigin: true }],
    ["in a frame of another site that is named", { crossOrigin: true, topOrigin: "https://evil.example" }],
    ["with a top origin, but without a frame", { crossOrigin: false, topOrigin: "https://overview.acme.dev" }],
    ["on a page of another origin", { origin: "https://evil.example" }],
    ["with a challenge that the server did not create", { challenge: Buffer.alloc(42, 7).toString("base64url") }],
  ])("is rejected if it is used %s", async (_, client) => {
    const { accountId } = await makeTenant();
    const person = await makePerson(accountId);
    const authenticator = await makeAuthenticator();
    expect((await addPasskey(person, authenticator, client)).text).toContain("The passkey was not accepted.");
    await addPasskey(person, authenticator);
    const denied = await signIn(authenticator, client);
    expect([denied.status, denied.headers.get("Set-Cookie")]).toEqual([403, null]);
    expect((await signIn(authenticator)).status).toBe(303);
  });
});

describe("A WebAuthn challenge", () => {
  it("to confirm the identity of one member does not confirm another member", async () => {
    const { accountId } = await makeTenant();
    const [member, otherMember] = [await makePerson(accountId), await makePerson(accountId)];
    const authenticator = await makeAuthenticator();
    await addPasskey(member, authenticator);
    await backdateSessions(member.member.id, "verified_at", hourMs);
    const createKey = async (options: { challenge: string }) =>
      member.post("/keys", { name: "Confirmed", scopes: "tasks:read", confirm_response: await authenticator.sign(options) });
    const { body: optionsOfOther } = await otherMember.post("/confirm/options");
    const denied = await createKey(optionsOfOther);
    expect([denied.status, denied.text.includes("The passkey was not accepted.")]).toEqual([422, true]);
    const { body: ownOptions } = await member.post("/confirm/options");
    expect((await createKey(ownOptions)).status).toBe(200);
  });

  it("to add a passkey of one member does not add a passkey of another member", async () => {
    const { accountId } = await makeTenant();
    const [member, otherMember] = [await makePerson(accountId), await makePerson(accountId)];
    const authenticator = await makeAuthenticator();
    const { body: optionsOfOther } = await otherMember.post("/settings/passkeys/options");
    const denied = await member.post("/settings/passkeys", { name: "x", response: await authenticator.register(optionsOfOther) });
    expect(denied.text).toContain("The passkey was not accepted.");
    expect((await signIn(authenticator)).status).toBe(403);
  });

  it("for one setup link does not let a person join with another link", async () => {
    const [first, second] = [await makeTenant(), await makeTenant()];
    const token = await createSetupLink({ db, now: Date.now() }, first.accountId);
    const otherToken = await createSetupLink({ db, now: Date.now() }, second.accountId);
    const fields = { token, name: "Ada", email: "ada@example.com" };
    const authenticator = await makeAuthenticator();
    const join = async (options: { challenge: string }) =>
      postForm("/setup", { ...fields, response: await authenticator.register(options) });
    const { body: optionsOfOther } = await postForm("/setup/options", { ...fields, token: otherToken });
    expect((await join(optionsOfOther)).text).toContain("The passkey was not accepted.");
    const { body: ownOptions } = await postForm("/setup/options", fields);
    expect((await join(ownOptions)).status).toBe(200);
  });

  it("can be used once, and a response with an invalid signature does not use it up", async () => {
    const { accountId } = await makeTenant();
    const person = await makePerson(accountId);
    const [authenticator, foreignAuthenticator] = [await makeAuthenticator(), await makeAuthenticator()];
    await addPasskey(person, authenticator);
    const spentBefore = await countSpentChallenges();
    const { body: options } = await postForm("/login/options");
    const [valid, foreign] = [await authenticator.sign(options), await foreignAuthenticator.sign(options)];
    const invalid = JSON.stringify({ ...JSON.parse(valid), response: JSON.parse(foreign).response });
    const statusOf = async (response: string) => (await postForm("/login", { response, return_to: "/" })).status;
    for (const response of [invalid, invalid, "{}", "x", ""]) expect(await statusOf(response)).toBe(403);
    expect(await countSpentChallenges()).toBe(spentBefore);
    expect([await statusOf(valid), await statusOf(valid)]).toEqual([303, 403]);
  });
});
