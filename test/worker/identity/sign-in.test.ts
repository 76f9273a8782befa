import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { makeSetup } from "../../../src/identity/invitations.ts";
import { claim } from "../../../src/identity/join.ts";
import { hourMs, minuteMs } from "../../../src/time/clock.ts";
import { hidden, labelled } from "../support/browse.ts";
import { call, db, makeKey, makeTenant, origin } from "../support/client.ts";
import { age, ask, form, isOut, makePerson, storeOwn, tokenIn } from "../support/people.ts";

describe("Signed out,", () => {
  it.each(["/", "/keys", "/keys/new", "/settings", "/settings/audit", "/usage.csv", "/activity?status=4xx", "/keys/key_1/first-request"])(
    "%s leads to the sign-in and back",
    async (path) => {
      for (const method of ["GET", "HEAD"]) {
        const answer = await ask(method, path);
        expect([answer.status, answer.headers.get("Location")]).toEqual([303, `/login?return_to=${encodeURIComponent(path)}`]);
      }
    },
  );

  it("no form does anything", async () => {
    const { key, keyId } = await makeTenant();
    for (const path of [`/keys/${keyId}/revoke`, "/keys", "/webhooks", "/settings/invitations", "/settings/recovery-codes"])
      expect(isOut(await ask("POST", path, form, "name=x")), path).toBe(true);
    expect((await call("GET", "/api/v1/me", { key })).status).toBe(200);
  });

  it("a form that comes too late leads back to the page that it was on, and says that nothing was done", async () => {
    const answer = await ask("POST", "/keys/key_1/disable", { ...form, Referer: `${origin}/keys/key_1?done=changed` });
    const to = answer.headers.get("Location") ?? "";
    expect(to).toBe(`/login?return_to=${encodeURIComponent("/keys/key_1?done=changed")}&unsent=1`);
    expect((await ask("GET", to)).text).toContain("what you sent was not done");
    const elsewhere = await ask("POST", "/keys/key_1/disable", { ...form, Referer: "https://evil.example/keys" });
    expect(elsewhere.headers.get("Location")).toBe("/login?return_to=%2F&unsent=1");
  });

  it("no address of elsewhere is led to after the sign-in", async () => {
    const { accountId } = await makeTenant();
    const { codes } = await makePerson(accountId);
    for (const [index, to] of ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)"].entries()) {
      const body = new URLSearchParams({ code: codes[index] ?? "", return_to: to }).toString();
      expect((await ask("POST", "/login/recovery", form, body)).headers.get("Location"), to).toBe("/");
    }
  });
});

describe("A link", () => {
  const passkey = () => ({ id: crypto.randomUUID(), name: "x", publicKey: "", counter: 0, transports: [] });
  const from = { ip: null, country: null, userAgent: null };

  it("makes one member, of however many come at once", async () => {
    const { accountId } = await makeTenant();
    const token = await makeSetup({ db, now: Date.now() }, accountId);
    const come = (name: string) =>
      claim({ db }, Date.now(), { token, person: { name, email: `${name}@example.com` }, passkey: passkey(), from });
    const outcomes = await Promise.allSettled(["a", "b", "c", "d"].map(come));
    expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    const { results } = await env.DB.prepare("SELECT id FROM members WHERE account_id = ?").bind(accountId).all();
    expect(results).toHaveLength(1);
    const { results: kept } = await env.DB.prepare("SELECT 1 FROM passkeys WHERE member_id = ?")
      .bind(results[0]?.id ?? "")
      .all();
    expect(kept).toHaveLength(1);
    await expect(come("e")).rejects.toThrow("used before");
  });

  it("makes no second member of somebody who is one: of two invitations to one address the second has nothing to give", async () => {
    const { accountId } = await makeTenant();
    const owner = await makePerson(accountId);
    const email = `${crypto.randomUUID()}@example.com`;
    const links: string[] = [];
    for (let count = 0; count < 2; count++) {
      const { text } = await owner.post("/settings/invitations", { email, role: "viewer" });
      links.push((labelled(text, "Invitation link") ?? "").split("#")[1] ?? "");
    }
    const come = (token: string) => claim({ db }, Date.now(), { token, person: { name: "x", email }, passkey: passkey(), from });
    expect((await come(links[0] ?? "")).member.email).toBe(email);
    await expect(come(links[1] ?? "")).rejects.toThrow("used before");
    expect((await env.DB.prepare("SELECT count(*) AS count FROM members WHERE email = ?").bind(email).first("count")) as number).toBe(1);
  });

  it("ends after seven days, and where a new one is made", async () => {
    const { accountId } = await makeTenant();
    const first = await makeSetup({ db, now: Date.now() }, accountId);
    const second = await makeSetup({ db, now: Date.now() }, accountId);
    const check = async (token: string) => (await ask("POST", "/setup/check", form, new URLSearchParams({ token }).toString())).status;
    expect([await check(first), await check(second), await check("made-up"), await check("")]).toEqual([409, 200, 409, 409]);
    await env.DB.prepare("UPDATE invitations SET expires_at = ? WHERE account_id = ?").bind(Date.now(), accountId).run();
    expect(await check(second)).toBe(409);
  });

  it("is kept as its hash alone, and so are sessions and recovery codes", async () => {
    const { accountId } = await makeTenant();
    const token = await makeSetup({ db, now: Date.now() }, accountId);
    const { cookie, codes } = await makePerson(accountId);
    for (const table of ["invitations", "sessions", "recovery_codes", "audit", "events"]) {
      const text = JSON.stringify((await env.DB.prepare(`SELECT * FROM ${table}`).all()).results);
      for (const secret of [token, tokenIn(cookie), codes[0] ?? ""]) expect(text, table).not.toContain(secret);
    }
  });
});

