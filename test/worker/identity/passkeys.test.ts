import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { makeSetup } from "../../../src/identity/invitations.ts";
import { listPasskeys, maxPasskeys } from "../../../src/identity/passkeys.ts";
import { hourMs } from "../../../src/time/clock.ts";
import { type Authenticator, type ClientData, makeAuthenticator } from "../support/authenticator.ts";
import { labelled } from "../support/browse.ts";
import { db, makeTenant } from "../support/client.ts";
import { age, ask, form, makePerson, type Person } from "../support/people.ts";

// The pages' side of passkeys, with a device that can also sign what no browser would.

const post = (path: string, fields: Record<string, string> = {}) => ask("POST", path, form, new URLSearchParams(fields).toString());

/** Registers a passkey for a member who has signed in. */
async function add(person: Person, authenticator: Authenticator, client: ClientData = {}) {
  const { body } = await person.post("/settings/passkeys/options");
  return person.post("/settings/passkeys", { name: "Another", response: await authenticator.register(body, client) });
}

const signIn = async (authenticator: Authenticator, client: ClientData = {}) =>
  post("/login", { response: await authenticator.sign((await post("/login/options")).body, client) });

describe("A passkey", () => {
  it("is added to a member, signs in and confirms", async () => {
    const person = await makePerson((await makeTenant()).accountId);
    const device = await makeAuthenticator();
    expect((await add(person, device)).headers.get("Location")).toBe("/settings?done=passkey-added");
    expect((await signIn(device)).status).toBe(303);
    await age(person.member, "verified_at", hourMs);
    const { body } = await person.post("/confirm/options");
    const made = await person.post("/keys", { name: "Confirmed", scopes: "tasks:read", confirm_response: await device.sign(body) });
    expect(labelled(made.text, "Secret key")).toMatch(/^dvo_/);
  });

  it("with a longer id than a passkey can have is refused, and so is the twenty-first of a member", async () => {
    const person = await makePerson((await makeTenant()).accountId, "viewer");
    const withId = (length: number) => makeAuthenticator(Buffer.alloc(length, crypto.randomUUID()).toString("base64url"));
    expect((await add(person, await withId(1024))).text).toContain("The passkey was not taken.");
    const longest = await withId(1023);
    expect((await add(person, longest)).status).toBe(303);
    const entry = await env.DB.prepare("SELECT length(target_id) AS length FROM audit WHERE account_id = ? AND action = 'passkey.added'")
      .bind(person.member.accountId)
      .first("length");
    expect(entry).toBe(32);
    // Two there are: that of the link, and this one.
    for (let n = 2; n < maxPasskeys; n++) expect((await add(person, await makeAuthenticator())).status).toBe(303);
    const refused = (answer: { status: number; text: string }, why: string) =>
      expect([answer.status, answer.text.includes(why)]).toEqual([422, true]);
    refused(await add(person, await makeAuthenticator()), `You may have ${maxPasskeys} passkeys.`);
    expect((await signIn(longest)).status).toBe(303);
    // The nineteen that were added, and one more; that of the link was not added.
    await person.post(`/settings/passkeys/${longest.id}/remove`);
    expect((await add(person, await makeAuthenticator())).status).toBe(303);
    const [first] = await listPasskeys(db, person.member.id);
    await person.post(`/settings/passkeys/${first?.id}/remove`);
    refused(await add(person, await makeAuthenticator()), "You added 20 passkeys in 24 hours.");
  });

  it("that is registered already is refused in a sentence, to who adds one and to who joins by one", async () => {
    const { accountId } = await makeTenant();
    const [one, other] = [await makePerson(accountId), await makePerson(accountId)];
    const device = await makeAuthenticator();
    await add(one, device);
    const again = await add(other, await makeAuthenticator(device.id));
    expect([again.status, again.text.includes("This passkey is registered already.")]).toEqual([422, true]);
    const token = await makeSetup({ db, now: Date.now() }, accountId);
    const fields = { token, name: "Eve", email: "eve@example.com" };
    const { body } = await post("/setup/options", fields);
    const joined = await post("/setup", { ...fields, response: await (await makeAuthenticator(device.id)).register(body) });
    expect([joined.status, joined.text.includes("This passkey is registered already.")]).toEqual([403, true]);
    const { results } = await env.DB.prepare("SELECT member_id FROM passkeys WHERE id = ?").bind(device.id).all();
    expect(results).toEqual([{ member_id: one.member.id }]);
    // The link is as good as before.
    expect((await post("/setup/check", { token })).status).toBe(200);
  });

  it.each<[string, ClientData]>([
    ["in a frame on a page of elsewhere", { crossOrigin: true }],
    ["in a frame on a page that is named", { crossOrigin: true, topOrigin: "https://evil.example" }],
    ["on a page that says both", { crossOrigin: false, topOrigin: "https://overview.acme.dev" }],
    ["on a page of another origin", { origin: "https://evil.example" }],
    ["by a challenge that nobody made", { challenge: Buffer.alloc(42, 7).toString("base64url") }],
  ])("that was used %s is refused", async (_, client) => {
    const { accountId } = await makeTenant();
    const person = await makePerson(accountId);
    const device = await makeAuthenticator();
    expect((await add(person, device, client)).text).toContain("The passkey was not taken.");
    await add(person, device);
    const refused = await signIn(device, client);
    expect([refused.status, refused.headers.get("Set-Cookie")]).toEqual([403, null]);
    expect((await signIn(device)).status).toBe(303);
  });
});

