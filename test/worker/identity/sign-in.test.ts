import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { createSetupLink } from "../../../src/identity/invitations.ts";
import { minuteMs } from "../../../src/lib/time/clock.ts";
import { hidden, labelled } from "../support/browse.ts";
import { call, db, makeKey, makeTenant, origin } from "../support/client.ts";
import { countAuditRows } from "../support/log-rows.ts";
import { backdateSessions, countPasskeys, countRecoveryCodes, readMemberIds, setExpiryOfInvitations } from "../support/member-rows.ts";
import { accept, insertOwnAuditEntries, makePerson, postForm, sendRequest, sessionTokenIn } from "../support/people.ts";

/** Returns all rows of a table as JSON. */
const dumpTable = async (table: string) => JSON.stringify((await env.DB.prepare(`SELECT * FROM ${table}`).all()).results);

describe("A visitor without a session", () => {
  it("returns to the page of a form that was sent too late, and reads that nothing was changed", async () => {
    const { headers } = await postForm("/keys/key_1/disable", {}, { Referer: `${origin}/keys/key_1?done=changed` });
    const location = headers.get("Location") ?? "";
    expect(location).toBe(`/login?return_to=${encodeURIComponent("/keys/key_1?done=changed")}&unsent=1`);
    expect((await sendRequest("GET", location)).text).toContain("your form was not processed");
    const fromOtherSite = await postForm("/keys/key_1/disable", {}, { Referer: "https://evil.example/keys" });
    expect(fromOtherSite.headers.get("Location")).toBe("/login?return_to=%2F&unsent=1");
  });

  it("is never redirected to another site after the sign-in", async () => {
    const { accountId } = await makeTenant();
    const { codes } = await makePerson(accountId);
    for (const [index, path] of ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)"].entries()) {
      const { headers } = await postForm("/login/recovery", { code: codes[index] ?? "", return_to: path });
      expect(headers.get("Location"), path).toBe("/");
    }
  });
});

describe("An invitation or setup link", () => {
  it("creates only one member, even if several people use it at the same time", async () => {
    const { accountId } = await makeTenant();
    const token = await createSetupLink({ db, now: Date.now() }, accountId);
    const acceptAs = (name: string) => accept(token, `${name}@example.com`);
    const outcomes = await Promise.allSettled(["a", "b", "c", "d"].map(acceptAs));
    expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    const memberIds = await readMemberIds(accountId);
    expect(memberIds).toHaveLength(1);
    expect(await countPasskeys(memberIds[0] ?? "")).toBe(1);
    await expect(acceptAs("e")).rejects.toThrow("already used");
  });

  it("cannot be used after it expired, or after the operator created a new setup link", async () => {
    const { accountId } = await makeTenant();
    const first = await createSetupLink({ db, now: Date.now() }, accountId);
    const second = await createSetupLink({ db, now: Date.now() }, accountId);
    const statusOf = async (token: string) => (await postForm("/setup/check", { token })).status;
    expect([await statusOf(first), await statusOf(second), await statusOf("made-up"), await statusOf("")]).toEqual([409, 200, 409, 409]);
    await setExpiryOfInvitations(accountId, Date.now());
    expect(await statusOf(second)).toBe(409);
  });

  it("is stored only as a hash, like a session and a recovery code", async () => {
    const { accountId } = await makeTenant();
    const token = await createSetupLink({ db, now: Date.now() }, accountId);
    const { cookie, codes } = await makePerson(accountId);
    for (const table of ["invitations", "sessions", "recovery_codes", "audit", "events"]) {
      const rows = await dumpTable(table);
      for (const secret of [token, sessionTokenIn(cookie), codes[0] ?? ""]) expect(rows, table).not.toContain(secret);
    }
  });
});

describe("A recovery code", () => {
  it("can be used once, even if several requests use it at the same time", async () => {
    const { accountId } = await makeTenant();
    const { codes } = await makePerson(accountId);
    const responses = await Promise.all([1, 2, 3].map(() => postForm("/login/recovery", { code: codes[0] ?? "" })));
    expect(responses.map(({ status }) => status).toSorted()).toEqual([303, 403, 403]);
    const inCapitals = (codes[1] ?? "").toUpperCase();
    expect((await postForm("/login/recovery", { code: inCapitals })).status).toBe(303);
    const repeated = await postForm("/login/recovery", { code: inCapitals });
    expect([repeated.status, repeated.text.includes("already used")]).toEqual([403, true]);
  });
});