describe("A recovery code", () => {
  it("is spent once, also by two at once", async () => {
    const { accountId } = await makeTenant();
    const { codes } = await makePerson(accountId);
    const body = new URLSearchParams({ code: codes[0] ?? "" }).toString();
    const statuses = (await Promise.all([1, 2, 3].map(() => ask("POST", "/login/recovery", form, body)))).map(({ status }) => status);
    expect(statuses.toSorted()).toEqual([303, 403, 403]);
  });

  it("of a member who was removed lets nobody in", async () => {
    const { accountId } = await makeTenant();
    const [owner, gone] = [await makePerson(accountId), await makePerson(accountId, "viewer")];
    expect((await owner.post(`/settings/people/${gone.member.id}/remove`)).status).toBe(303);
    const body = new URLSearchParams({ code: gone.codes[0] ?? "" }).toString();
    expect((await ask("POST", "/login/recovery", form, body)).status).toBe(403);
  });
});

it("Recovery codes are made twenty times a day; the next request ends those that are there", async () => {
  const { accountId } = await makeTenant();
  const person = await makePerson(accountId, "viewer");
  const make = () => person.post("/settings/recovery-codes", { nonce: crypto.randomUUID().replaceAll("-", "") });
  await storeOwn(person, "recovery_codes.made", 19);
  expect((await make()).status).toBe(200);
  const count = (sql: string, value: string) => env.DB.prepare(`SELECT count(*) AS count FROM ${sql}`).bind(value).first<number>("count");
  expect(await count("recovery_codes WHERE member_id = ?", person.member.id)).toBe(8);
  const refused = await make();
  expect([refused.status, refused.text.includes("You made recovery codes 20 times in 24 hours.")]).toEqual([409, true]);
  expect(await count("recovery_codes WHERE member_id = ?", person.member.id)).toBe(0);
  await make();
  expect(await count("audit WHERE account_id = ? AND action = 'recovery_codes.ended'", accountId)).toBe(1);
});

