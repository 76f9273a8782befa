import { env } from "cloudflare:workers";
import { createHash, createHmac, randomBytes } from "node:crypto";
import { beforeAll, describe, expect, inject, it, onTestFinished, vi } from "vitest";
import { findImported, forgetForms, maxMissesPerSecond } from "../../../src/keys/imported/find-imported.ts";
import { newId } from "../../../src/lib/ids.ts";
import { verify as verifyRequest } from "../../../src/team/verify/verify.ts";
import { call, db, makeTenant, origin, within2s } from "../support/client.ts";
import { invocation } from "../support/counted.ts";
import { operate } from "../support/operate.ts";
import { makeToken, verifiedEntries, verify } from "../support/team.ts";

const sha256 = (text: string, encoding: "hex" | "base64" | "base64url" = "hex") => createHash("sha256").update(text).digest(encoding);
const sha512 = (text: string) => createHash("sha512").update(text).digest("hex");
const randomText = (length = 32) => randomBytes(length).toString("hex").slice(0, length);

/** Registers a form until the test ends. Returns a function that creates secrets of this form. */
async function makeForm(prefix = `old${randomText(8)}_`, more: object = {}): Promise<() => string> {
  const { status, body } = await operate("POST", "/key-forms", { prefix, min_length: 32, max_length: 80, alphabet: "hex", ...more });
  expect(status).toBe(201);
  forgetForms();
  onTestFinished(async () => {
    await operate("DELETE", `/key-forms/${body.id}`);
    forgetForms();
  });
  return () => prefix + randomText();
}

let token: string;
beforeAll(async () => {
  token = await makeToken(["verify"]);
});

const importInto = async (accountId: string, ...keys: unknown[]) =>
  (await operate("POST", `/accounts/${accountId}/keys/import`, { keys })).body.data;

