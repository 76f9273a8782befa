import { describe, expect, it, vi } from "vitest";
import { browse, hidden, labelled } from "../support/browse.ts";
import { type Answer, call, makeKey, makeTenant } from "../support/client.ts";
import { logDelay } from "../support/entries.ts";
import { untilClockReaches } from "../support/real-time.ts";
import { tryKey } from "../support/try-key.ts";

/** Returns the first key id on a page. */
const keyIdIn = ({ text }: Answer) => /key_[0-9A-Za-z]{16}/.exec(text)?.[0] ?? "";
const secretKeyIn = ({ text }: Answer) => labelled(text, "Secret key") ?? "";

const readKey = async (reader: string, keyId: string) => (await call("GET", `/api/v1/keys/${keyId}`, { key: reader })).body;

describe("The form for a new key", () => {
  it("creates a key from a name, with the defaults of the API, and shows its secret only once", async () => {
    const { accountId, key } = await makeTenant();
    const { get, post } = browse(accountId);
    const form = await get("/keys/new");
    for (const scope of ["users:read", "tasks:read", "tasks:write", "analytics:read"])
      expect(form.text).toMatch(new RegExp(`value="${scope}" checked`));
    expect(form.text).not.toMatch(/value="keys:write" checked/);
    const created = await post("/keys", { name: "By form" });
    const secretKey = secretKeyIn(created);
    expect([created.status, created.headers.get("Cache-Control"), await tryKey(secretKey)]).toEqual([200, "no-store", 200]);
    // The first call has the key in it, in each language.
    for (const language of ["curl", "JavaScript", "Python"])
      expect(labelled(created.text.replaceAll(/<\/?(?:pre|code|span)[^>]*>/g, ""), `In ${language}`), language).toContain(
        `Bearer ${secretKey}`,
      );
    expect(await readKey(key, keyIdIn(created))).toMatchObject({
      name: "By form",
      scopes: ["users:read", "tasks:read", "tasks:write", "analytics:read"],
      hourly_limit: 5000,
      expires_at: null,
    });
    const page = await get(`/keys/${keyIdIn(created)}`);
    expect(page.text).toContain("By form");
    expect(page.text).not.toContain(secretKey.slice(21));
  });

  it("creates only one key if it is sent several times", async () => {
    const { accountId, key } = await makeTenant();
    const { get, post } = browse(accountId);
    const nonce = hidden((await get("/keys/new")).text, "nonce");
    const responses = await Promise.all([1, 2, 3].map(() => post("/keys", { name: "Once", nonce })));
    expect(responses.map(({ status }) => status).toSorted()).toEqual([200, 409, 409]);
    expect(responses.filter((response) => response.text.includes("dvo_") && secretKeyIn(response)).length).toBe(1);
    const created = responses.find(({ status }) => status === 200) as Answer;
    const repeated = await post("/keys", { name: "Once", nonce });
    expect(repeated.text).not.toContain("Secret key");
    expect(repeated.text).toContain(`href="/keys/${keyIdIn(created)}"`);
    const { body } = await call("GET", "/api/v1/keys", { key });
    expect(body.data.filter(({ name }: { name: string }) => name === "Once")).toHaveLength(1);
  });

  it("is shown again with its values if they are invalid, with an error at each field", async () => {
    const { accountId } = await makeTenant();
    const { post } = browse(accountId);
    const invalid = await post("/keys", { name: "  ", allowed_ips: "here", hourly_limit: "many" });
    expect(invalid.status).toBe(422);
    expect(invalid.text).toContain('role="alert"');
    for (const field of ["name", "allowed_ips", "hourly_limit"]) expect(invalid.text).toContain(`id="field-${field}-error"`);
    expect(invalid.text).toContain(">here</textarea>");
    // The first invalid field has the focus. If a field has several values and one of them is invalid, the error names the invalid value.
    expect([...invalid.text.matchAll(/<(?:input|textarea)[^>]* autofocus/g)].map(([tag]) => /name="(\w+)"/.exec(tag)?.[1])).toEqual([
      "name",
    ]);
    expect(invalid.text).toContain("here: Must be an IPv4 or IPv6 address or CIDR range.");
    const aboveCeiling = await post("/keys", { name: "High", hourly_limit: "5001" });
    expect([aboveCeiling.status, aboveCeiling.text.includes("ceiling")]).toEqual([422, true]);
    expect(aboveCeiling.text).toContain('value="High"');
  });
});

