import { createHash } from "node:crypto";
import { beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { credentialsIn } from "../../../../src/credentials/credential-in.ts";
import { forgetForms } from "../../../../src/keys/imported/find-imported.ts";
import { parseTokenHeader } from "../../../../src/team/verify/forward.ts";
import { makeKey, makeTenant, within2s } from "../../support/client.ts";
import { operate } from "../../support/operate.ts";
import { forward, makeToken, usedOf, verifiedEntries } from "../../support/team.ts";

const bearer = (key: string) => ({ Authorization: `Bearer ${key}` });
let token: string;
beforeAll(async () => {
  token = await makeToken(["verify"]);
});
const names = ["account", "external-id", "key", "scopes", "receipt"].map((name) => `X-Verified-${name}`);

describe("Forward auth", () => {
  it.each([
    ["nginx", { "X-Original-Method": "POST", "X-Original-URI": "/orders/7?x=1" }],
    ["Caddy", { "X-Forwarded-Method": "POST", "X-Forwarded-Uri": "/orders/7?x=1" }],
    ["Traefik", { "X-Forwarded-Method": "POST", "X-Forwarded-Uri": "/orders/7?x=1", "X-Forwarded-For": "1.1.1.1" }],
  ])("decides about the request that %s has received, by any method", async (_, headers) => {
    const tenant = await makeTenant({ hourlyLimit: 10 });
    const sent = { ...headers, "X-Real-IP": "203.0.113.9", ...bearer(tenant.key) } as unknown as Record<string, string>;
    const { status, headers: answered, text } = await forward(token, sent, { method: "PUT" });
    expect([status, text]).toEqual([200, ""]);
    expect(answered.get("X-Verified-Account")).toBe(tenant.accountId);
    expect(answered.get("X-Verified-Key")).toBe(tenant.keyId);
    expect(answered.get("X-Verified-External-Id")).toBe("-");
    expect(answered.get("X-Verified-Receipt")).toBe("-");
    expect(answered.get("X-Verified-Scopes")).toContain("users:read");
    expect(answered.get("X-RateLimit-Remaining")).toBe("9");
    const [entry] = await within2s(
      () => verifiedEntries(tenant),
      (found) => found.length === 1,
    );
    expect(entry).toMatchObject({ method: "POST", path: "/orders/7", ip: "203.0.113.9", status: null });
    expect(entry.id).toBe(answered.get("X-Request-Id"));
  });

  it.each([
    ["an X-API-Key header", (key: string): Record<string, string> => ({ "X-API-Key": key })],
    ["the user of Basic", (key: string): Record<string, string> => ({ Authorization: `Basic ${btoa(`${key}:`)}` })],
    ["the password of Basic", (key: string): Record<string, string> => ({ Authorization: `Basic ${btoa(`me:${key}`)}` })],
    ["two headers with the same key", (key: string): Record<string, string> => ({ Authorization: `Bearer ${key}`, "X-API-Key": key })],
    ["one header that was sent twice", (key: string): Record<string, string> => ({ Authorization: `Bearer ${key}, Bearer ${key}` })],
  ])("finds the key in %s", async (_, headersOf) => {
    const { key } = await makeTenant();
    expect((await forward(token, headersOf(key))).status).toBe(200);
  });

  it("does not find a key in the query of the request", async () => {
    const tenant = await makeTenant();
    const answer = await forward(token, { "X-Original-URI": `/orders?key=${tenant.key}` });
    expect([answer.status, answer.body.code]).toEqual([401, "missing_key"]);
    expect(JSON.stringify([answer.text, ...answer.headers])).not.toContain(tenant.key.slice(21));
  });

  it.each([
    ["no service token", ""],
    ["an unknown service token", "svc_0000000000000000_00000000000000000000000000000000a0000000; missing=pass"],
  ])("returns 401 for %s, and says nothing about the key", async (_, service) => {
    const { key } = await makeTenant();
    const answer = await forward(service, bearer(key));
    expect([answer.status, answer.body.code]).toEqual([401, "invalid_token"]);
    for (const name of ["X-Verified-Key", "RateLimit"]) expect(answer.headers.get(name)).toBeNull();
    expect((await forward("", { Authorization: "Bearer dvop_token-of-the-tests" })).status).toBe(401);
  });

  it("returns 401, 403 and 429 with the headers and the problem, and one id", async () => {
    const tenant = await makeTenant({ hourlyLimit: 1, scopes: ["users:read"] });
    const scoped = await forward(`${token}; scope=orders:write`, bearer(tenant.key));
    expect([scoped.status, scoped.body.code]).toEqual([403, "insufficient_scope"]);
    expect(scoped.headers.get("Content-Type")).toBe("application/problem+json");
    expect(scoped.headers.get("WWW-Authenticate")).toBe('Bearer realm="api", error="insufficient_scope", scope="orders:write"');
    await forward(token, bearer(tenant.key));
    const limited = await forward(token, bearer(tenant.key));
    expect([limited.status, limited.body.code]).toEqual([429, "rate_limit_exceeded"]);
    expect(Number(limited.headers.get("Retry-After"))).toBeGreaterThan(0);
    const none = await forward(token);
    expect([none.status, none.headers.get("WWW-Authenticate")]).toEqual([401, 'Bearer realm="api"']);
    for (const { body, headers } of [scoped, limited, none]) {
      expect(body.request_id).toBe(headers.get("X-Request-Id"));
      expect(body.type).not.toContain("localhost");
    }
  });

  it("says nothing about the host of the service: no HSTS, no CSP, and links with its public origin", async () => {
    const { key } = await makeTenant();
    for (const answer of [await forward(token, bearer(key)), await forward(token), await forward("")])
      for (const name of ["Strict-Transport-Security", "Content-Security-Policy", "X-Content-Type-Options"])
        expect(answer.headers.get(name)).toBeNull();
    expect((await forward(token)).body.type).toBe("https://overview.acme.dev/docs/errors/missing_key");
  });

  it("turns other denials into 403 for nginx, with the problem in a header", async () => {
    const tenant = await makeTenant({ hourlyLimit: 1 });
    const headers = { ...bearer(tenant.key), "X-Original-URI": "/%C3%A9" };
    await forward(`${token}; deny=403`, headers);
    const answer = await forward(`${token}; deny=403`, headers);
    expect(answer.status).toBe(403);
    expect(JSON.parse(answer.headers.get("X-Verified-Problem") ?? "")).toMatchObject({ status: 429, code: "rate_limit_exceeded" });
    expect((await forward(`${token}; deny=403`)).status).toBe(401);
    const two = await forward(`${token}; deny=403`, { ...bearer(tenant.key), "X-API-Key": "another" });
    expect([two.status, JSON.parse(two.headers.get("X-Verified-Problem") ?? "").status]).toEqual([403, 400]);
  });

  it("lets requests without a credential and with an unknown one through only if the location says so", async () => {
    const { key } = await makeTenant();
    const session = bearer("eyJhbGciOi.session.jwt");
    const statusOf = async (options: string, headers: Record<string, string>) => {
      const answer = await forward(`${token}${options}`, headers);
      if (answer.status === 200) expect(names.map((name) => answer.headers.get(name))).toEqual(names.map(() => "-"));
      return answer.status;
    };
    for (const [options, missing, unknown] of [
      ["", 401, 401],
      ["; missing=pass", 200, 401],
      ["; unknown=pass", 401, 200],
      ["; missing=pass; unknown=pass", 200, 200],
    ] as const) {
      expect([await statusOf(options, {}), await statusOf(options, session)]).toEqual([missing, unknown]);
      // The tag of a forged key is wrong, so no I/O tells that it is none.
      for (const [name, value] of spellings(`${key.slice(0, -1)}${key.endsWith("0") ? "1" : "0"}`))
        expect([400, 401], value).toContain(await statusOf(options, { [name]: value }));
    }
  });

  /** Imports a key and revokes it. Returns its secret. */
  async function revokedImport(prefix: string, alphabet: string): Promise<string> {
    const bytes = Buffer.from(crypto.getRandomValues(new Uint8Array(21)));
    // Text in base64 has all characters that tell its two forms apart.
    const secret = prefix + (alphabet === "base64" ? `+a/b${bytes.toString("base64")}7DFo+95/GRe=` : bytes.toString("hex"));
    const { body: form } = await operate("POST", "/key-forms", {
      prefix,
      min_length: secret.length,
      max_length: secret.length + 8,
      alphabet,
    });
    onTestFinished(async () => {
      await operate("DELETE", `/key-forms/${form.id}`);
      forgetForms();
    });
    forgetForms();
    const { accountId } = await makeTenant();
    const row = { name: "Old", algorithm: "sha256", hash: createHash("sha256").update(secret).digest("hex") };
    const { body } = await operate("POST", `/accounts/${accountId}/keys/import`, { keys: [row] });
    await operate("DELETE", `/keys/${body.data[0].id}`);
    return secret;
  }

  /** Ways to write a key, with which some servers still find the key. */
  const spellings = (key: string): [name: string, value: string][] => {
    const encoded = (text: string) => Buffer.from(text).toString("base64");
    const basic = encoded(`user:${key}`);
    const [begin, end] = [key.slice(0, 20), key.slice(20)];
    const inAuthorization = [
      ...["", "Bearer ", "Token ", "Bearer Bearer ", "Bearer  ", "Bearer", "Bearer!", "Bearer/", "Bearer."].map((before) => before + key),
      ...["BearerX", "!!!!!!!", "Custom ", "Custom id=", "Bearer \\", "Token token=", "Bearer token="].map((before) => before + key),
      ...['Token token="" ', "Bearer x, Bearer ", "Bearer\u00a0", `Bearer ${"a".repeat(50)}.`].map((before) => before + key),
      ...[" x", ";", "/", "#x", "=", `,${key}`, "\u0085", ".x", "g", "-".repeat(60)].map((after) => `Bearer ${key}${after}`),
      ...['""', "<>", "()", "[]", "\u00a0\u00a0"].map(([open, close]) => `Bearer ${open}${key}${close}`),
      ...[`Token token="${key}"`, `Token token="", token="${key}"`, `Digest username="${key}"`],
      ...[`Bearer ${"0".repeat(60)}17|${key}`, `${key.slice(0, 2)}Bearer ${key.slice(2)}`],
      `Bearer ${[...key].map((each) => `%${each.charCodeAt(0).toString(16)}`).join("")}`,
      ...[key.toUpperCase(), `${begin}+${end}`, key.slice(0, -2), encoded(key), `-${basic}`].map((text) => `Bearer ${text}`),
      `Bearer e30.${encoded(`{"k":"${key}"}`).replaceAll("=", "")}.x`,
      ...[`${key}:x`, ` ${key}:x`, `x: ${key}`, `x:y:${key}`, `Bearer ${key}:x`, encoded(key)].map((text) => `Basic ${encoded(text)}`),
      ...["<b>", " ", "~"].map((between) => `Basic ${encoded(`user:${begin}${between}${end}`)}`),
      ...[`user:${begin}ı${key.slice(21)}`, `user:${key.replaceAll("_", "%5F")}`, `:${key}`].map((text) => `Basic ${encoded(text)}`),
      ...[`-${basic}`, `_${basic}`, `=${basic}`, `d,${basic.slice(1)}`, ` ${basic}`, `Basic ${basic}`].map((text) => `Basic ${text}`),
      ...[`${basic.slice(0, 7)}-${basic.slice(7)}`, `${basic}!${"A".repeat(60)}`].map((text) => `Basic ${text}`),
      ...[`Basic${basic}`, `Basic ${basic.replaceAll(/../g, "$& ")}`, `Basic ${basic.slice(0, 6)}\t${basic.slice(6)}`],
      `Basic ${Buffer.from(`user:${key}`, "utf16le").toString("base64")}`,
    ];
    const inOther = [key, `Bearer ${key}`, `"${key}"`, `${key};`, `,${key}`, `\u00a0${key}`, `${key}\u0085`, `${key}=`, encoded(key)];
    return [
      ...inAuthorization.map((value): [string, string] => ["Authorization", value]),
      ...inOther.map((value): [string, string] => ["X-API-Key", value]),
    ];
  };

  it.each([
    ["this service", ""],
    ["a registered form", "sk_live_"],
    ["a form whose prefix ends in a colon", "tok:"],
    ["a form without a prefix", "none"],
    ["a form in base64", "none", "base64"],
  ])("never passes a revoked key of %s as unknown, however it is written", async (_, prefix, alphabet = "base62") => {
    const tenant = await makeTenant();
    if (prefix === "") await operate("DELETE", `/keys/${tenant.keyId}`);
    const key = prefix === "" ? tenant.key : await revokedImport(prefix.replace("none", ""), alphabet);
    for (const [name, value] of spellings(key)) {
      const { status } = await forward(`${token}; missing=pass; unknown=pass`, { [name]: value });
      expect([400, 401], `${name}: ${value}`).toContain(status);
    }
  });

  it("passes tokens of sessions and the passwords of others as unknown, in one exact form", async () => {
    const basic = (text: string) => `Basic ${Buffer.from(text).toString("base64")}`;
    const jwt = `${"eyJhbGciOiJIUzI1NiJ9"}.${"eyJzdWIiOiIxMjM0NTY3ODkwIn0"}.${"a-_B".repeat(10)}aaa`;
    for (const [name, value] of [
      ["Authorization", "Bearer a-session-of-the-api"],
      ["Authorization", `bearer ${jwt}`],
      ["Authorization", `JWT ${jwt}`],
      ["Authorization", "Session 4f6a+/8Q=="],
      ["Authorization", basic("ada:correct-horse-battery-staple!")],
      ["X-API-Key", jwt],
    ] as const)
      expect((await forward(`${token}; unknown=pass`, { [name]: value })).status, value).toBe(200);
    // A token of a session has at most five parts. Each part is decoded, so many parts would cost everybody time.
    expect((await forward(`${token}; unknown=pass`, bearer("z.".repeat(2000)))).status).toBe(401);
    for (const value of ["Bearer", "Basic ", "Token", " "])
      expect((await forward(`${token}; missing=pass`, { Authorization: value })).status, value).toBe(200);
  });

  it("reads hostile text in a time that grows with its length alone", () => {
    for (const space of [" ", "\t", "\u00a0"]) expect(credentialsIn([`Basic${space.repeat(300_000)}x\u2028x`], [])).toHaveLength(1);
    expect(credentialsIn([`Basic${" ".repeat(4000)}x\u2028x`, `Token ${'token="'.repeat(500)}`], []).length).toBeGreaterThan(0);
  });

  it.each(["missing=pass", "unknown=pass", "cost=1000", "scope=none:none", "deny=403", "page=2", "report=1"])(
    "does not read the option %s from the query, the path or another header",
    async (option) => {
      const tenant = await makeTenant({ hourlyLimit: 100 });
      const others = { "X-Verify-Options": option, "X-Options": option, "X-Forwarded-Uri": `/?${option}`, "X-Original-URI": `/?${option}` };
      for (const suffix of [`?${option}`, `?a=1&${option}`, ""]) {
        const answers = [await forward(token, others, { suffix }), await forward(token, { ...others, ...bearer("nonsense") }, { suffix })];
        expect(answers.map(({ status, body }) => [status, body.code])).toEqual([
          [401, "missing_key"],
          [401, "invalid_key"],
        ]);
        const admitted = await forward(token, { ...others, ...bearer(tenant.key) }, { suffix });
        expect([admitted.status, admitted.headers.get("X-Verified-Receipt")]).toEqual([200, "-"]);
      }
      expect(await usedOf(tenant)).toBe(3);
    },
  );

  it.each(["/", "/orders", "/?missing=pass", "/.", "/..", "/../forward/", "//"])(
    "never allows a request at the path with %s at its end",
    async (suffix) => {
      const service = `${token}; missing=pass; unknown=pass`;
      for (const headers of [{}, { "X-Verify-Options": "missing=pass" }, { Authorization: "Bearer nonsense" }]) {
        const answer = await forward(service, headers, { suffix });
        expect(answer.status).toBeGreaterThanOrEqual(400);
        expect(answer.headers.get("X-Verified-Account")).toBeNull();
      }
    },
  );

  it("is not idempotent: an Idempotency-Key is ignored, and never replays an allowed request", async () => {
    const tenant = await makeTenant({ hourlyLimit: 100 });
    const header = { "Idempotency-Key": "one" };
    for (const method of ["POST", "PUT", "GET"]) {
      expect((await forward(token, { ...header, ...bearer(tenant.key) }, { method })).status).toBe(200);
      expect((await forward(token, header, { method })).status).toBe(401);
    }
    await operate("DELETE", `/keys/${tenant.keyId}`);
    expect((await forward(token, { ...header, ...bearer(tenant.key) }, { method: "POST" })).body.code).toBe("revoked_key");
  });

  it.each([
    ...["; other=1", "; deny=404", "; missing=yes", "; missing=", "; cost=0", "; cost=1001", "; cost=1e3", "; cost=5; cost=5"],
    ...["; scope=a,b", '; scope="a"', "; scope=é", `; scope=${"a".repeat(1000)}`, ", svc_other", "; svc_other"],
    ...[";missing=pass", "; missing=pass;", " missing=pass"],
  ])("denies everybody with 403 if the header of the service token has %s", async (options) => {
    const { key } = await makeTenant();
    // A header holds bytes.
    const service = Buffer.from(`${token}${options}`).toString("latin1");
    for (const headers of [{}, bearer(key)]) {
      const answer = await forward(service, headers as Record<string, string>);
      expect([answer.status, answer.body.code, answer.body.status]).toEqual([403, "invalid_header", 403]);
      expect(JSON.parse(answer.headers.get("X-Verified-Problem") ?? "").code).toBe("invalid_header");
    }
  });

  it("counts options that are not valid in the metrics, if they come with a token of this service", async () => {
    const sumOf = (text: string) =>
      [...text.matchAll(/^dvo_forward_options_refused_total\{[^}]*\} (\d+)$/gm)].reduce((sum, [, count]) => sum + Number(count), 0);
    const read = async () => sumOf((await operate("GET", "/../../metrics")).text);
    // The isolate sends its counts once a second. Those of the other tests arrive first.
    let before = -1;
    await vi.waitUntil(
      async () => {
        const latest = await read();
        const isSettled = latest === before;
        before = latest;
        return isSettled;
      },
      { timeout: 10_000, interval: 1200 },
    );
    await forward(`${token}; missing=yes`);
    await forward("svc_0000000000000000_00000000000000000000000000000000a0000000; missing=yes");
    expect(await vi.waitUntil(async () => ((await read()) > before ? read() : null), { timeout: 5000, interval: 100 })).toBe(before + 1);
  });

  it("takes the IP address from one header alone, never from X-Forwarded-For, and in each form that servers write it", async () => {
    const tenant = await makeTenant();
    const bound = await makeKey(tenant.accountId, { allowedIps: ["203.0.113.9", "2001:db8::/64"] });
    const codeOf = async (headers: Record<string, string>) =>
      (await forward(token, { ...bearer(bound.key), ...headers })).body?.code ?? null;
    expect(await codeOf({ "X-Forwarded-For": "203.0.113.9" })).toBe("ip_not_allowed");
    for (const ip of ["203.0.113.9", "203.0.113.9:51234", "::ffff:203.0.113.9", "[2001:db8::1]:51234", "2001:db8::1%eth0", " 2001:DB8::1 "])
      expect([ip, await codeOf({ "X-Real-IP": ip })]).toEqual([ip, null]);
    for (const ip of ["unknown", "203.0.113.10", "203.0.113.9, 1.1.1.1", "203.0.113"])
      expect([ip, await codeOf({ "X-Real-IP": ip })]).toEqual([ip, "ip_not_allowed"]);
    expect((await forward(token, { ...bearer(tenant.key), "X-Real-IP": "unknown" })).status).toBe(200);
    expect(await usedOf(tenant)).toBe(1);
  });

  it("logs the path that the proxy has overwritten, not the one that a client has added", async () => {
    const tenant = await makeTenant();
    await forward(token, {
      ...bearer(tenant.key),
      "X-Forwarded-Method": "DELETE",
      "X-Forwarded-Uri": "/real",
      "X-Original-Method": "GET",
      "X-Original-URI": "/forged",
    });
    const [entry] = await within2s(
      () => verifiedEntries(tenant),
      (found) => found.length === 1,
    );
    expect(entry).toMatchObject({ method: "DELETE", path: "/real" });
  });
});

it("The header of the service token holds a token and options in exactly one form", () => {
  expect(parseTokenHeader("svc_a; scope=orders:read; cost=5; deny=403; missing=pass; unknown=pass; report=1")).toEqual({
    token: "svc_a",
    options: { scope: "orders:read", cost: 5, denyWith403: true, passMissing: true, passUnknown: true, report: true },
  });
  expect(parseTokenHeader("")).toMatchObject({ token: "", options: { cost: 1, passMissing: false } });
  expect(parseTokenHeader('svc_a; x="').options).toBeNull();
});