describe("A challenge", () => {
  it("to confirm, made for another member, confirms nothing", async () => {
    const { accountId } = await makeTenant();
    const [one, other] = [await makePerson(accountId), await makePerson(accountId)];
    const device = await makeAuthenticator();
    await add(one, device);
    await age(one.member, "verified_at", hourMs);
    const { body: others } = await other.post("/confirm/options");
    const keyForm = { name: "Confirmed", scopes: "tasks:read" };
    const refused = await one.post("/keys", { ...keyForm, confirm_response: await device.sign(others) });
    expect([refused.status, refused.text.includes("The passkey was not taken.")]).toEqual([422, true]);
    const { body: own } = await one.post("/confirm/options");
    expect((await one.post("/keys", { ...keyForm, confirm_response: await device.sign(own) })).status).toBe(200);
  });

  it("to add a passkey, made for another member, adds none", async () => {
    const { accountId } = await makeTenant();
    const [one, other] = [await makePerson(accountId), await makePerson(accountId)];
    const device = await makeAuthenticator();
    const { body: others } = await other.post("/settings/passkeys/options");
    const refused = await one.post("/settings/passkeys", { name: "x", response: await device.register(others) });
    expect(refused.text).toContain("The passkey was not taken.");
    expect((await signIn(device)).status).toBe(403);
  });

  it("to join, made for another link, lets nobody join", async () => {
    const [one, other] = [await makeTenant(), await makeTenant()];
    const [token, others] = [
      await makeSetup({ db, now: Date.now() }, one.accountId),
      await makeSetup({ db, now: Date.now() }, other.accountId),
    ];
    const fields = { token, name: "Ada", email: "ada@example.com" };
    const device = await makeAuthenticator();
    const { body } = await post("/setup/options", { ...fields, token: others });
    expect((await post("/setup", { ...fields, response: await device.register(body) })).text).toContain("The passkey was not taken.");
    const { body: own } = await post("/setup/options", fields);
    expect((await post("/setup", { ...fields, response: await device.register(own) })).status).toBe(200);
  });

  it("is used up by what was truly signed, once, and by nothing else", async () => {
    const { accountId } = await makeTenant();
    const person = await makePerson(accountId);
    const [device, forger] = [await makeAuthenticator(), await makeAuthenticator()];
    await add(person, device);
    const spent = () => env.DB.prepare("SELECT count(*) AS count FROM spent_challenges").first<number>("count");
    const before = await spent();
    const { body } = await post("/login/options");
    const [genuine, forged] = [await device.sign(body), await forger.sign(body)];
    const { response } = JSON.parse(forged);
    const send = (signed: string) => post("/login", { response: signed, return_to: "/" });
    for (let n = 0; n < 3; n++) expect((await send(JSON.stringify({ ...JSON.parse(genuine), response }))).status).toBe(403);
    expect(await spent()).toBe(before);
    expect([(await send(genuine)).status, (await send(genuine)).status]).toEqual([303, 403]);
  });
});