describe("Who has not shown for ten minutes who they are", () => {
  it("is asked before a secret is made or ended, and the form goes on from there with a recovery code", async () => {
    const { accountId, key: owner } = await makeTenant();
    const { member, post, codes } = await makePerson(accountId);
    await age(member, "verified_at", 11 * minuteMs);
    const asked = await post("/keys", { name: "Later", scopes: ["tasks:read", "users:read"] });
    expect([asked.status, asked.text.includes("Confirm that it is you")]).toEqual([403, true]);
    expect([hidden(asked.text, "name"), asked.text.match(/name="scopes"/g)?.length]).toEqual(["Later", 2]);
    expect((await call("GET", "/api/v1/keys", { key: owner })).body.data).toHaveLength(1);
    const fields = { name: "Later", scopes: ["tasks:read", "users:read"] };
    const wrong = await post("/keys", { ...fields, confirm_code: "wrong" });
    expect([wrong.status, wrong.text.includes("not one of your recovery codes")]).toEqual([422, true]);
    const stranger = await makePerson(accountId);
    expect((await post("/keys", { ...fields, confirm_code: stranger.codes[0] ?? "" })).status).toBe(422);
    const made = await post("/keys", { ...fields, confirm_code: codes[0] ?? "" });
    expect(labelled(made.text, "Secret key")).toMatch(/^dvo_/);
    expect(labelled((await post("/keys", { name: "Again" })).text, "Secret key")).toMatch(/^dvo_/);
  });

  it("leaves an audit entry where a recovery code confirmed it", async () => {
    const { accountId, key: owner } = await makeTenant();
    const { member, post, codes } = await makePerson(accountId);
    await age(member, "verified_at", 11 * minuteMs);
    await post("/keys", { name: "Later", confirm_code: codes[0] ?? "" });
    const { body } = await call("GET", "/api/v1/audit?action=session.confirmed", { key: owner });
    expect(body.data).toMatchObject([{ actor: { id: member.id }, target: { type: "session", name: "recovery code" } }]);
  });

  it("makes recovery codes and an invitation once for each form, however often it is sent", async () => {
    const { accountId } = await makeTenant();
    const { get, post } = await makePerson(accountId);
    const nonce = hidden((await get("/settings")).text, "nonce");
    const codes = async () =>
      (await post("/settings/recovery-codes", { nonce })).text.match(/[0-9a-z]{5}(?:-[0-9a-z]{5}){4}/g)?.length ?? 0;
    expect([(await codes()) > 0, await codes()]).toEqual([true, 0]);
    const invitation = { nonce: `${nonce}-2`, email: "twice@example.com", role: "viewer" };
    expect([(await post("/settings/invitations", invitation)).status, (await post("/settings/invitations", invitation)).status]).toEqual([
      200, 303,
    ]);
    expect((await post("/settings/invitations", { email: "x@example.com", role: "god" })).status).toBe(422);
  });

  it("still looks, disables a key and signs out", async () => {
    const { accountId } = await makeTenant();
    const { key, keyId } = await makeKey(accountId);
    const { member, get, post } = await makePerson(accountId);
    await age(member, "verified_at", hourMs);
    expect([(await get("/keys")).status, (await post(`/keys/${keyId}/disable`)).status]).toEqual([200, 303]);
    expect((await call("GET", "/api/v1/me", { key })).body.code).toBe("disabled_key");
  });

  it.each(["rotate", "revoke"])("does not %s a key", async (verb) => {
    const { accountId, keyId, key } = await makeTenant();
    const { member, post } = await makePerson(accountId);
    await age(member, "verified_at", hourMs);
    expect((await post(`/keys/${keyId}/${verb}`)).status).toBe(403);
    expect((await call("GET", "/api/v1/me", { key })).status).toBe(200);
  });
});

