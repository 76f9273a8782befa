import { exports } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { browse } from "../support/browse.ts";
import { call, makeKey, makeTenant, origin, type Tenant } from "../support/client.ts";
import { entryOf, flush, logDelay, write } from "../support/entries.ts";
import { makeToken, verify } from "../support/team.ts";

type LogEntry = {
  id: string;
  status: number;
  path: string;
  count: number;
  method: string;
  counted: boolean;
  error_code: string | null;
  ip: string | null;
  country: string | null;
};

/** Reads the log of an account with the account's own key. Omits the entries about requests that read the log. */
const readLog = async (tenant: Tenant, query = ""): Promise<LogEntry[]> => {
  const { body } = await call("GET", `/api/v1/activity?limit=100${query}`, { key: tenant.key });
  return body.data.filter((entry: LogEntry) => entry.path !== "/api/v1/activity");
};

const sumCounts = (entries: LogEntry[]) => entries.reduce((sum, entry) => sum + entry.count, 0);

/** Reads the log repeatedly, until its entries represent at least `count` requests. Returns the entries. */
const waitForRequests = (tenant: Tenant, count: number, query = ""): Promise<LogEntry[]> =>
  vi.waitFor(async () => {
    const entries = await readLog(tenant, query);
    expect(sumCounts(entries)).toBeGreaterThanOrEqual(count);
    return entries;
  }, logDelay);