describe("The page of a key", () => {
  it("changes, disables and enables the key, and shows the result and the equivalent API call", async () => {
    const { accountId, key: ownerKey } = await makeTenant();
    const { key, keyId } = await makeKey(accountId, { expiresAt: Date.parse("2030-01-02T03:04:05.678Z") });
    const { get, post } = browse(accountId);
    const submit = async (path: string, fields = {}) => {
      const { status, headers } = await post(path, fields);
      expect(status).toBe(303);
      return (await get(headers.get("Location") ?? "")).text;
    };
    expect(await submit(`/keys/${keyId}/disable`)).toMatch(/role="status"[\s\S]*Disabled\.[\s\S]*PATCH \/api\/v1\/keys/);
    expect(await tryKey(key)).toBe("disabled_key");
    expect(await submit(`/keys/${keyId}/enable`)).toContain("Enabled.");
    expect(await tryKey(key)).toBe(200);
    await submit(`/keys/${keyId}`, {
      name: "Renamed",
      scopes: ["users:read"],
      hourly_limit: "7",
      expires_at: "2030-01-02T03:04",
      allowed_ips: "",
    });
    // The form shows the expiry time without seconds. If the expiry time is not changed, its seconds are kept.
    expect(await readKey(ownerKey, keyId)).toMatchObject({
      name: "Renamed",
      scopes: ["users:read"],
      hourly_limit: 7,
      expires_at: "2030-01-02T03:04:05.678Z",
    });
  });

  it("changes only the fields of the form, and rejects the form if the key changed since the page was opened", async () => {
    const { accountId, key: ownerKey } = await makeTenant();
    const expiresAt = Date.parse("2030-01-02T03:04:05.678Z");
    const { keyId } = await makeKey(accountId, { scopes: ["tasks:read"], allowedIps: ["203.0.113.1"], hourlyLimit: 100, expiresAt });
    const { get, post } = browse(accountId);
    const unchanged = { scopes: ["tasks:read"], allowed_ips: ["203.0.113.1"], hourly_limit: 100, expires_at: "2030-01-02T03:04:05.678Z" };
    expect((await post(`/keys/${keyId}`, { name: "Name alone" })).status).toBe(303);
    expect(await readKey(ownerKey, keyId)).toMatchObject({ name: "Name alone", ...unchanged });
    const oldRevision = hidden((await get(`/keys/${keyId}/settings`)).text, "revision");
    await call("PATCH", `/api/v1/keys/${keyId}`, { key: ownerKey, body: { hourly_limit: 50 } });
    const late = await post(`/keys/${keyId}`, { name: "Too late", hourly_limit: "100", revision: oldRevision });
    expect([late.status, late.text.includes("somebody else has changed this meanwhile")]).toEqual([422, true]);
    expect((await readKey(ownerKey, keyId)).hourly_limit).toBe(50);
    const revision = hidden((await get(`/keys/${keyId}/settings`)).text, "revision");
    expect((await post(`/keys/${keyId}`, { name: "In time", hourly_limit: "", revision, scopes_shown: "yes" })).status).toBe(303);
    expect(await readKey(ownerKey, keyId)).toMatchObject({ name: "In time", hourly_limit: 5000, scopes: [] });
  });

  it("shows the requests with the old and the new secret since a rotation, even after other changes of the key", async () => {
    const { accountId, key: ownerKey } = await makeTenant();
    const { key, keyId } = await makeKey(accountId);
    const { get, post } = browse(accountId);
    await call("GET", "/api/v1/me", { key });
    // If a request and the rotation happen in the same millisecond, the request counts as a request after the rotation.
    await untilClockReaches(Date.now() + 2);
    const newKey = secretKeyIn(await post(`/keys/${keyId}/rotate`, { overlap_seconds: "600" }));
    for (const each of [key, newKey, newKey]) await call("GET", "/api/v1/me", { key: each });
    await call("PATCH", `/api/v1/keys/${keyId}`, { key: ownerKey, body: { name: "Renamed" } });
    await vi.waitFor(
      async () => expect((await get(`/keys/${keyId}`)).text).toContain("2 with the new one (66.67%), 1 with the old one (33.33%)"),
      logDelay,
    );
    expect((await post(`/keys/${keyId}/end-overlap`)).status).toBe(303);
    expect([await tryKey(key), await tryKey(newKey)]).toEqual(["invalid_key", 200]);
  });

  it("says that keys which the key created keep working, only if it may create keys", async () => {
    const { accountId } = await makeTenant();
    const [creating, reading] = [await makeKey(accountId, { scopes: ["keys:write"] }), await makeKey(accountId, { scopes: ["keys:read"] })];
    const { get } = browse(accountId);
    const says = async (keyId: string) => (await get(`/keys/${keyId}/revoke`)).text.includes("Keys that this key created keep working.");
    expect([await says(creating.keyId), await says(reading.keyId)]).toEqual([true, false]);
    const { body: made } = await call("POST", "/api/v1/keys", { key: creating.key, body: { name: "Made", scopes: ["keys:write"] } });
    await browse(accountId).post(`/keys/${creating.keyId}/revoke`);
    expect([await tryKey(creating.key), await tryKey(made.secret_key)]).toEqual(["revoked_key", 200]);
  });

  it("shows the traffic of the key before it revokes the key", async () => {
    const { accountId } = await makeTenant();
    const { key, keyId } = await makeKey(accountId);
    const { get, post } = browse(accountId);
    await call("GET", "/api/v1/users", { key });
    await call("GET", "/api/v1/tasks", { key });
    await call("GET", "/api/v1/tasks", { key });
    const confirmation = await vi.waitFor(async () => {
      const page = await get(`/keys/${keyId}/revoke`);
      expect(page.text).toContain("In use: 3 requests in the last hour");
      return page;
    }, logDelay);
    expect(confirmation.text).toContain("GET /api/v1/tasks");
    expect(await tryKey(key)).toBe(200);
    const { headers } = await post(`/keys/${keyId}/revoke`);
    expect(await tryKey(key)).toBe("revoked_key");
    const page = await get(headers.get("Location") ?? "");
    expect(page.text).toContain("Revoked. Requests with this key are refused from now on.");
    for (const action of ["/rotate", "/disable", "/revoke"]) expect(page.text).not.toContain(`action="/keys/${keyId}${action}"`);
  });

  it("says of a key without an admitted request whether it was called, on every page", async () => {
    const { accountId, key, keyId } = await makeTenant({ scopes: ["tasks:read"] });
    const { get } = browse(accountId);
    const pages = ["/?skip=1", "/keys", `/keys/${keyId}`];
    for (const path of pages) expect((await get(path)).text, path).toContain("never used");
    expect((await call("GET", "/api/v1/users", { key })).status).toBe(403);
    for (const path of pages)
      await vi.waitFor(async () => expect((await get(path)).text, path).toContain("only refused requests"), logDelay);
  });

  it("shows the first request of a new key as soon as the log contains it", async () => {
    const { accountId } = await makeTenant();
    const { key, keyId } = await makeKey(accountId);
    const { get } = browse(accountId);
    expect((await get(`/keys/${keyId}/first-request`)).status).toBe(204);
    const { headers } = await call("GET", "/api/v1/users", { key });
    const firstRequest = await vi.waitFor(async () => {
      const page = await get(`/keys/${keyId}/first-request`);
      expect(page.status).toBe(200);
      return page;
    }, logDelay);
    expect(firstRequest.text).toContain(`/activity/${headers.get("X-Request-Id")}`);
    await call("GET", "/api/v1/tasks", { key });
    await vi.waitFor(async () => expect((await get("/activity")).text).toContain("/api/v1/tasks"), logDelay);
    expect((await get(`/keys/${keyId}/first-request`)).text).toContain("GET /api/v1/users");
  });

  it("returns 404 for a key of another account, and so do all its forms", async () => {
    const [own, foreign] = [await makeTenant(), await makeTenant()];
    const { get, post } = browse(own.accountId);
    for (const path of ["", "/rotate", "/revoke"]) expect((await get(`/keys/${foreign.keyId}${path}`)).status, path).toBe(404);
    for (const path of ["", "/rotate", "/revoke", "/disable", "/enable"])
      expect((await post(`/keys/${foreign.keyId}${path}`, { name: "Mine", scopes: "users:read" })).status, path).toBe(404);
    expect((await get(`/keys/${foreign.keyId}/first-request`)).status).toBe(204);
    expect(await tryKey(foreign.key)).toBe(200);
  });
});

