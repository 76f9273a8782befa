import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import ipaddr from "ipaddr.js";
import { expect, it, vi } from "vitest";
import { createApp } from "../../src/app.ts";
import { call, makeKey, makeTenant } from "./support/client.ts";

// What anybody can ask without a key costs no more than what is refused, and what repeats is not computed again.

/** D1 with its statements counted. */
function countedD1() {
  const counts = { statements: 0 };
  const DB = new Proxy(env.DB, {
    get: (target, name) => {
      const member = Reflect.get(target, name);
      if (name === "prepare") counts.statements++;
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
  return { DB, counts };
}

const reported = async (DB: D1Database, key: string): Promise<number> => {
  const ctx = createExecutionContext();
  const init = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ key }) };
  const response = await createApp({ isLocal: true }).fetch(
    new Request("http://localhost/api/v1/keys/revoke-leaked", init),
    { ...env, DB },
    ctx,
  );
  await waitOnExecutionContext(ctx);
  return response.status;
};

it("A leaked key that is reported again and again is looked up once", async () => {
  const { DB, counts } = countedD1();
  const { key, accountId } = await makeTenant();
  const { key: leaked } = await makeKey(accountId);
  expect(await reported(DB, leaked)).toBe(202);
  expect(counts.statements).toBeGreaterThan(0);
  expect((await call("GET", "/api/v1/me", { key: leaked })).body.code).toBe("revoked_key");
  counts.statements = 0;
  for (let n = 0; n < 20; n++) expect(await reported(DB, leaked)).toBe(202);
  expect(counts.statements).toBe(0);
  expect((await call("GET", "/api/v1/me", { key })).status).toBe(200);
});

it("A report is read within the limits of every body", async () => {
  const answer = await call("POST", "/api/v1/keys/revoke-leaked", { body: `{"key":"${"x".repeat(70_000)}"}` });
  expect(answer.status).toBe(202);
});

it("A burst of health checks asks D1 once, and a failure shows within two seconds", async () => {
  const { DB, counts } = countedD1();
  const app = createApp({ isLocal: true });
  const ask = async (bindings: Env) => (await app.fetch(new Request("http://localhost/health"), bindings, createExecutionContext())).status;
  const now = vi.spyOn(Date, "now");
  try {
    const start = Date.now() + 60_000;
    now.mockReturnValue(start);
    for (let n = 0; n < 50; n++) expect(await ask({ ...env, DB })).toBe(200);
    // Whether it answers, and which databases are full.
    expect(counts.statements).toBe(2);
    const broken = new Proxy({} as D1Database, {
      get: () => () => {
        throw new Error("D1_ERROR: Network connection lost");
      },
    });
    now.mockReturnValue(start + 1999);
    expect(await ask({ ...env, DB: broken })).toBe(200);
    now.mockReturnValue(start + 2000);
    expect(await ask({ ...env, DB: broken })).toBe(503);
  } finally {
    now.mockRestore();
  }
});

it("The OpenAPI document is an asset, which an isolate reads once for each origin that it serves", async () => {
  const ASSETS = { fetch: vi.fn(() => env.ASSETS.fetch("http://localhost/api/v1/openapi.json")) } as unknown as Fetcher;
  const app = createApp({ isLocal: true });
  const etags = new Set<string | null>();
  for (let n = 0; n < 3; n++) {
    const request = new Request("http://once.localhost/api/v1/openapi.json");
    const bindings = { ...env, PUBLIC_ORIGIN: "https://once.acme.dev", ASSETS } as unknown as Env;
    const response = await app.fetch(request, bindings, createExecutionContext());
    expect((await response.json<{ servers: { url: string }[] }>()).servers[0]?.url).toBe("https://once.acme.dev");
    etags.add(response.headers.get("ETag"));
  }
  expect([etags.size, vi.mocked(ASSETS.fetch).mock.calls.length]).toEqual([1, 1]);
});

it("A list of a hundred addresses is read once for each configuration of a key, not for each request", async () => {
  const tenant = await makeTenant();
  const allowedIps = Array.from({ length: 100 }, (_, index) => `203.0.${index}.0/24`);
  const { key, keyId } = await makeKey(tenant.accountId, { allowedIps });
  const me = () => call("GET", "/api/v1/me", { key, "CF-Connecting-IP": "203.0.99.7" });
  expect((await me()).status).toBe(200);
  const read = vi.spyOn(ipaddr, "process");
  try {
    for (let n = 0; n < 5; n++) expect((await me()).status).toBe(200);
    // The address of the request itself.
    expect(read.mock.calls.length).toBeLessThanOrEqual(5);
    await call("PATCH", `/api/v1/keys/${keyId}`, { key: tenant.key, body: { allowed_ips: ["198.51.100.1"] } });
    expect((await me()).body.code).toBe("ip_not_allowed");
  } finally {
    read.mockRestore();
  }
});

it("Tables with wide rows have a rowid, and those with narrow ones have not", async () => {
  const tables = "SELECT name, sql FROM sqlite_master WHERE type = 'table'";
  const both = await Promise.all([env.DB, env.ACTIVITY_0].map((database) => database.prepare(tables).all<{ name: string; sql: string }>()));
  const results = both.flatMap((found) => found.results);
  const withoutRowid = (name: string) => /WITHOUT ROWID/.test(results.find((table) => table.name === name)?.sql ?? "");
  for (const name of ["tasks", "events", "attempts", "idempotency_keys"]) expect(withoutRowid(name), name).toBe(false);
  for (const name of ["activity", "api_keys", "deliveries", "usage_hours", "usage_slices", "stale_slices"])
    expect(withoutRowid(name), name).toBe(true);
});