describe("The request log", () => {
  it("shows every request of a valid key within two seconds, under the request id of the response", async () => {
    const tenant = await makeTenant();
    const responses = [
      await call("GET", "/api/v1/users?limit=1", { key: tenant.key, "User-Agent": "test/1", "CF-Connecting-IP": "198.51.100.9" }),
      await call("POST", "/api/v1/tasks", { key: tenant.key, body: { title: "x" } }),
      await call("HEAD", "/api/v1/users/%20x%C3%A9", { key: tenant.key }),
      await call("GET", "/api/v1/nothing/here", { key: tenant.key }),
      await call("DELETE", "/api/v1/users", { key: tenant.key }),
      await call("GET", "/api/v1/rate-limit", { key: tenant.key }),
    ];
    const entries = await waitForRequests(tenant, responses.length);
    expect(entries.map(({ id }) => id)).toEqual(responses.map(({ headers }) => headers.get("X-Request-Id")).toReversed());
    expect(entries.toReversed()).toMatchObject([
      {
        method: "GET",
        path: "/api/v1/users",
        route: "/api/v1/users",
        status: 200,
        reason: "OK",
        counted: true,
        ip: "198.51.100.9",
        user_agent: "test/1",
      },
      { method: "POST", path: "/api/v1/tasks", status: 201, reason: "Created", key_id: tenant.keyId, key_name: "Test key", count: 1 },
      { method: "HEAD", path: "/api/v1/users/%20x%C3%A9", route: "/api/v1/users/{id}", status: 404, error_code: "not_found" },
      { method: "GET", path: "/api/v1/nothing/here", route: "/api/v1/*", status: 404, reason: "Not Found" },
      { method: "DELETE", path: "/api/v1/users", route: "/api/v1/users", status: 405, error_code: "method_not_allowed" },
      { method: "GET", path: "/api/v1/rate-limit", status: 200, counted: false },
    ]);
    const [latest] = entries;
    expect((await call("GET", `/api/v1/activity/${latest?.id}`, { key: tenant.key })).body).toEqual(latest);
  });

  it("shows the country of each request, even if other requests from the same IP address had another country", async () => {
    const tenant = await makeTenant();
    const sendFrom = async (ip: string, country?: string) => {
      const headers = { Authorization: `Bearer ${tenant.key}`, ...(ip && { "CF-Connecting-IP": ip }) };
      const request = new Request(`${origin}/api/v1/me`, { headers, ...(country && { cf: { country } }) });
      await (await exports.default.fetch(request)).text();
    };
    await sendFrom("198.51.100.20");
    await sendFrom("198.51.100.20", "CH");
    await sendFrom("198.51.100.20", "CH");
    await sendFrom("198.51.100.21", "NO");
    await sendFrom("", "PT");
    await sendFrom("", "IS");
    const entries = await waitForRequests(tenant, 6);
    expect(entries.map(({ ip, country }) => [ip, country]).toReversed()).toEqual([
      ["198.51.100.20", null],
      ["198.51.100.20", "CH"],
      ["198.51.100.20", "CH"],
      ["198.51.100.21", "NO"],
      [null, "PT"],
      [null, "IS"],
    ]);
  });

  it("shows denied requests of a verified key, but no requests with a forged key or without a key", async () => {
    const tenant = await makeTenant();
    const revoked = await makeKey(tenant.accountId);
    const rotated = await makeKey(tenant.accountId);
    await call("DELETE", `/api/v1/keys/${revoked.keyId}`, { key: tenant.key });
    await call("POST", `/api/v1/keys/${rotated.keyId}/rotate`, { key: tenant.key, body: { overlap_seconds: 0 } });
    await call("GET", "/api/v1/me", { key: revoked.key });
    await call("GET", "/api/v1/me", { key: rotated.key });
    await call("GET", "/api/v1/me", { key: `${revoked.key.slice(0, -1)}!` });
    await call("GET", "/api/v1/me");
    const entries = await waitForRequests(tenant, 2, "&status=401");
    expect(entries.map(({ error_code, counted }) => [error_code, counted])).toEqual([
      ["invalid_key", false],
      ["revoked_key", false],
    ]);
  });

  it("aggregates a flood of denied requests into few entries with an exact total count", async () => {
    const tenant = await makeTenant();
    const { key } = await makeKey(tenant.accountId, { hourlyLimit: 1 });
    await Promise.all(Array.from({ length: 200 }, () => call("GET", "/api/v1/tasks", { key })));
    const entries = await waitForRequests(tenant, 199, "&status=429");
    expect(sumCounts(entries)).toBe(199);
    expect(entries.length).toBeLessThan(20);
  });

  it("aggregates a flood of requests that do not use the limit into few entries, and usage counts all of them", async () => {
    const tenant = await makeTenant();
    const { key, keyId } = await makeKey(tenant.accountId, { hourlyLimit: 1 });
    const responses = await Promise.all(Array.from({ length: 200 }, () => call("GET", "/api/v1/rate-limit", { key })));
    expect(responses.every(({ status }) => status === 200)).toBe(true);
    const entries = await waitForRequests(tenant, 200, `&key_id=${keyId}`);
    expect(sumCounts(entries)).toBe(200);
    expect(entries.length).toBeLessThan(20);
    expect(entries.every(({ status, counted }) => status === 200 && !counted)).toBe(true);
    const { body: usage } = await call("GET", `/api/v1/usage?window=24h&key_id=${keyId}`, { key: tenant.key });
    expect([usage.total_requests.value, usage.success_rate.value, usage.by_class["2xx"]]).toEqual([200, 100, 200]);
  });

  it("can be filtered by method, status, status class, key, path and time", async () => {
    const tenant = await makeTenant();
    const other = await makeKey(tenant.accountId);
    const now = Date.now();
    await write([
      entryOf(tenant, now - 5000, { method: "POST", status: 201 }),
      entryOf(tenant, now - 4000, { status: 404, path: "/api/v1/tasks/tsk_1" }),
      entryOf(tenant, now - 3000, { status: 422, method: "PATCH" }),
      entryOf({ ...tenant, keyId: other.keyId }, now - 2000, { status: 503 }),
    ]);
    const readStatuses = async (query: string) =>
      (await readLog(tenant, `&to=${new Date(now - 1000).toISOString()}${query}`)).map(({ status }) => status);
    expect(await readStatuses("")).toEqual([503, 422, 404, 201]);
    expect(await readStatuses("&method=POST")).toEqual([201]);
    expect(await readStatuses("&status=4xx")).toEqual([422, 404]);
    expect(await readStatuses("&status=404")).toEqual([404]);
    expect(await readStatuses("&status=5xx&status=404&status=201")).toEqual([503, 404, 201]);
    expect(await readStatuses("&status=3xx&status=200")).toEqual([]);
    expect(await readStatuses(`&key_id=${other.keyId}`)).toEqual([503]);
    expect(await readStatuses("&path=/api/v1/tasks/tsk_1")).toEqual([404]);
    const long = `/api/v1/${"b".repeat(500)}`;
    await call("GET", long, { key: tenant.key });
    const found = await vi.waitFor(async () => {
      const { body } = await call("GET", `/api/v1/activity?path=${long}`, { key: tenant.key });
      expect(body.data).toHaveLength(1);
      return body.data[0].path;
    }, logDelay);
    expect(long.startsWith(found)).toBe(true);
    expect(await readStatuses(`&from=${new Date(now - 3000).toISOString()}`)).toEqual([503, 422]);
    const fromInclusive = await readLog(tenant, `&from=${new Date(now - 4000).toISOString()}&to=${new Date(now - 3000).toISOString()}`);
    expect(fromInclusive.map(({ status }) => status)).toEqual([404]);
  });

  it("can be asked for each method that it can hold, and for times as clients write them", async () => {
    const tenant = await makeTenant();
    const token = await makeToken(["verify"]);
    const methods = ["OPTIONS", "PROPFIND", "QUERY", "get", "M-SEARCH"];
    for (const method of methods) await verify(token, { key: tenant.key, method, path: "/orders" });
    await waitForRequests(tenant, methods.length);
    for (const method of methods) expect((await readLog(tenant, `&method=${method}`)).map((entry) => entry.method)).toEqual([method]);
    expect((await readLog(tenant, "&method=GET")).filter(({ path }) => path === "/orders")).toEqual([]);
    const { get } = browse(tenant.accountId);
    for (const path of [
      "/activity?method=PROPFIND",
      "/activity?q=method:PROPFIND",
      "/activity?method=PROPFIND&from=2026-01-01T00:00:00+02:00",
    ])
      expect((await get(path)).text, path).toContain("PROPFIND");
    expect((await call("GET", "/api/v1/activity?method=a%20b", { key: tenant.key })).status).toBe(400);
    for (const from of ["2026-01-01T00:00:00+02:00", "2026-01-01T00:00:00%2B02:00", "2016-12-31T23:59:60Z"])
      expect(await readLog(tenant, `&method=QUERY&from=${from}`), from).toHaveLength(1);
    expect((await call("GET", "/api/v1/activity?from=2026-01-01T00:00:00%2002", { key: tenant.key })).status).toBe(400);
  });

  it("searches eleven segments at a time if no entry matches, and says how far it has looked", async () => {
    const tenant = await makeTenant();
    const now = Date.now() - 60_000;
    const timeOfPart = (part: number) => now - 10_000 * part;
    // Each segment has one entry with the method and one entry with the status. No entry has both, except the oldest one.
    for (let part = 14; part >= 0; part--) {
      const [method, status] = ["DELETE", 418];
      await write([
        entryOf(tenant, timeOfPart(part), { method }),
        entryOf(tenant, timeOfPart(part) + 1, part === 14 ? { method, status } : { status }),
      ]);
      await flush(tenant);
    }
    const find = (more = "") => call("GET", `/api/v1/activity?status=418&method=DELETE${more}`, { key: tenant.key });
    const { body: first } = await find();
    expect([first.data, first.has_more]).toEqual([[], true]);
    const lookedBackTo = Date.parse(first.looked_back_to);
    expect(lookedBackTo).toBeGreaterThanOrEqual(timeOfPart(11));
    expect(lookedBackTo).toBeLessThan(timeOfPart(10));
    const page = (await browse(tenant.accountId).get("/activity?status=418&method=DELETE")).text.replaceAll(/<[^>]+>/g, "");
    expect(page).toMatch(/Nothing matches since \d+ \w{3}.*Look further back.*Looked back to \d+ \w{3}.*Continue/s);
    const { body: second } = await find(`&cursor=${first.next_cursor}`);
    expect([second.data.length, second.has_more, "looked_back_to" in second]).toEqual([1, false, false]);
  });
});