it("A member can create recovery codes 20 times a day, and the next attempt deletes the existing codes", async () => {
  const { accountId } = await makeTenant();
  const person = await makePerson(accountId, "viewer");
  const createCodes = () => person.post("/settings/recovery-codes", { nonce: crypto.randomUUID().replaceAll("-", "") });
  await insertOwnAuditEntries(person, "recovery_codes.made", 19);
  expect((await createCodes()).status).toBe(200);
  expect(await countRecoveryCodes(person.member.id)).toBe(8);
  const denied = await createCodes();
  expect([denied.status, denied.text.includes("You made recovery codes 20 times in 24 hours.")]).toEqual([409, true]);
  expect(await countRecoveryCodes(person.member.id)).toBe(0);
  await createCodes();
  expect(await countAuditRows(accountId, "recovery_codes.ended")).toBe(1);
});

describe("A member without a sign-in in the last ten minutes", () => {
  it("must confirm their identity before a key is created, and a recovery code continues with the same form", async () => {
    const { accountId, key: ownerKey } = await makeTenant();
    const { member, post, codes } = await makePerson(accountId);
    await backdateSessions(member.id, "verified_at", 11 * minuteMs);
    const fields = { name: "Later", scopes: ["tasks:read", "users:read"] };
    const stepUp = await post("/keys", fields);
    expect([stepUp.status, stepUp.text.includes("Confirm that it is you")]).toEqual([403, true]);
    expect([hidden(stepUp.text, "name"), stepUp.text.match(/name="scopes"/g)?.length]).toEqual(["Later", 2]);
    expect((await call("GET", "/api/v1/keys", { key: ownerKey })).body.data).toHaveLength(1);
    const wrong = await post("/keys", { ...fields, confirm_code: "wrong" });
    expect([wrong.status, wrong.text.includes("not one of your recovery codes")]).toEqual([422, true]);
    const otherOwner = await makePerson(accountId);
    expect((await post("/keys", { ...fields, confirm_code: otherOwner.codes[0] ?? "" })).status).toBe(422);
    const created = await post("/keys", { ...fields, confirm_code: codes[0] ?? "" });
    expect(labelled(created.text, "Secret key")).toMatch(/^dvo_/);
    expect(labelled((await post("/keys", { name: "Again" })).text, "Secret key")).toMatch(/^dvo_/);
    const { body } = await call("GET", "/api/v1/audit?action=session.confirmed", { key: ownerKey });
    expect(body.data).toMatchObject([{ actor: { id: member.id }, target: { type: "session", name: "recovery code" } }]);
  });
});

it("A form that is sent twice creates recovery codes or an invitation only once", async () => {
  const { accountId } = await makeTenant();
  const { get, post } = await makePerson(accountId);
  const nonce = hidden((await get("/settings")).text, "nonce");
  const countShownCodes = async () =>
    (await post("/settings/recovery-codes", { nonce })).text.match(/[0-9a-z]{5}(?:-[0-9a-z]{5}){4}/g)?.length ?? 0;
  expect([(await countShownCodes()) > 0, await countShownCodes()]).toEqual([true, 0]);
  const invite = async () =>
    (await post("/settings/invitations", { nonce: `${nonce}-2`, email: "twice@example.com", role: "viewer" })).status;
  expect([await invite(), await invite()]).toEqual([200, 303]);
  expect((await post("/settings/invitations", { email: "x@example.com", role: "god" })).status).toBe(422);
});

describe("A viewer", () => {
  const forms: [path: string, fields: Record<string, string>][] = [
    ["/keys/KEY/revoke", {}],
    ["/webhooks", { url: "https://hooks.acme.dev/x", event_types: "task.created" }],
    ["/settings/invitations", { email: "x@example.com", role: "viewer" }],
    ["/settings/members/MEMBER/role", { role: "owner" }],
  ];

  it.each(forms)("is denied POST %s, even if no page sent the form", async (path, fields) => {
    const { accountId, keyId, key } = await makeTenant();
    const [viewer, otherViewer] = [await makePerson(accountId, "viewer"), await makePerson(accountId, "viewer")];
    const { status, text } = await viewer.post(path.replace("KEY", keyId).replace("MEMBER", otherViewer.member.id), fields);
    expect([status, text.includes("Your role is viewer")]).toEqual([403, true]);
    expect((await call("GET", "/api/v1/me", { key })).status).toBe(200);
    expect((await otherViewer.get("/")).status).toBe(200);
  });
});

