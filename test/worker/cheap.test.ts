import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import ipaddr from "ipaddr.js";
import { expect, it, vi } from "vitest";
import { createApp } from "../../src/app.ts";
import { call, makeKey, makeTenant } from "./support/client.ts";
import { readTables } from "./support/schema.ts";
import { d1With } from "./support/stub-d1.ts";

// Requests without a key are cheap, and repeated requests do not repeat expensive work.

/** Returns the main database, and the number of statements that were prepared on it. */
function countingD1() {
  const counts = { statements: 0 };
  const prepare = (query: string) => {
    counts.statements++;
    return env.DB.prepare(query);
  };
  return { DB: d1With(env.DB, { prepare }), counts };
}

/** Returns a database whose methods throw. */
const failingD1 = () =>
  new Proxy({} as D1Database, {
    get: () => () => {
      throw new Error("D1_ERROR: Network connection lost");
    },
  });

/** Reports a key as leaked to a Worker with this database, and waits until the Worker has handled the report. Returns the status. */
async function reportLeakedKey(DB: D1Database, key: string): Promise<number> {
  const ctx = createExecutionContext();
  const request = new Request("http://localhost/api/v1/keys/revoke-leaked", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ key }),
  });
  const { status } = await createApp({ isLocal: true }).fetch(request, { ...env, DB }, ctx);
  await waitOnExecutionContext(ctx);
  return status;
}

it("Repeated reports of a leaked key cause one lookup", async () => {
  const { DB, counts } = countingD1();
  const { key, accountId } = await makeTenant();
  const { key: leaked } = await makeKey(accountId);
  expect(await reportLeakedKey(DB, leaked)).toBe(202);
  expect(counts.statements).toBeGreaterThan(0);
  expect((await call("GET", "/api/v1/me", { key: leaked })).body.code).toBe("revoked_key");
  counts.statements = 0;
  for (let report = 0; report < 20; report++) expect(await reportLeakedKey(DB, leaked)).toBe(202);
  expect(counts.statements).toBe(0);
  expect((await call("GET", "/api/v1/me", { key })).status).toBe(200);
});

it("A leak report that is longer than the maximum body gets 202", async () => {
  const { status } = await call("POST", "/api/v1/keys/revoke-leaked", { body: `{"key":"${"x".repeat(70_000)}"}` });
  expect(status).toBe(202);
});

it("A burst of health checks queries D1 once, and a failure of D1 shows within two seconds", async () => {
  const { DB, counts } = countingD1();
  const app = createApp({ isLocal: true });
  const healthWith = async (bindings: Env) =>
    (await app.fetch(new Request("http://localhost/health"), bindings, createExecutionContext())).status;
  const now = vi.spyOn(Date, "now");
  try {
    const start = Date.now() + 60_000;
    now.mockReturnValue(start);
    for (let check = 0; check < 50; check++) expect(await healthWith({ ...env, DB })).toBe(200);
    // The first statement checks that D1 responds. The second statement reads which databases are full.
    expect(counts.statements).toBe(2);
    now.mockReturnValue(start + 1999);
    expect(await healthWith({ ...env, DB: failingD1() })).toBe(200);
    now.mockReturnValue(start + 2000);
    expect(await healthWith({ ...env, DB: failingD1() })).toBe(503);
  } finally {
    now.mockRestore();
  }
});

it("An isolate reads the asset of the OpenAPI document once for each origin", async () => {
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

it("The Worker parses a key's list of a hundred addresses once per configuration of the key, not once per request", async () => {
  const tenant = await makeTenant();
  const allowedIps = Array.from({ length: 100 }, (_, index) => `203.0.${index}.0/24`);
  const { key, keyId } = await makeKey(tenant.accountId, { allowedIps });
  const getMe = () => call("GET", "/api/v1/me", { key, "CF-Connecting-IP": "203.0.99.7" });
  expect((await getMe()).status).toBe(200);
  const parse = vi.spyOn(ipaddr, "process");
  try {
    for (let n = 0; n < 5; n++) expect((await getMe()).status).toBe(200);
    // Each request parses only the client's IP address.
    expect(parse.mock.calls.length).toBeLessThanOrEqual(5);
    await call("PATCH", `/api/v1/keys/${keyId}`, { key: tenant.key, body: { allowed_ips: ["198.51.100.1"] } });
    expect((await getMe()).body.code).toBe("ip_not_allowed");
  } finally {
    parse.mockRestore();
  }
});

it("Tables with wide rows have a rowid, and tables with narrow rows have none", async () => {
  const tables = (await Promise.all([env.DB, env.ACTIVITY_0].map(readTables))).flat();
  const isWithoutRowid = (table: string) => /WITHOUT ROWID/.test(tables.find(({ name }) => name === table)?.sql ?? "");
  for (const name of ["tasks", "events", "attempts", "idempotency_keys"]) expect(isWithoutRowid(name), name).toBe(false);
  for (const name of ["activity", "api_keys", "deliveries", "usage_hours", "usage_slices", "stale_slices"])
    expect(isWithoutRowid(name), name).toBe(true);
});