describe("The import of keys", () => {
  it.each(["hex", "base64url"] as const)("admits keys that write random bytes in %s, if the bytes were hashed", async (presented) => {
    const { accountId } = await makeTenant();
    const secret = randomBytes(32).toString(presented);
    await makeForm("", { min_length: secret.length, max_length: secret.length, alphabet: presented });
    const hash = createHash("sha512").update(Buffer.from(secret, presented)).digest("hex");
    const body = { keys: [{ name: "Bytes", hash, algorithm: "sha512", presented }], try: { index: 0, key: secret } };
    const imported = (await operate("POST", `/accounts/${accountId}/keys/import`, body)).body;
    expect(imported).toMatchObject({ data: [{ status: 201 }], matches: true });
    expect((await verify(token, { key: secret })).body).toMatchObject({ allowed: true, account: { id: accountId } });
  });

  it("admits a token of Laravel Sanctum with its number and without, and not with another number", async () => {
    const { accountId } = await makeTenant();
    const secret = randomText(40);
    const number = String(Math.floor(Math.random() * 1e9));
    await makeForm("", { min_length: 40, max_length: 64 });
    await importInto(accountId, { name: "Sanctum", hash: sha256(secret), algorithm: "sha256", strip: "pipe", prefix: number });
    const isAllowed = async (key: string) => (await verify(token, { key })).body.allowed;
    expect([await isAllowed(`${number}|${secret}`), await isAllowed(secret), await isAllowed(`1${number}|${secret}`)]).toEqual([
      true,
      true,
      false,
    ]);
  });

  const hash = "a1".repeat(32);
  it.each([
    ["a line break", { hash: `${hash.slice(0, 40)}\n${hash.slice(40)}` }, "line break"],
    ["a space at its end", { hash: `${hash} ` }, "space"],
    ["bytes as PostgreSQL prints them", { hash: `\\x${hash}` }, "`\\x`"],
    ["bytes as MySQL prints them", { hash: `0x${hash}` }, "`0x`"],
    ["the name of its algorithm", { hash: `sha256:${hash}` }, "without the name of its algorithm"],
    ["a slow hash of Django", { hash: "pbkdf2_sha256$600000$c2FsdA$aGFzaA" }, "Slow password hashes"],
    ["a slow hash of Werkzeug", { hash: `scrypt:32768:8:1$c2FsdA$${hash}${hash}` }, "Slow password hashes"],
    ["a slow hash of crypt", { hash: "$7$C6..../....SodiumChloride$aGFzaA" }, "Slow password hashes"],
    ["a salt", { hash: `sha256$c2FsdA$${hash}` }, "Contains a salt"],
    ["quotes", { hash: `'${hash}'` }, "Contains quotes"],
    ["a character that is not visible", { hash: `${hash}\u200b` }, "not visible"],
    ["hyphens between its bytes", { hash: hash.replaceAll(/..(?!$)/g, "$&-") }, "Contains hyphens"],
    ["the length of another algorithm", { hash: `${hash}${hash}` }, "It has the length of sha512."],
    ["the length of a key in base64url", { hash: "p".repeat(43) }, "hash it first"],
    ["a space at the end of its prefix", { hash, strip: "underscore", prefix: "sk_live " }, "without spaces"],
    ["another encoding", { hash: Buffer.from(hash, "hex").toString("base64") }, "It looks like base64."],
    ["a secret in place of a hash", { hash: `${"p".repeat(43)}-` }, "hash it first"],
  ])("says what is wrong with a hash that has %s", async (_, row, message) => {
    const { accountId } = await makeTenant();
    const [result] = await importInto(accountId, { name: "Old", algorithm: "sha256", ...row });
    expect(result).toMatchObject({ status: 422, code: "invalid_body", detail: expect.stringContaining(message) });
  });

  it("corrects `strip` and `prefix` if the same hash is imported again, and says so", async () => {
    const { accountId } = await makeTenant();
    const secret = randomText(40);
    await makeForm("acme_", { min_length: 45, max_length: 45 });
    const row = { name: "Corrected", hash: sha256(secret), algorithm: "sha256" };
    const [first] = await importInto(accountId, row);
    expect((await verify(token, { key: `acme_${secret}` })).body.code).toBe("invalid_key");
    const split = { ...row, strip: "underscore", prefix: "acme" };
    expect(await importInto(accountId, split)).toMatchObject([{ status: 200, id: first.id, detail: expect.stringContaining("`strip`") }]);
    // An isolate remembers for a second that it has not found a text.
    const isFound = async () =>
      expect((await verify(token, { key: `acme_${secret}` })).body).toMatchObject({ allowed: true, key: { id: first.id } });
    await vi.waitFor(isFound, { timeout: 3000, interval: 100 });
    expect(await importInto(accountId, split)).toMatchObject([{ status: 200, detail: null }]);
    await operate("DELETE", `/keys/${first.id}`);
    expect(await importInto(accountId, split)).toMatchObject([{ status: 200, id: first.id, detail: expect.stringContaining("revoked") }]);
  });

  it("shows in a dry run what it would do, and whether a known secret is that of a row, and writes nothing", async () => {
    const { accountId } = await makeTenant();
    const secret = `old_${randomText()}`;
    const rows = [
      { name: "A", hash: sha256("other"), algorithm: "sha256" },
      { name: "B", hash: sha256(secret.slice(4)), algorithm: "sha256", strip: "underscore", prefix: "old" },
      { name: "C", hash: "no", algorithm: "sha256" },
    ];
    const run = async (more: object) => (await operate("POST", `/accounts/${accountId}/keys/import`, { keys: rows, ...more })).body;
    for (const [index, key, matches] of [
      [1, secret, true],
      [0, "other", true],
      [0, secret, false],
      [1, secret.slice(4), false],
      [2, "no", false],
    ] as const) {
      const body = await run({ dry_run: true, try: { index, key } });
      expect(body.data.map(({ status, id }: { status: number; id: unknown }) => [status, id])).toEqual([
        [201, null],
        [201, null],
        [422, null],
      ]);
      expect(body.matches).toBe(matches);
    }
    const beyond = await run({ dry_run: true, try: { index: 3, key: secret } });
    expect(beyond).toMatchObject({ status: 422, errors: [{ pointer: "/try/index" }] });
    expect((await run({})).data.map(({ status }: { status: number }) => status)).toEqual([201, 201, 422]);
    expect((await run({ dry_run: true })).data.map(({ status }: { status: number }) => status)).toEqual([200, 200, 422]);
  });

  it("brings no revoked key back to life, and needs no room for it", async () => {
    const { accountId } = await makeTenant();
    const makeSecret = await makeForm();
    const [revoked, disabled] = [makeSecret(), makeSecret()];
    await operate("PATCH", `/accounts/${accountId}`, { max_live_keys: 2 });
    const row = (secret: string, state: string) => ({ name: "Old", hash: sha256(secret), algorithm: "sha256", state });
    const results = await importInto(accountId, row(disabled, "disabled"), row(revoked, "revoked"));
    expect(results).toMatchObject([{ status: 201 }, { status: 201 }]);
    expect((await verify(token, { key: revoked })).body).toMatchObject({ allowed: false, status: 401 });
    expect((await verify(token, { key: disabled })).body.allowed).toBe(false);
    const keys = (await operate("GET", `/accounts/${accountId}/keys`)).body.data;
    expect(keys.map(({ status }: { status: string }) => status)).toContain("revoked");
  });

  it("gives keys the team's own scopes, and a scope of the sample resources only if the row names it", async () => {
    const { accountId } = await makeTenant();
    const [plain, named] = await importInto(
      accountId,
      { name: "A", hash: sha256(randomText()), algorithm: "sha256" },
      { name: "B", hash: sha256(randomText()), algorithm: "sha256", scopes: ["users:read"] },
    );
    const made = await operate("POST", `/accounts/${accountId}/keys`, { name: "C" });
    const keys = (await operate("GET", `/accounts/${accountId}/keys`)).body.data;
    const scopesOf = (id: string) => keys.find((key: { id: string }) => key.id === id)?.scopes;
    expect([scopesOf(plain.id), scopesOf(named.id), made.body.scopes]).toEqual([[], ["users:read"], []]);
  });

  it.each([
    ["sha256 as hex", (secret: string) => ({ hash: sha256(secret), algorithm: "sha256", encoding: "hex" })],
    ["sha256 as base64", (secret: string) => ({ hash: sha256(secret, "base64"), algorithm: "sha256", encoding: "base64" })],
    ["sha256 as base64url", (secret: string) => ({ hash: sha256(secret, "base64url"), algorithm: "sha256", encoding: "base64url" })],
    ["sha512", (secret: string) => ({ hash: createHash("sha512").update(secret).digest("hex"), algorithm: "sha512", encoding: "hex" })],
    [
      "hmac-sha256",
      (secret: string) => ({
        hash: createHmac("sha256", "a-pepper-of-the-tests").update(secret).digest("hex"),
        algorithm: "hmac-sha256",
        encoding: "hex",
      }),
    ],
    ["sha512 as Django writes it", (secret: string) => ({ hash: `sha512$$${sha512(secret)}`, algorithm: "sha512" })],
    [
      "what follows the last underscore",
      (secret: string) => ({
        hash: sha256(secret.split("_").at(-1) ?? ""),
        algorithm: "sha256",
        encoding: "hex",
        strip: "underscore",
        prefix: secret.slice(0, secret.lastIndexOf("_") + 1),
      }),
    ],
  ])("admits the secrets that were imported by %s, and nothing else", async (_, rowOf) => {
    const { accountId } = await makeTenant();
    const makeSecret = await makeForm();
    const secret = makeSecret();
    const row = { name: "Old", external_id: "old_1", metadata: { from: "before" }, ...rowOf(secret) };
    const [made] = await importInto(accountId, row);
    expect(made).toMatchObject({ index: 0, status: 201, code: null });
    const { body } = await verify(token, { key: secret });
    expect(body).toMatchObject({
      allowed: true,
      account: { id: accountId },
      key: { id: made.id, name: "Old", external_id: "old_1", metadata: { from: "before" } },
    });
    const other = `${secret.slice(0, -1)}${secret.endsWith("0") ? "1" : "0"}`;
    expect((await verify(token, { key: other })).body.code).toBe("invalid_key");
    await operate("DELETE", `/keys/${made.id}`);
    expect((await verify(token, { key: secret })).body.code).toBe("revoked_key");
  });

  it("returns the same key for the same hash, and a conflict for a hash of another account", async () => {
    const [one, other] = [await makeTenant(), await makeTenant()];
    const row = { name: "Old", hash: sha256(randomText()), algorithm: "sha256", encoding: "hex" };
    const [first, twin] = await importInto(one.accountId, row, row);
    expect([first.status, twin.status, twin.id]).toEqual([201, 200, first.id]);
    expect((await importInto(one.accountId, row))[0]).toMatchObject({ status: 200, id: first.id });
    const [conflict] = await importInto(other.accountId, row);
    expect(conflict).toMatchObject({ status: 409, id: null, code: "conflict" });
    expect(JSON.stringify(conflict)).not.toContain(one.accountId);
  });

  it("refuses rows that are not valid by their index, and imports the others", async () => {
    const { accountId } = await makeTenant();
    const good = { name: "Old", hash: sha256(randomText()), algorithm: "sha256" };
    const data = await importInto(
      accountId,
      { ...good, algorithm: "bcrypt" },
      good,
      { ...good, hash: "abc" },
      { ...good, name: "" },
      { ...good, strip: "dot" },
      { ...good, more: 1 },
      { ...good, limits: [{ per: "hour", limit: 999_999 }], hash: sha256("x") },
      { ...good, algorithm: "hmac-sha256", secret: "none" },
      7,
    );
    expect(data.map(({ status }: { status: number }) => status)).toEqual([422, 201, 422, 422, 422, 422, 422, 422, 422]);
    expect(data[0].detail).toContain("Slow password hashes cannot be imported");
    expect(data[4].detail).toContain("prefix");
  });

  it("stops at the number of live keys of the account, which the operator can raise", async () => {
    const { accountId } = await makeTenant();
    const rows = Array.from({ length: 60 }, () => ({ name: "Old", hash: sha256(randomText()), algorithm: "sha256" }));
    const data = await importInto(accountId, ...rows);
    const counts = Map.groupBy(data as { status: number }[], ({ status }) => status);
    expect([counts.get(201)?.length, counts.get(409)?.length]).toEqual([49, 11]);
    expect((await operate("PATCH", `/accounts/${accountId}`, { max_live_keys: 1000 })).status).toBe(200);
    const again = await importInto(accountId, ...rows);
    expect(new Set(again.map(({ status }: { status: number }) => status))).toEqual(new Set([200, 201]));
  });

  it("gives an imported key a secret of this service's form when it is rotated, with an overlap", async () => {
    const { accountId } = await makeTenant();
    const secret = (await makeForm())();
    const [{ id }] = await importInto(accountId, { name: "Old", hash: sha256(secret), algorithm: "sha256", prefix: "old_", last4: "abcd" });
    expect((await operate("GET", `/keys/${id}`)).body).toMatchObject({ prefix: "old_", last4: "abcd" });
    const { body } = await operate("POST", `/keys/${id}/rotate`, { overlap_seconds: 60 });
    expect(body.secret_key).toMatch(/^dvo_/);
    expect(body.prefix).toBe(`dvo_${id.slice(4)}`);
    for (const key of [secret, body.secret_key]) expect((await verify(token, { key })).body).toMatchObject({ allowed: true, key: { id } });
  });
});