describe("A developer", () => {
  it("can manage keys, except keys with the scopes audit:read and keys:write", async () => {
    const { accountId, keyId, key: fullKey } = await makeTenant();
    const { get, post } = await makePerson(accountId, "developer");
    expect(labelled((await post("/keys", { name: "Mine", scopes: ["tasks:read", "keys:read"] })).text, "Secret key")).toMatch(/^dvo_/);
    for (const scope of ["audit:read", "keys:write"]) {
      expect((await get("/keys/new")).text).not.toContain(`value="${scope}"`);
      expect((await post("/keys", { name: "More", scopes: ["tasks:read", scope] })).status, scope).toBe(422);
    }
    expect((await post(`/keys/${keyId}/rotate`)).text).not.toContain('aria-label="Secret key"');
    expect((await post(`/keys/${keyId}`, { name: "x", scopes: "tasks:read" })).status).toBe(422);
    expect((await call("GET", "/api/v1/me", { key: fullKey })).status).toBe(200);
    // A developer can disable or revoke such a key, because the key may have leaked. The page offers only the allowed actions. The page
    // also names the roles that can do more.
    const readActions = async () =>
      [...(await get(`/keys/${keyId}`)).text.matchAll(/>\s*(Disable|Enable|Rotate|Revoke|Save)\s*</g)].map(([, name]) => name);
    expect(await readActions()).toEqual(["Disable", "Revoke"]);
    expect((await post(`/keys/${keyId}/disable`)).status).toBe(303);
    expect(await readActions()).toEqual(["Revoke"]);
    expect((await get(`/keys/${keyId}`)).text).toContain("only an admin or an owner of the account can change");
    expect((await post(`/keys/${keyId}/enable`)).status).toBe(422);
    expect([(await get("/settings/audit")).status, (await post("/settings/invitations", { email: "x@example.com" })).status]).toEqual([
      403, 403,
    ]);
  });
});

describe("An admin", () => {
  it("can invite and remove only viewers and developers", async () => {
    const { accountId } = await makeTenant();
    const [admin, owner, developer] = [
      await makePerson(accountId, "admin"),
      await makePerson(accountId),
      await makePerson(accountId, "developer"),
    ];
    const inviteAs = async (role: string) => (await admin.post("/settings/invitations", { email: `${role}@example.com`, role })).status;
    expect([await inviteAs("viewer"), await inviteAs("developer"), await inviteAs("admin"), await inviteAs("owner")]).toEqual([
      200, 200, 403, 403,
    ]);
    expect((await admin.post(`/settings/members/${owner.member.id}/remove`)).status).toBe(403);
    expect((await admin.post(`/settings/members/${developer.member.id}/role`, { role: "admin" })).status).toBe(403);
    expect((await admin.post(`/settings/members/${developer.member.id}/remove`)).status).toBe(303);
    expect((await admin.get("/settings/audit")).text).toContain("member.removed");
  });
});

describe("An owner", () => {
  it("cannot leave or get another role while no other owner exists", async () => {
    const { accountId } = await makeTenant();
    const owner = await makePerson(accountId);
    const path = `/settings/members/${owner.member.id}`;
    const denied = await owner.post(`${path}/remove`);
    expect([denied.status, denied.text.includes("last owner")]).toEqual([422, true]);
    expect((await owner.post(`${path}/role`, { role: "viewer" })).status).toBe(422);
    const secondOwner = await makePerson(accountId);
    const removals = await Promise.all([
      owner.post(`${path}/remove`),
      secondOwner.post(`/settings/members/${secondOwner.member.id}/remove`),
    ]);
    expect(removals.map(({ status }) => status).filter((status) => status === 303)).toHaveLength(1);
  });

  it("cannot remove a member of another account or change that member's role", async () => {
    const [own, foreign] = [await makeTenant(), await makeTenant()];
    const owner = await makePerson(own.accountId);
    const { member, get } = await makePerson(foreign.accountId);
    for (const path of [`/settings/members/${member.id}/remove`, `/settings/members/${member.id}/role`])
      expect((await owner.post(path, { role: "viewer" })).status, path).toBe(404);
    expect((await get("/")).status).toBe(200);
  });
});

it("Events about members are visible only to keys with the scope audit:read", async () => {
  const { accountId, key } = await makeTenant();
  const { key: keyWithoutScope } = await makeKey(accountId, { scopes: ["webhooks:read"] });
  const owner = await makePerson(accountId);
  await owner.post("/settings/invitations", { email: "new@example.com", role: "viewer" });
  const readMemberEvents = async (reader: string) =>
    (await call("GET", "/api/v1/events", { key: reader })).body.data
      .map(({ type }: { type: string }) => type)
      .filter((type: string) => type.startsWith("member."));
  expect(await readMemberEvents(key)).toEqual(["member.invited", "member.joined"]);
  expect(await readMemberEvents(keyWithoutScope)).toEqual([]);
});

it("The sign-in page redirects a signed-in member, but never to another site", async () => {
  const { get } = await makePerson((await makeTenant()).accountId);
  const open = async (path: string) => {
    const { status, headers } = await get(path);
    return [status, headers.get("Location")];
  };
  expect(await open("/login?return_to=%2Fkeys")).toEqual([303, "/keys"]);
  expect(await open("/login?return_to=%2F%2Fevil.example")).toEqual([303, "/"]);
  expect((await sendRequest("GET", "/login")).status).toBe(200);
});