describe("A role", () => {
  const forms: [path: string, fields: Record<string, string>][] = [
    ["/keys", { name: "x" }],
    ["/keys/KEY", { name: "x", scopes: "users:read" }],
    ["/keys/KEY/disable", {}],
    ["/keys/KEY/rotate", {}],
    ["/keys/KEY/revoke", {}],
    ["/webhooks", { url: "https://hooks.acme.dev/x", event_types: "task.created" }],
    ["/webhooks/whk_1/test", {}],
    ["/deliveries/dlv_1/redeliver", {}],
    ["/settings/invitations", { email: "x@example.com", role: "viewer" }],
    ["/settings/people/MEMBER/remove", {}],
    ["/settings/people/MEMBER/role", { role: "owner" }],
    ["/settings/sample-data", {}],
  ];

  it.each(forms)("of a viewer does not allow POST %s, by a hand-made form either", async (path, fields) => {
    const { accountId, keyId, key } = await makeTenant();
    const [viewer, other] = [await makePerson(accountId, "viewer"), await makePerson(accountId, "viewer")];
    const answer = await viewer.post(path.replace("KEY", keyId).replace("MEMBER", other.member.id), fields);
    expect([answer.status, answer.text.includes("Your role is viewer")]).toEqual([403, true]);
    expect((await call("GET", "/api/v1/me", { key })).status).toBe(200);
    expect((await other.get("/")).status).toBe(200);
  });

  it("of a developer allows keys and webhooks, but none that reads the audit log or makes keys, nor the secret of one that does", async () => {
    const { accountId, keyId, key: full } = await makeTenant();
    const { get, post } = await makePerson(accountId, "developer");
    expect(labelled((await post("/keys", { name: "Mine", scopes: ["tasks:read", "keys:read"] })).text, "Secret key")).toMatch(/^dvo_/);
    for (const scope of ["audit:read", "keys:write"]) {
      expect((await get("/keys/new")).text).not.toContain(`value="${scope}"`);
      expect((await post("/keys", { name: "More", scopes: ["tasks:read", scope] })).status, scope).toBe(422);
    }
    expect((await post(`/keys/${keyId}/rotate`)).text).not.toContain('aria-label="Secret key"');
    expect((await post(`/keys/${keyId}`, { name: "x", scopes: "tasks:read" })).status).toBe(422);
    expect((await call("GET", "/api/v1/me", { key: full })).status).toBe(200);
    // It may be stopped, since it may have leaked; the page offers nothing that would be refused, and says who can go on.
    const offered = async () =>
      [...(await get(`/keys/${keyId}`)).text.matchAll(/>\s*(Disable|Enable|Rotate|Revoke|Save)\s*</g)].map(([, name]) => name);
    expect(await offered()).toEqual(["Disable", "Revoke"]);
    expect((await post(`/keys/${keyId}/disable`)).status).toBe(303);
    expect(await offered()).toEqual(["Revoke"]);
    expect((await get(`/keys/${keyId}`)).text).toContain("only an admin or an owner of the account can change");
    expect((await post(`/keys/${keyId}/enable`)).status).toBe(422);
    expect([(await get("/settings/audit")).status, (await post("/settings/invitations", { email: "x@example.com" })).status]).toEqual([
      403, 403,
    ]);
  });

  it("of a developer looks at a webhook that is sent events about people, and is told who may change it", async () => {
    const { accountId, key } = await makeTenant();
    const { body } = await call("POST", "/api/v1/webhooks", { key, body: { url: "https://hooks.acme.dev/x", event_types: ["*"] } });
    const { get, post } = await makePerson(accountId, "developer");
    const { text } = await get(`/webhooks/${body.id}`);
    expect(text).toContain("An admin or an owner of the account can change it");
    expect(text).not.toContain(`action="/webhooks/${body.id}/disable"`);
    expect((await post(`/webhooks/${body.id}/disable`)).status).toBe(422);
    expect((await (await makePerson(accountId, "admin")).get(`/webhooks/${body.id}`)).text).toContain(
      `action="/webhooks/${body.id}/disable"`,
    );
  });

  it("of an admin allows to invite and remove viewers and developers alone", async () => {
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
    expect((await admin.post(`/settings/people/${owner.member.id}/remove`)).status).toBe(403);
    expect((await admin.post(`/settings/people/${developer.member.id}/role`, { role: "admin" })).status).toBe(403);
    expect((await admin.post(`/settings/people/${developer.member.id}/remove`)).status).toBe(303);
    expect((await admin.get("/settings/audit")).text).toContain("member.removed");
  });

  it("of the last owner cannot be lost", async () => {
    const { accountId } = await makeTenant();
    const owner = await makePerson(accountId);
    const path = `/settings/people/${owner.member.id}`;
    const refused = await owner.post(`${path}/remove`);
    expect([refused.status, refused.text.includes("last owner")]).toEqual([422, true]);
    expect((await owner.post(`${path}/role`, { role: "viewer" })).status).toBe(422);
    const second = await makePerson(accountId);
    const both = await Promise.all([owner.post(`${path}/remove`), second.post(`/settings/people/${second.member.id}/remove`)]);
    expect(both.map(({ status }) => status).filter((status) => status === 303)).toHaveLength(1);
  });

  it("of another account's owner allows nothing here", async () => {
    const [mine, theirs] = [await makeTenant(), await makeTenant()];
    const stranger = await makePerson(mine.accountId);
    const { member, get } = await makePerson(theirs.accountId);
    for (const path of [`/settings/people/${member.id}/remove`, `/settings/people/${member.id}/role`])
      expect((await stranger.post(path, { role: "viewer" })).status, path).toBe(404);
    expect((await get("/")).status).toBe(200);
  });
});

it("A member's events join the catalogue, for keys that may read the audit log", async () => {
  const { accountId, key } = await makeTenant();
  const { key: without } = await makeKey(accountId, { scopes: ["webhooks:read"] });
  const owner = await makePerson(accountId);
  await owner.post("/settings/invitations", { email: "new@example.com", role: "viewer" });
  const typesFor = async (by: string) =>
    (await call("GET", "/api/v1/events", { key: by })).body.data
      .map(({ type }: { type: string }) => type)
      .filter((type: string) => type.startsWith("member."));
  expect(await typesFor(key)).toEqual(["member.invited", "member.joined"]);
  expect(await typesFor(without)).toEqual([]);
});

it("Somebody who has signed in is sent on from the sign-in page, and stays within this origin", async () => {
  const { get } = await makePerson((await makeTenant()).accountId);
  const sentTo = async (path: string) => {
    const { status, headers } = await get(path);
    return [status, headers.get("Location")];
  };
  expect(await sentTo("/login?return_to=%2Fkeys")).toEqual([303, "/keys"]);
  expect(await sentTo("/login?return_to=%2F%2Fevil.example")).toEqual([303, "/"]);
  expect((await ask("GET", "/login")).status).toBe(200);
});