describe("A form of the overview", () => {
  it.each<[string, Record<string, string>]>([
    ["from another site", { "Sec-Fetch-Site": "cross-site", Origin: "https://evil.example" }],
    ["from another origin of the same site", { "Sec-Fetch-Site": "same-site", Origin: "http://localhost:9999" }],
    ["without Origin and Sec-Fetch-Site", { "Sec-Fetch-Site": "", Origin: "" }],
    ["with the origin null", { "Sec-Fetch-Site": "cross-site", Origin: "null" }],
    ["from another site as JSON", { "Sec-Fetch-Site": "cross-site", Origin: "https://evil.example", "Content-Type": "application/json" }],
    ["without a content type and without Origin", { "Sec-Fetch-Site": "", Origin: "", "Content-Type": "" }],
    ["with Sec-Fetch-Site same-origin but another Origin", { "Sec-Fetch-Site": "same-origin", Origin: "https://evil.example" }],
  ])("is rejected with 403 if it is sent %s", async (_, headers) => {
    const { accountId, key, keyId } = await makeTenant();
    const { status } = await browse(accountId).post(`/keys/${keyId}/revoke`, {}, headers);
    expect([status, await tryKey(key)]).toEqual([403, 200]);
  });

  it("is rejected with 413 if it is too large", async () => {
    const { accountId } = await makeTenant();
    expect((await browse(accountId).post("/keys", { name: "x".repeat(70_000) })).status).toBe(413);
  });
});
