import { describe, expect, it } from "vitest";
import { browse, hidden, labelled } from "../support/browse.ts";
import { call, makeKey, makeTenant, within2s } from "../support/client.ts";

const status = async (key: string) => {
  const { status, body } = await call("GET", "/api/v1/me", { key });
  return status === 200 ? 200 : body.code;
};

const idIn = (text: string) => /key_[0-9A-Za-z]{16}/.exec(text)?.[0] ?? "";

describe("A key", () => {
  it("is made by a form with a name alone, as the API makes it, and its secret is shown this once", async () => {
    const { accountId, key: owner } = await makeTenant();
    const { get, post } = browse(accountId);
    const form = await get("/keys/new");
    for (const scope of ["users:read", "tasks:read", "tasks:write", "analytics:read"])
      expect(form.text).toMatch(new RegExp(`value="${scope}" checked`));
    expect(form.text).not.toMatch(/value="keys:write" checked/);
    const made = await post("/keys", { name: "By form" });
    const secret = labelled(made.text, "Secret key") ?? "";
    expect([made.status, made.headers.get("Cache-Control"), await status(secret)]).toEqual([200, "no-store", 200]);
    const { body } = await call("GET", `/api/v1/keys/${idIn(made.text)}`, { key: owner });
    expect(body).toMatchObject({
      name: "By form",
      scopes: ["users:read", "tasks:read", "tasks:write", "analytics:read"],
      hourly_limit: 5000,
      expires_at: null,
    });
    const page = await get(`/keys/${idIn(made.text)}`);
    expect(page.text).toContain("By form");
    expect(page.text).not.toContain(secret.slice(21));
  });

  it("is not made by a form with every scope unticked, which comes back as it was sent", async () => {
    const { accountId, key } = await makeTenant();
    const { get, post } = browse(accountId);
    const { text } = await get("/keys/new");
    const shown = { nonce: hidden(text, "nonce"), scopes_shown: hidden(text, "scopes_shown") };
    const refused = await post("/keys", { ...shown, name: "No scope" });
    expect([refused.status, refused.text.includes("Select at least one scope.")]).toEqual([422, true]);
    expect([refused.text.includes('value="No scope"'), / checked/.test(refused.text)]).toEqual([true, false]);
    expect((await call("GET", "/api/v1/keys", { key })).body.data).toHaveLength(1);
    const made = await post("/keys", { ...shown, name: "One scope", scopes: "tasks:read" });
    const { body } = await call("GET", `/api/v1/keys/${idIn(made.text)}`, { key });
    expect(body.scopes).toEqual(["tasks:read"]);
  });

  it("has what the form says", async () => {
    const { accountId, key: owner } = await makeTenant();
    const made = await browse(accountId).post("/keys", {
      name: "All of it",
      scopes: ["tasks:read", "keys:read"],
      hourly_limit: "20",
      expires_at: "2030-05-06T07:08",
      allowed_ips: "203.0.113.0/24\n2001:db8::1",
    });
    const { body } = await call("GET", `/api/v1/keys/${idIn(made.text)}`, { key: owner });
    expect(body).toMatchObject({
      scopes: ["tasks:read", "keys:read"],
      hourly_limit: 20,
      expires_at: "2030-05-06T07:08:00.000Z",
      allowed_ips: ["203.0.113.0/24", "2001:db8::1"],
    });
  });

  it("is made once, however often its form is sent", async () => {
    const { accountId, key: owner } = await makeTenant();
    const { get, post } = browse(accountId);
    const nonce = hidden((await get("/keys/new")).text, "nonce");
    const sent = await Promise.all([1, 2, 3].map(() => post("/keys", { name: "Once", nonce })));
    expect(sent.map(({ status }) => status).toSorted()).toEqual([200, 409, 409]);
    expect(sent.filter(({ text }) => text.includes("dvo_") && labelled(text, "Secret key")).length).toBe(1);
    const again = await post("/keys", { name: "Once", nonce });
    expect(again.text).not.toContain("Secret key");
    expect(again.text).toContain(`href="/keys/${idIn(sent.find(({ status }) => status === 200)?.text ?? "")}"`);
    const { body } = await call("GET", "/api/v1/keys", { key: owner });
    expect(body.data.filter(({ name }: { name: string }) => name === "Once")).toHaveLength(1);
  });

  it("that is not taken comes back with what was typed and each fault at its field", async () => {
    const { accountId } = await makeTenant();
    const { post } = browse(accountId);
    const blank = await post("/keys", { name: "  ", allowed_ips: "here", hourly_limit: "many" });
    expect(blank.status).toBe(422);
    expect(blank.text).toContain('role="alert"');
    for (const field of ["name", "allowed_ips", "hourly_limit"]) expect(blank.text).toContain(`id="field-${field}-fault"`);
    expect(blank.text).toContain(">here</textarea>");
    // The first fault has the focus, and of several values the one that is meant is named.
    expect([...blank.text.matchAll(/<(?:input|textarea)[^>]* autofocus/g)].map(([tag]) => /name="(\w+)"/.exec(tag)?.[1])).toEqual(["name"]);
    expect(blank.text).toContain("here: Must be an IPv4 or IPv6 address or CIDR range.");
    const high = await post("/keys", { name: "High", hourly_limit: "5001" });
    expect([high.status, high.text.includes("ceiling")]).toEqual([422, true]);
    expect(high.text).toContain('value="High"');
  });

  it("is changed, disabled and enabled by forms, and each says what it did and the call that does the same", async () => {
    const { accountId, key: owner } = await makeTenant();
    const { key, keyId } = await makeKey(accountId, { expiresAt: Date.parse("2030-01-02T03:04:05.678Z") });
    const { get, post } = browse(accountId);
    const act = async (path: string, fields = {}) => {
      const { status, headers } = await post(path, fields);
      expect(status).toBe(303);
      return (await get(headers.get("Location") ?? "")).text;
    };
    expect(await act(`/keys/${keyId}/disable`)).toMatch(/role="status"[\s\S]*Disabled\.[\s\S]*PATCH \/api\/v1\/keys/);
    expect(await status(key)).toBe("disabled_key");
    expect(await act(`/keys/${keyId}/enable`)).toContain("Enabled.");
    expect(await status(key)).toBe(200);
    await act(`/keys/${keyId}`, {
      name: "Renamed",
      scopes: ["users:read"],
      hourly_limit: "7",
      expires_at: "2030-01-02T03:04",
      allowed_ips: "",
    });
    const { body } = await call("GET", `/api/v1/keys/${keyId}`, { key: owner });
    expect(body).toMatchObject({ name: "Renamed", scopes: ["users:read"], hourly_limit: 7, expires_at: "2030-01-02T03:04:05.678Z" });
  });

  it("is rotated with an overlap, in which both secrets work", async () => {
    const { accountId } = await makeTenant();
    const { key, keyId } = await makeKey(accountId);
    const { get, post } = browse(accountId);
    const rotated = await post(`/keys/${keyId}/rotate`, { overlap_seconds: "3600" });
    const fresh = labelled(rotated.text, "Secret key") ?? "";
    expect([await status(key), await status(fresh)]).toEqual([200, 200]);
    expect((await get(`/keys/${keyId}`)).text).toContain("The secret before the last rotation works too");
    const again = labelled((await post(`/keys/${keyId}/rotate`)).text, "Secret key") ?? "";
    expect([await status(key), await status(fresh), await status(again)]).toEqual(["invalid_key", "invalid_key", 200]);
  });

  it("is changed in what the form has fields for alone, and not where somebody else has changed it since the form was shown", async () => {
    const { accountId, key: owner } = await makeTenant();
    const expiresAt = Date.parse("2030-01-02T03:04:05.678Z");
    const { keyId } = await makeKey(accountId, { scopes: ["tasks:read"], allowedIps: ["203.0.113.1"], hourlyLimit: 100, expiresAt });
    const { get, post } = browse(accountId);
    const read = async () => (await call("GET", `/api/v1/keys/${keyId}`, { key: owner })).body;
    const kept = { scopes: ["tasks:read"], allowed_ips: ["203.0.113.1"], hourly_limit: 100, expires_at: "2030-01-02T03:04:05.678Z" };
    expect((await post(`/keys/${keyId}`, { name: "Name alone" })).status).toBe(303);
    expect(await read()).toMatchObject({ name: "Name alone", ...kept });
    const stale = hidden((await get(`/keys/${keyId}`)).text, "revision");
    await call("PATCH", `/api/v1/keys/${keyId}`, { key: owner, body: { hourly_limit: 50 } });
    const late = await post(`/keys/${keyId}`, { name: "Too late", hourly_limit: "100", revision: stale });
    expect([late.status, late.text.includes("somebody else has changed this meanwhile")]).toEqual([422, true]);
    expect((await read()).hourly_limit).toBe(50);
    const fresh = hidden((await get(`/keys/${keyId}`)).text, "revision");
    expect((await post(`/keys/${keyId}`, { name: "In time", hourly_limit: "", revision: fresh, scopes_shown: "yes" })).status).toBe(303);
    expect(await read()).toMatchObject({ name: "In time", hourly_limit: 5000, scopes: [] });
  });

  it("that is rotated shows the traffic of both secrets since, even after other changes of it", async () => {
    const { accountId, key: owner } = await makeTenant();
    const { key, keyId } = await makeKey(accountId);
    const { get, post } = browse(accountId);
    await call("GET", "/api/v1/me", { key });
    await new Promise((resolve) => setTimeout(resolve, 5));
    const fresh = labelled((await post(`/keys/${keyId}/rotate`, { overlap_seconds: "600" })).text, "Secret key") ?? "";
    for (const secret of [key, fresh, fresh]) await call("GET", "/api/v1/me", { key: secret });
    await call("PATCH", `/api/v1/keys/${keyId}`, { key: owner, body: { name: "Renamed" } });
    const shown = await within2s(
      () => get(`/keys/${keyId}`),
      ({ text }) => text.includes("2 with the new one (66.67%), 1 with the old one (33.33%)"),
    );
    expect(shown.text).toContain("2 with the new one (66.67%), 1 with the old one (33.33%)");
    expect((await post(`/keys/${keyId}/end-overlap`)).status).toBe(303);
    expect([await status(key), await status(fresh)]).toEqual(["invalid_key", 200]);
  });

  it("that says of itself what is so no longer does not say it", async () => {
    const { accountId, keyId } = await makeTenant();
    const { text } = await browse(accountId).get(`/keys/${keyId}?done=revoked`);
    expect(text).not.toContain("Revoked.");
  });

  it("in use shows its traffic before it is revoked", async () => {
    const { accountId } = await makeTenant();
    const { key, keyId } = await makeKey(accountId);
    const { get, post } = browse(accountId);
    await call("GET", "/api/v1/users", { key });
    await call("GET", "/api/v1/tasks", { key });
    await call("GET", "/api/v1/tasks", { key });
    const asked = await within2s(
      () => get(`/keys/${keyId}/revoke`),
      ({ text }) => text.includes("In use: 3 requests"),
    );
    expect(asked.text).toContain("In use: 3 requests in the last hour");
    expect(asked.text).toContain("GET /api/v1/tasks");
    expect(await status(key)).toBe(200);
    const { headers } = await post(`/keys/${keyId}/revoke`);
    expect(await status(key)).toBe("revoked_key");
    const after = await get(headers.get("Location") ?? "");
    expect(after.text).toContain("Revoked. Requests with this key are refused from now on.");
    for (const gone of ["/rotate", "/disable", "/revoke"]) expect(after.text).not.toContain(`action="/keys/${keyId}${gone}"`);
  });

  it("that was just made ticks when its first request is there", async () => {
    const { accountId } = await makeTenant();
    const { key, keyId } = await makeKey(accountId);
    const { get } = browse(accountId);
    expect((await get(`/keys/${keyId}/first-request`)).status).toBe(204);
    const { headers } = await call("GET", "/api/v1/users", { key });
    const ticked = await within2s(
      () => get(`/keys/${keyId}/first-request`),
      ({ status }) => status === 200,
    );
    expect(ticked.text).toContain(`/activity/${headers.get("X-Request-Id")}`);
  });

  it("of another account is not there, on any page and for any form", async () => {
    const [mine, theirs] = [await makeTenant(), await makeTenant()];
    const { get, post } = browse(mine.accountId);
    for (const path of ["", "/rotate", "/revoke"]) expect((await get(`/keys/${theirs.keyId}${path}`)).status, path).toBe(404);
    for (const path of ["", "/rotate", "/revoke", "/disable", "/enable"])
      expect((await post(`/keys/${theirs.keyId}${path}`, { name: "Mine", scopes: "users:read" })).status, path).toBe(404);
    expect((await get(`/keys/${theirs.keyId}/first-request`)).status).toBe(204);
    expect(await status(theirs.key)).toBe(200);
  });
});