describe("An imported key", () => {
  const importOne = async (scopes: string[] = ["usage:read"]) => {
    const tenant = await makeTenant();
    const secret = (await makeForm())();
    const [{ id }] = await importInto(tenant.accountId, { name: "Old", hash: sha256(secret), algorithm: "sha256", scopes });
    return { ...tenant, id, secret };
  };

  it("works for requests to this API, too", async () => {
    const { id, secret } = await importOne();
    const { status, body } = await call("GET", "/api/v1/me", { key: secret });
    expect([status, body.key.id]).toEqual([200, id]);
    expect((await call("GET", "/api/v1/usage", { key: secret })).status).toBe(200);
    expect((await call("GET", "/api/v1/users", { key: secret })).body.code).toBe("insufficient_scope");
    expect((await call("GET", "/api/v1/me", { key: `${secret.slice(0, -1)}x` })).body.code).toBe("invalid_key");
  });

  it("is revoked within a second after it was reported as leaked", async () => {
    const { secret } = await importOne();
    expect((await call("POST", "/api/v1/keys/revoke-leaked", { body: { key: secret } })).status).toBe(202);
    await within2s(
      () => verify(token, { key: secret }),
      ({ body }) => body.code === "revoked_key",
    );
  });
});

describe("Secrets of a registered form", () => {
  const basic = (user: string, password: string) => `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;

  it("are recognized on both sides of a Basic credential", async () => {
    const { accountId, key } = await makeTenant();
    const makeSecret = await makeForm();
    const secret = makeSecret();
    await importInto(accountId, { name: "Old", hash: sha256(secret), algorithm: "sha256", encoding: "hex" });
    for (const sent of [basic(secret, "x"), basic("me", secret), basic(secret, "")])
      expect((await verify(token, { key: sent })).body.allowed).toBe(true);
    for (const sent of [basic(key, secret), basic(secret, key), basic(secret, makeSecret())])
      expect((await verify(token, { key: sent })).body).toMatchObject({ allowed: false, status: 400, code: "invalid_header" });
  });

  it("are masked in paths, routes, user agents and problems of all requests", async () => {
    const tenant = await makeTenant();
    const makeSecret = await makeForm();
    const [secret, prefix] = [makeSecret(), makeSecret().slice(0, -32)];
    // An isolate knows the forms from the first credential on that is not of this service's own form.
    await verify(token, { key: makeSecret() });
    await verify(token, { key: tenant.key, path: `/orders/${secret}?key=${secret}`, route: `/orders/${secret}` });
    const [entry] = await within2s(
      () => verifiedEntries(tenant),
      (entries) => entries.length === 1,
    );
    expect([entry.path, entry.route]).toEqual([`/orders/${prefix}***`, `/orders/${prefix}***`]);
    const { body } = await operate("GET", `/keys/${secret}`);
    expect([body.status, body.instance]).toEqual([404, `/team/v1/keys/${prefix}***`]);
    await call("GET", `/api/v1/keys/${secret}`, { key: tenant.key, "User-Agent": `app (${secret})` });
    const [own] = await within2s(
      async () => (await call("GET", "/api/v1/activity?status=404", { key: tenant.key })).body.data,
      (entries) => entries.length === 1,
    );
    expect([own.path, own.user_agent]).toEqual([`/api/v1/keys/${prefix}***`, `app (${prefix}***)`]);
  });
});

it("An imported key in the path of its own request is masked, even if its form has a short prefix", async () => {
  const tenant = await makeTenant();
  const secret = (await makeForm("zq"))();
  await importInto(tenant.accountId, { name: "Old", hash: sha256(secret), algorithm: "sha256", scopes: [] });
  const { body } = await verify(token, { key: `Bearer ${secret}`, path: `/orders/${secret}`, scope: "orders:read" });
  expect([body.code, body.problem.instance]).toEqual(["insufficient_scope", "/orders/***"]);
  await within2s(
    () => verifiedEntries(tenant),
    (found) => found.length > 0,
  );
  expect((await verifiedEntries(tenant))[0].path).toBe("/orders/***");
});

describe("A made-up credential", () => {
  it("of no registered form is denied without a look-up", async () => {
    await verify(token, { key: "warm up the forms" });
    const queries = vi.spyOn(Object.getPrototypeOf(env.DB), "prepare");
    try {
      for (const key of ["sk_nobody_0000", "eyJhbGciOi.a.b", randomText(400)])
        expect((await verify(token, { key })).body.code).toBe("invalid_key");
      expect(queries.mock.calls.filter(([sql]) => String(sql).includes("imported_secrets"))).toEqual([]);
    } finally {
      queries.mockRestore();
    }
  });

  it("of a registered form is 401 at most 20 times a second for one network, and then 429, never for keys that this isolate knows", async () => {
    const { accountId } = await makeTenant();
    const makeSecret = await makeForm();
    const secret = makeSecret();
    await importInto(accountId, { name: "Old", hash: sha256(secret), algorithm: "sha256" });
    await verify(token, { key: secret });
    // All addresses are in one /64.
    const ipOf = (n: number) => `2001:db8:7:1::${n.toString(16)}`;
    vi.setSystemTime(Math.ceil(Date.now() / 1000) * 1000 + 60_000);
    try {
      const codes = await Promise.all(
        Array.from(
          { length: maxMissesPerSecond + 30 },
          async (_, n) => (await verify(token, { key: makeSecret(), ip: ipOf(n) })).body.code,
        ),
      );
      const counts = Map.groupBy(codes, (code) => code);
      expect([counts.get("invalid_key")?.length, counts.get("too_many_unknown_keys")?.length]).toEqual([20, 30]);
      const { body } = await verify(token, { key: makeSecret(), ip: ipOf(99) });
      expect(body).toMatchObject({ status: 429, headers: { "Retry-After": "1" }, rate_limits: [] });
      expect(body.problem).not.toHaveProperty("violated-policies");
      expect((await verify(token, { key: secret, ip: ipOf(99) })).body.allowed).toBe(true);
      expect((await verify(token, { key: makeSecret(), ip: "2001:db8:7:2::1" })).body.code).toBe("invalid_key");
      const report = { body: { key: makeSecret() }, "CF-Connecting-IP": ipOf(99) };
      const { status, headers } = await call("POST", "/api/v1/keys/revoke-leaked", report);
      expect([status, headers.get("Retry-After")]).toEqual([429, "1"]);
    } finally {
      vi.useRealTimers();
      forgetForms();
    }
  });

  it("beside the first requests of 200 customers at one address, which come at the same time, denies none of them", async () => {
    const { accountId, keyId } = await makeTenant();
    const makeSecret = await makeForm();
    const secrets = Array.from({ length: 200 }, makeSecret);
    // Not by an import, because this isolate would then know the keys.
    const rows = JSON.stringify(secrets.map((secret) => sha256(secret)));
    await env.DB.prepare(
      `INSERT INTO imported_secrets (algorithm, digest, account_id, key_id, strip, prefix, created_at)
        SELECT 'sha256', value, ?1, ?2, 'none', '', 0 FROM json_each(?3)`,
    )
      .bind(accountId, keyId, rows)
      .run();
    const ip = "192.0.2.77";
    const found = await Promise.all([...secrets, makeSecret()].map((secret) => findImported(db, [], secret, ip)));
    expect(found.map((each) => each?.keyId ?? null)).toEqual([...secrets.map(() => keyId), null]);
  });

  it("wakes no object, and a flood from 1,000 addresses neither denies nor delays a key that was never seen", {
    tags: ["long"],
    timeout: 600_000,
  }, async () => {
    const [seconds, atOnce, longestMs] = inject("isLong") ? [8, 100, 1000] : [1, 40, 3000];
    const { accountId, key: ownKey } = await makeTenant();
    const makeSecret = await makeForm();
    const caller = { accountIds: null, origin, requestId: newId("req", Date.now()), waitUntil: () => {} };
    const good = Array.from({ length: 30 * seconds }, makeSecret);
    for (let from = 0; from < good.length; from += 100) {
      const rows = good.slice(from, from + 100).map((secret) => ({ name: "Old", hash: sha256(secret), algorithm: "sha256" }));
      await operate("PATCH", `/accounts/${accountId}`, { max_live_keys: 1000 });
      expect((await importInto(accountId, ...rows)).map(({ status }: { status: number }) => status)).toEqual(rows.map(() => 201));
    }
    const verifyOne = async (secret: string, ip: string) => {
      const startedAt = Date.now();
      const { code } = await verifyRequest(env, caller, { key: secret, ip, cost: 1, report: true });
      return { code, ms: Date.now() - startedAt };
    };
    const objects = vi.spyOn(Object.getPrototypeOf(env.KEY_GUARD), "getByName");
    const queries = vi.spyOn(Object.getPrototypeOf(env.DB), "prepare");
    const [flood, found]: [Promise<{ code: string | null }>[], { code: string | null; ms: number }[]] = [[], []];
    try {
      await invocation(
        "a flood",
        async () => {
          for (let second = 0; second < seconds; second++)
            for (let tick = 0; tick < 20; tick++) {
              for (let n = 0; n < atOnce; n++) flood.push(verifyOne(makeSecret(), `198.51.${(tick * atOnce + n) % 4}.${n % 250}`));
              if (tick % 2 === 0) found.push(await verifyOne(good.pop() ?? "", "203.0.113.7"));
              await new Promise((resolve) => setTimeout(resolve, 40));
            }
          expect(new Set((await Promise.all(flood)).map(({ code }) => code))).toEqual(new Set(["invalid_key"]));
        },
        { isExempt: true },
      );
      expect(found.map(({ code }) => code)).toEqual(found.map(() => null));
      expect(Math.max(...found.map(({ ms }) => ms))).toBeLessThan(longestMs);
      const lookUps = queries.mock.calls.filter(([sql]) => String(sql).includes("imported_secrets")).length;
      expect(lookUps).toBeLessThan(flood.length / 4);
      // Only the keys that exist have woken their guards. Keys of earlier tests may have leases to return.
      const keys = await db.$client.prepare("SELECT id, account_id FROM api_keys").all<{ id: string; account_id: string }>();
      const accountOf = new Map(keys.results.map((each) => [each.id, each.account_id]));
      const woken = objects.mock.calls.map(([name]) => String(name)).filter((name) => name.startsWith("key_"));
      expect(woken.filter((name) => !accountOf.has(name))).toEqual([]);
      expect(woken.filter((name) => accountOf.get(name) === accountId).length).toBe(found.length);
      // A leaked key is reported in the middle of the flood.
      const leaked = good.pop() ?? "";
      const more = Array.from({ length: 300 }, (_, n) => verifyOne(makeSecret(), `198.51.7.${n % 250}`));
      const report = call("POST", "/api/v1/keys/revoke-leaked", { body: { key: leaked } });
      await Promise.all(more);
      expect((await report).status).toBe(202);
      expect((await verifyOne(leaked, "203.0.113.7")).code).toBe("revoked_key");
      expect((await call("GET", "/api/v1/me", { key: ownKey })).status).toBe(200);
    } finally {
      objects.mockRestore();
      queries.mockRestore();
      forgetForms();
    }
  });
});

describe("The forms of imported keys", () => {
  it("are at most twenty, even if many are registered at once", async () => {
    const listed = async () => (await operate("GET", "/key-forms?limit=100")).body.data as { id: string }[];
    const before = (await listed()).length;
    const answers = await Promise.all(
      Array.from({ length: 24 }, () =>
        operate("POST", "/key-forms", { prefix: `many${randomText(8)}_`, min_length: 20, max_length: 40, alphabet: "hex" }),
      ),
    );
    const made = answers.filter(({ status }) => status === 201);
    expect([made.length, (await listed()).length]).toEqual([20 - before, 20]);
    for (const { body } of made) await operate("DELETE", `/key-forms/${body.id}`);
  });

  it("do not include this service's own form", async () => {
    const answer = await operate("POST", "/key-forms", { prefix: "dvo_", min_length: 20, max_length: 80, alphabet: "base62" });
    expect([answer.status, answer.body.errors[0].pointer]).toEqual([422, "/prefix"]);
  });
});
