import { env, exports } from "cloudflare:workers";
import { beforeAll, describe, expect, it, vi } from "vitest";
import { newKeyId, newSecretKey } from "../../../../src/credentials/key-format.ts";
import { minuteMs } from "../../../../src/lib/time/clock.ts";
import type { Verify } from "../../../../src/team/verify/entrypoint.ts";
import { call, makeKey, makeTenant, within2s } from "../../support/client.ts";
import { operate } from "../../support/operate.ts";
import { makeToken, report, usedOf, verifiedEntries, verify } from "../../support/team.ts";

let token: string;
beforeAll(async () => {
  token = await makeToken(["verify"]);
});

describe("Verify", () => {
  it("allows a request with a key, and counts it in the same guard as requests to the API", async () => {
    const tenant = await makeTenant({ hourlyLimit: 10 });
    const { status, headers, body } = await verify(token, {
      key: tenant.key,
      method: "GET",
      path: "/orders/7",
      route: "/orders/{id}",
      cost: 3,
    });
    expect(status).toBe(200);
    expect(headers.get("X-Request-Id")).toMatch(/^req_/);
    expect(body).toMatchObject({ allowed: true, status: 200, code: null, degraded: false, problem: null });
    expect(body.key).toMatchObject({ id: tenant.keyId, name: "Test key", external_id: null, metadata: {}, expires_at: null });
    expect(body.account).toMatchObject({ id: tenant.accountId, name: "Tenant", external_id: null, metadata: {} });
    expect(body.rate_limits).toEqual([
      { name: "hour", limit: 10, used: 3, remaining: 7, resets_at: expect.stringMatching(/:00:00\.000Z$/) },
    ]);
    expect(body.headers["X-RateLimit-Remaining"]).toBe("7");
    expect(body.receipt).toEqual(expect.any(String));
    expect(await usedOf(tenant)).toBe(3);
  });

  it.each([
    ["no key", "", 401, "missing_key"],
    ["a forged key", newSecretKey(newKeyId(), { name: "a", secret: "not the secret of this service" }), 401, "invalid_key"],
    ["text of another form", "sk_live_4711", 401, "invalid_key"],
  ])("denies %s with the problem and the header that the API would send", async (_, key, status, code) => {
    const { body } = await verify(token, { key, path: "/orders" });
    expect(body).toMatchObject({ allowed: false, status, code, account: null, key: null, receipt: null, rate_limits: [] });
    expect(body.problem).toMatchObject({ status, code, instance: "/orders" });
    expect(body.headers["WWW-Authenticate"]).toMatch(/^Bearer realm="api"/);
  });

  it("needs all scopes of `all`, and at least one of `any`", async () => {
    const { accountId } = await makeTenant();
    const { key } = await makeKey(accountId, { scopes: ["tasks:read", "users:read"] });
    const cases: [object, string | null][] = [
      [{ all: ["tasks:read", "users:read"] }, null],
      [{ all: ["tasks:read", "tasks:write"] }, "tasks:read tasks:write"],
      [{ any: ["tasks:write", "users:read"] }, null],
      [{ any: ["tasks:write", "users:write"] }, "tasks:write users:write"],
      [{ all: ["tasks:read"], any: ["tasks:write", "users:read"] }, null],
      [{ all: ["tasks:write"], any: ["users:read"] }, "tasks:write users:read"],
    ];
    // The second round meets denials that the isolate remembers.
    for (const [scopes, missing] of [...cases, ...cases]) {
      const { body } = await verify(token, { key, scopes });
      expect([scopes, body.code]).toEqual([scopes, missing === null ? null : "insufficient_scope"]);
      if (missing !== null) expect(body.headers["WWW-Authenticate"]).toContain(`scope="${missing}"`);
    }
  });

  it("says that a credential can only be somebody else's if the request asks, and never that of a key or of none", async () => {
    const tenant = await makeTenant();
    const { key } = tenant;
    const forged = newSecretKey(newKeyId(), { name: "a", secret: "not the secret of this service" });
    const foreign = async (text: string, unknown?: "pass") =>
      (await verify(token, { key: text, ...(unknown && { unknown }) })).body.foreign;
    expect(await foreign("Bearer eyJhbGciOiJIUzI1NiJ9.e30.c2ln", "pass")).toBe(true);
    expect(await foreign("Bearer eyJhbGciOiJIUzI1NiJ9.e30.c2ln")).toBe(false);
    for (const text of [`Bearer ${key}`, key, forged, `Bearer ${forged}`, "", "Bearer", `Bearer ${btoa(key)}`])
      expect([text, await foreign(text, "pass")]).toEqual([text, false]);
    expect((await verify(token, { key, unknown: "pass", user_agent: "sample/2.1" })).body.allowed).toBe(true);
    await within2s(
      () => verifiedEntries(tenant),
      (entries: { user_agent: string }[]) => entries.some((entry) => entry.user_agent === "sample/2.1"),
    );
  });

  it("speaks one protocol, and names it to a client with another one", async () => {
    const send = (agent: string) => operate("POST", "/verify", { key: "" }, token, { "User-Agent": agent });
    for (const agent of ["developer-overview-go/0.1.0 (protocol 1)", "curl/8.9"]) {
      const { status, headers } = await send(agent);
      expect([status, headers.get("X-Overview-Protocol")]).toEqual([200, "1"]);
    }
    const { status, body } = await send("developer-overview-go/9.0.0 (protocol 2)");
    expect([status, body.code]).toEqual([400, "invalid_header"]);
    expect(body.detail).toContain("protocol 1");
  });

  const basic = (text: string) => `Basic ${Buffer.from(text).toString("base64")}`;

  it("takes a key under each scheme that clients use, and the same key twice as one", async () => {
    const { key } = await makeTenant();
    for (const value of [
      key,
      `  ${key}`,
      `bearer  ${key}  `,
      `Api-Key ${key}`,
      `APIKEY ${key}`,
      `token ${key}`,
      `Token token="${key}", nonce="def"`,
      `Token token=${key}`,
      `Bearer ${key}, ${key}`,
      ...[`${key}:`, `:${key}`, `me:${key}`, `${key}:x`, `${key}:${key}`].map(basic),
      `${basic(`${key}:`)}, Token token="${key}", Api-Key ${key}`,
    ])
      expect((await verify(token, { key: value })).body.status, value).toBe(200);
    for (const value of [`Bearer${key}`, `Bearer ${key.toUpperCase()}`, `Bearer ${key}\u200b`, `Basic ${key}`, `Bearer ${key}, realm="x"`])
      expect((await verify(token, { key: value })).body, value).toMatchObject({ allowed: false, status: 401 });
  });

  it("never takes one of several different credentials", async () => {
    const [one, other] = [await makeTenant(), await makeTenant()];
    for (const value of [
      basic(`${one.key}:${other.key}`),
      `Token token="${one.key}", Token token="${other.key}"`,
      `Token token="${one.key}", token="${other.key}"`,
      `Token token=${one.key} token=${other.key}`,
      `Api-Key ${one.key}, Bearer ${other.key}`,
      `Bearer ${one.key}, YWJjZGVmZw==`,
    ])
      expect((await verify(token, { key: value })).body, value).toMatchObject({
        allowed: false,
        status: 400,
        code: "invalid_header",
        key: null,
        problem: { code: "invalid_header" },
      });
  });

  it("checks the scope, the IP address and the state of the key, and says why it denies", async () => {
    const tenant = await makeTenant({ scopes: ["users:read"] });
    const bound = await makeKey(tenant.accountId, { allowedIps: ["203.0.113.0/24"] });
    const codeOf = async (body: object) => (await verify(token, body)).body.code;
    expect(await codeOf({ key: tenant.key, scope: "users:read" })).toBeNull();
    const denied = (await verify(token, { key: tenant.key, scope: "orders:write" })).body;
    expect(denied).toMatchObject({ code: "insufficient_scope", status: 403, key: { id: tenant.keyId } });
    expect(denied.headers["WWW-Authenticate"]).toContain('scope="orders:write"');
    expect(await codeOf({ key: bound.key, ip: "203.0.113.7" })).toBeNull();
    expect(await codeOf({ key: bound.key, ip: "198.51.100.1" })).toBe("ip_not_allowed");
    expect(await codeOf({ key: bound.key })).toBe("ip_not_allowed");
    await operate("POST", `/keys/${tenant.keyId}/revoke`);
    expect(await codeOf({ key: tenant.key })).toBe("revoked_key");
  });

  it("denies the request that exceeds the limit, with Retry-After and the violated policy", async () => {
    const tenant = await makeTenant({ hourlyLimit: 2 });
    for (let count = 0; count < 2; count++) expect((await verify(token, { key: tenant.key })).body.allowed).toBe(true);
    const { body } = await verify(token, { key: tenant.key });
    expect(body).toMatchObject({ allowed: false, status: 429, code: "rate_limit_exceeded", receipt: null });
    expect(Number(body.headers["Retry-After"])).toBeGreaterThan(0);
    expect(body.problem["violated-policies"]).toEqual(["hour"]);
  });

  it("counts requests with the same request_id once, from many connections, and denies all of them after a revocation", async () => {
    const tenant = await makeTenant({ hourlyLimit: 100 });
    const { accountId } = tenant;
    const other = await makeKey(accountId, { hourlyLimit: 100 });
    const request = { key: other.key, method: "POST", path: "/orders", request_id: "one-and-the-same" };
    const many = async (count: number) =>
      (await Promise.all(Array.from({ length: count }, () => verify(token, request)))).map(({ body }) => body);
    const answers = [...(await many(32)), ...(await many(32))];
    expect(new Set(answers.map(({ allowed }) => allowed))).toEqual(new Set([true]));
    expect(new Set(answers.map(({ request_id }) => request_id)).size).toBe(1);
    expect(await usedOf(other)).toBe(1);
    await operate("POST", `/keys/${other.keyId}/revoke`);
    expect((await many(32)).map(({ code }) => code)).toEqual(Array(32).fill("revoked_key"));
    const entries = await within2s(
      () => verifiedEntries(tenant),
      (found) => found.some(({ status }: { status: number }) => status === 401),
    );
    expect(entries.filter(({ status }: { status: number | null }) => status === null)).toHaveLength(1);
  });

  it.each([
    ["method", { method: "GET" }],
    ["path", { path: "/others" }],
    ["scope", { scope: "users:read" }],
    ["cost", { cost: 2 }],
  ])("denies a request_id that comes again with another %s", async (_, change) => {
    const { key } = await makeTenant();
    const request = { key, method: "POST", path: "/orders", cost: 1, request_id: "used-twice" };
    expect((await verify(token, request)).body.allowed).toBe(true);
    expect((await verify(token, { ...request, ...change })).body).toMatchObject({ allowed: false, status: 409, code: "conflict" });
  });

  it("allows the repetition of an admitted request although the limit is used up since", async () => {
    const { key } = await makeTenant({ hourlyLimit: 1 });
    expect((await verify(token, { key, request_id: "first" })).body.allowed).toBe(true);
    expect((await verify(token, { key, request_id: "second" })).body.code).toBe("rate_limit_exceeded");
    expect((await verify(token, { key, request_id: "first" })).body.allowed).toBe(true);
  });

  it("returns the ids and the metadata that the team has stored, also after a change", async () => {
    const id = `cus_${crypto.randomUUID()}`;
    const { body: account } = await operate("PUT", `/accounts/by-external-id/${id}`, {
      name: "Acme",
      email: "a@acme.dev",
      metadata: { plan: "pro" },
    });
    const { body: key } = await operate("POST", `/accounts/${account.id}/keys`, {
      name: "K",
      external_id: "cred_1",
      metadata: { team: 7 },
    });
    expect((await verify(token, { key: key.secret_key })).body).toMatchObject({
      account: { id: account.id, external_id: id, name: "Acme", metadata: { plan: "pro" } },
      key: { id: key.id, external_id: "cred_1", metadata: { team: 7 } },
    });
    await operate("PUT", `/accounts/by-external-id/${id}`, { name: "Acme Inc", metadata: {} });
    await operate("PATCH", `/keys/${key.id}`, { metadata: { team: 8 } });
    expect((await verify(token, { key: key.secret_key })).body).toMatchObject({
      account: { name: "Acme Inc", metadata: {} },
      key: { metadata: { team: 8 } },
    });
  });

  it("hides the keys of other accounts from a token that is bound to accounts, and logs nothing", async () => {
    const [own, other] = [await makeTenant(), await makeTenant()];
    const token = await makeToken(["verify"], { accounts: [own.accountId] });
    expect((await verify(token, { key: own.key })).body.allowed).toBe(true);
    const { body } = await verify(token, { key: other.key });
    expect(body).toMatchObject({ allowed: false, code: "invalid_key", account: null, key: null, rate_limits: [] });
    expect(body.headers.RateLimit).toBeUndefined();
    expect(await usedOf(other)).toBe(0);
    await within2s(
      () => verifiedEntries(own),
      (found) => found.length === 1,
    );
    expect(await verifiedEntries(other)).toEqual([]);
  });

  it.each([
    [{}, "/key"],
    [{ key: 7 }, "/key"],
    [{ key: "k", cost: 0 }, "/cost"],
    [{ key: "k", cost: 1001 }, "/cost"],
    [{ key: "k", more: 1 }, "/more"],
  ])("rejects the body %j with a pointer to the member", async (body, pointer) => {
    const answer = await verify(token, body);
    expect([answer.status, answer.body.code, answer.body.errors?.[0]?.pointer]).toEqual([422, "invalid_body", pointer]);
  });

  const odd: [string, object, object][] = [
    ["a path of 5,000 characters", { path: `/${"a".repeat(5000)}` }, { path: `/${"a".repeat(383)}` }],
    ["an empty path", { path: "" }, { path: "-" }],
    ["control characters in the path", { path: "/x\n\u0000é" }, { path: "/x%0A%00%C3%A9" }],
    ["an encoded path", { path: "/caf%C3%A9/a%2Fb?key=1" }, { path: "/caf%C3%A9/a%2Fb" }],
    ["a method of 40 letters", { method: "A".repeat(40) }, { method: "-" }],
    ["a method with a space", { method: "G ET" }, { method: "-" }],
    ["a route of 300 characters", { route: `/${"b".repeat(300)}` }, { route: `/${"b".repeat(199)}` }],
    ["an address with a port", { ip: "203.0.113.7:51234" }, { ip: "203.0.113.7" }],
    ["an IPv6 address with a port", { ip: "[2001:db8::1]:51234" }, { ip: "2001:db8::1" }],
    ["an address with a zone", { ip: "fe80::1%eth0" }, { ip: "fe80::1" }],
    ["a mapped address", { ip: "::ffff:10.0.0.1" }, { ip: "10.0.0.1" }],
    ["no address", { ip: "unknown" }, { ip: null }],
    ["an empty address", { ip: "" }, { ip: null }],
  ];
  it("decides about a request with any path, method, route and address, and logs a readable form of them", async () => {
    const tenant = await makeTenant();
    const ids: string[] = [];
    for (const [name, described] of odd) {
      const { body } = await verify(token, { key: tenant.key, ...described });
      expect([name, body.allowed]).toEqual([name, true]);
      ids.push(body.request_id);
    }
    const entries = await within2s(
      () => verifiedEntries(tenant),
      (found) => found.length === odd.length,
    );
    for (const [at, [name, , logged]] of odd.entries())
      expect(
        entries.find(({ id }: { id: string }) => id === ids[at]),
        name,
      ).toMatchObject(logged);
  });

  it("makes no receipt of more than 1,600 characters, for any path, route and method", async () => {
    const { key } = await makeTenant();
    const strange = '\u0001"\\é😀';
    const { body } = await verify(token, {
      key,
      path: strange.repeat(900),
      route: strange.repeat(50),
      method: "~".repeat(32),
    });
    expect(body.allowed).toBe(true);
    expect(body.receipt.length).toBeLessThan(1600);
  });

  it("denies a credential of more than 4,096 characters with 401, without a look-up", async () => {
    const queries = vi.spyOn(Object.getPrototypeOf(env.DB), "prepare");
    const { body } = await verify(token, { key: `Bearer ${"a".repeat(4200)}` });
    expect(body).toMatchObject({ allowed: false, status: 401, code: "invalid_key" });
    expect(queries.mock.calls.filter(([sql]) => String(sql).includes("imported_secrets"))).toEqual([]);
    queries.mockRestore();
  });

  it("takes an answer of the guard that it is busy as an answer, and never lets D1 decide then", async () => {
    const tenant = await makeTenant();
    await operate("PATCH", `/accounts/${tenant.accountId}`, { on_unavailable: "known" });
    const away = vi.spyOn(Object.getPrototypeOf(env.KEY_GUARD), "getByName");
    const never = new Promise<never>(() => {});
    const answers = [
      async () => ({ busy: true }),
      () => never,
      () => Promise.reject(Object.assign(new Error("too many requests"), { overloaded: true })),
    ];
    try {
      for (const admit of answers) {
        away.mockImplementation(function (this: DurableObjectNamespace, name: unknown, options: unknown) {
          if (name === tenant.keyId) return { admit } as never;
          return this.get(this.idFromName(String(name)), options as DurableObjectNamespaceGetDurableObjectOptions);
        });
        const startedAt = Date.now();
        const { body } = await verify(token, { key: tenant.key });
        expect(body).toMatchObject({ allowed: false, status: 503, code: "unavailable", degraded: false });
        expect(Number(body.headers["Retry-After"])).toBeGreaterThan(0);
        // The caller waits a second at most.
        expect(Date.now() - startedAt).toBeLessThan(1000);
      }
    } finally {
      away.mockRestore();
    }
  });

  it("refuses an account that lets everybody through, and says why", async () => {
    const { accountId } = await makeTenant();
    const { status, body } = await operate("PATCH", `/accounts/${accountId}`, { on_unavailable: "allow" });
    expect([status, body.errors[0].pointer]).toEqual([422, "/on_unavailable"]);
    expect(body.errors[0].detail).toContain("nobody had checked");
  });

  it("returns 503 for a key whose guard cannot be reached, or lets D1 decide if the account says so", async () => {
    const tenant = await makeTenant();
    await operate("PATCH", `/accounts/${tenant.accountId}`, { on_unavailable: "known" });
    const denying = await makeTenant();
    const away = vi.spyOn(Object.getPrototypeOf(env.KEY_GUARD), "getByName");
    away.mockImplementation(function (this: DurableObjectNamespace, name: unknown, options: unknown) {
      if ([tenant.keyId, denying.keyId].includes(String(name))) throw new Error("Network connection lost.");
      return this.get(this.idFromName(String(name)), options as DurableObjectNamespaceGetDurableObjectOptions);
    });
    try {
      expect((await verify(token, { key: denying.key })).body).toMatchObject({
        allowed: false,
        status: 503,
        code: "unavailable",
        degraded: false,
      });
      const { body } = await verify(token, { key: tenant.key });
      expect(body).toMatchObject({ allowed: true, degraded: true, key: { id: tenant.keyId }, rate_limits: [] });
      expect(body.headers).not.toHaveProperty("RateLimit");
      expect((await verify(token, { key: tenant.key, ip: "1.2.3.4", scope: "none:such" })).body).toMatchObject({
        allowed: false,
        code: "insufficient_scope",
        degraded: true,
      });
    } finally {
      away.mockRestore();
    }
    expect(await usedOf(tenant)).toBe(0);
    const logged = await within2s(
      () => verifiedEntries(tenant),
      (found) => found.length === 2,
    );
    const admittedUncounted = logged.map(({ degraded, error_code }: { degraded: boolean; error_code: string | null }) => [
      degraded,
      error_code,
    ]);
    expect(admittedUncounted).toEqual(
      expect.arrayContaining([
        [true, null],
        [false, "insufficient_scope"],
      ]),
    );
  });
});