describe("A form", () => {
  it.each<[string, Record<string, string>]>([
    ["of another site", { "Sec-Fetch-Site": "cross-site", Origin: "https://evil.example" }],
    ["of the same site but another origin", { "Sec-Fetch-Site": "same-site", Origin: "http://localhost:9999" }],
    ["without Origin and Sec-Fetch-Site", { "Sec-Fetch-Site": "", Origin: "" }],
    ["whose Origin is null", { "Sec-Fetch-Site": "cross-site", Origin: "null" }],
    ["of another site, as JSON", { "Sec-Fetch-Site": "cross-site", Origin: "https://evil.example", "Content-Type": "application/json" }],
    ["without a type, and without Origin", { "Sec-Fetch-Site": "", Origin: "", "Content-Type": "" }],
    ["of this site, by its word alone", { "Sec-Fetch-Site": "same-origin", Origin: "https://evil.example" }],
  ])("%s does nothing", async (_, headers) => {
    const { accountId, key, keyId } = await makeTenant();
    const { status: answered } = await browse(accountId).post(`/keys/${keyId}/revoke`, {}, headers);
    expect([answered, await status(key)]).toEqual([403, 200]);
  });

  it("is bounded", async () => {
    const { accountId } = await makeTenant();
    expect((await browse(accountId).post("/keys", { name: "x".repeat(70_000) })).status).toBe(413);
  });
});