describe("Reports", () => {
  it("completes the entry of an admitted request with the reported status, duration and route", async () => {
    const tenant = await makeTenant();
    const { body } = await verify(token, { key: tenant.key, method: "GET", path: "/orders/7?secret=1", ip: "203.0.113.9" });
    const [open] = await within2s(
      () => verifiedEntries(tenant),
      (found) => found.length === 1,
    );
    expect(open).toMatchObject({
      id: body.request_id,
      status: null,
      duration_ms: null,
      method: "GET",
      path: "/orders/7",
      ip: "203.0.113.9",
    });
    const done = { receipt: body.receipt, status: 201, duration_ms: 12.4, route: "/orders/{id}" };
    expect(await report(token, [done])).toEqual([{ index: 0, status: 200, code: null }]);
    const [entry] = await verifiedEntries(tenant);
    expect(entry).toMatchObject({ id: body.request_id, status: 201, duration_ms: 12, route: "/orders/{id}" });
    expect(await report(token, [done, { ...done, status: 500 }])).toEqual([
      { index: 0, status: 200, code: null },
      { index: 1, status: 409, code: "conflict" },
    ]);
  });

  it("decides each report by itself", async () => {
    const [tenant, other] = [await makeTenant(), await makeTenant()];
    const bound = await makeToken(["verify"], { accounts: [other.accountId] });
    const { receipt } = (await verify(token, { key: tenant.key })).body;
    const forged = `${receipt.slice(0, -1)}${receipt.endsWith("A") ? "B" : "A"}`;
    const answers = await report(token, [
      { receipt: forged, status: 200, duration_ms: 1 },
      { receipt, status: 200, duration_ms: 1 },
      { receipt: "none", status: 200, duration_ms: 1 },
    ]);
    expect(answers.map(({ status }: { status: number }) => status)).toEqual([422, 200, 422]);
    expect(answers[0].code).toBe("invalid_receipt");
    expect(await report(bound, [{ receipt, status: 200, duration_ms: 1 }])).toEqual([{ index: 0, status: 422, code: "invalid_receipt" }]);
  });

  it("rejects a report after ten minutes, and leaves the status of the entry open", async () => {
    const tenant = await makeTenant();
    const now = Date.now();
    vi.setSystemTime(now - 11 * minuteMs);
    const { receipt } = (await verify(token, { key: tenant.key })).body;
    vi.useRealTimers();
    expect(await report(token, [{ receipt, status: 200, duration_ms: 1 }])).toEqual([{ index: 0, status: 422, code: "expired_receipt" }]);
  });

  it("has no receipt for a denied request, or if no report is wanted", async () => {
    const tenant = await makeTenant({ hourlyLimit: 1 });
    expect((await verify(token, { key: tenant.key, report: false })).body).toMatchObject({ allowed: true, receipt: null });
    expect((await verify(token, { key: tenant.key })).body).toMatchObject({ allowed: false, receipt: null });
  });

  it("leaves requests without a report out of the success rate", async () => {
    const tenant = await makeTenant();
    const admitted = await Promise.all(Array.from({ length: 10 }, () => verify(token, { key: tenant.key })));
    await report(
      token,
      admitted.slice(0, 4).map(({ body }, index) => ({ receipt: body.receipt, status: index === 0 ? 500 : 200, duration_ms: 10 })),
    );
    const { body } = await within2s(
      () => call("GET", "/api/v1/usage", { key: tenant.key }),
      ({ body: usage }) => usage.by_class.not_reported === 6 && usage.by_class["5xx"] === 1,
    );
    expect(body.success_rate.value).toBeGreaterThanOrEqual(75);
    expect(body.success_rate.value).toBeLessThan(100);
    expect(body.series.at(-1)?.not_reported).toBe(6);
  });

  it("are decided row by row: odd values are clamped, and only a bad receipt is rejected", async () => {
    const tenant = await makeTenant();
    const odd: [object, { status: number; duration_ms: number; route: string }][] = [
      [
        { status: 200, duration_ms: 1.4, route: "/a" },
        { status: 200, duration_ms: 1, route: "/a" },
      ],
      [
        { status: 999, duration_ms: 1 },
        { status: 599, duration_ms: 1, route: "-" },
      ],
      [
        { status: 99, duration_ms: 2 },
        { status: 599, duration_ms: 2, route: "-" },
      ],
      [
        { status: "204", duration_ms: -1 },
        { status: 204, duration_ms: 0, route: "-" },
      ],
      [
        { status: null, duration_ms: "x" },
        { status: 599, duration_ms: 0, route: "-" },
      ],
      [
        { status: 200, duration_ms: 90_000_000 },
        { status: 200, duration_ms: 86_400_000, route: "-" },
      ],
      [
        { status: 200, duration_ms: 3, route: `/${"r".repeat(300)}` },
        { status: 200, duration_ms: 3, route: `/${"r".repeat(199)}` },
      ],
      [
        { status: 200, duration_ms: 4, route: 7, more: true },
        { status: 200, duration_ms: 4, route: "-" },
      ],
    ];
    const bad = [
      null,
      "x",
      { status: 200 },
      { receipt: "none", status: 200 },
      { receipt: { toString: 1 } },
      { receipt: [[{ toString: 1 }]], status: 1 },
      { receipt: "a", status: { valueOf: 1, toString: 1 } },
      { receipt: "a", status: 200, duration_ms: { toString: null, valueOf: null } },
    ];
    const made = await Promise.all(odd.map(async () => (await verify(token, { key: tenant.key })).body));
    const rows = [...odd.map(([given], at) => ({ receipt: made[at].receipt, ...given })), ...bad];
    const answers = await report(token, rows as object[]);
    expect(answers.map(({ status }: { status: number }) => status)).toEqual([...odd.map(() => 200), ...bad.map(() => 422)]);
    const entries = await within2s(
      () => verifiedEntries(tenant),
      (found) => found.length === odd.length && found.every(({ status }: { status: number | null }) => status !== null),
    );
    for (const [at, [, wanted]] of odd.entries())
      expect(entries.find(({ id }: { id: string }) => id === made[at].request_id)).toMatchObject(wanted);
  });

  it("fit into one call, also 500 of the largest", async () => {
    const { key } = await makeTenant();
    const path = `/${"p".repeat(1000)}`;
    const { body } = await verify(token, { key, path, route: path, method: "~".repeat(32), ip: "2001:db8:1111:2222:3333:4444:5555:6666" });
    const row = { receipt: body.receipt, status: 200, duration_ms: 86_399_999.123456, route: "é".repeat(200) };
    expect(
      await report(
        token,
        Array.from({ length: 500 }, () => row),
      ),
    ).toHaveLength(500);
  });
});

describe("A Worker of the same Cloudflare account", () => {
  it("verifies and reports through the entrypoint, without a service token", async () => {
    const tenant = await makeTenant();
    const worker = exports.Verify as unknown as Pick<Verify, "verify" | "report">;
    const answer = await worker.verify({ key: tenant.key, method: "GET", path: "/a" });
    expect(answer).toMatchObject({ allowed: true, key: { id: tenant.keyId } });
    const reports = [{ receipt: answer.receipt ?? "", status: 200, duration_ms: 3 }];
    expect(await worker.report({ reports })).toEqual([{ index: 0, status: 200, code: null }]);
  });
});
