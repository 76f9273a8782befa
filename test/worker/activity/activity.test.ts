import { env, exports } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { entriesScannedAtOnce } from "../../../src/activity/read-activity.ts";
import { call, makeKey, makeTenant, origin, type Tenant, within2s } from "../support/client.ts";
import { entryOf, write } from "../support/entries.ts";

type Shown = {
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

/** The log of an account, read with a key of it that is left out of what is read. */
const log = async (tenant: Tenant, query = ""): Promise<Shown[]> => {
  const { body } = await call("GET", `/api/v1/activity?limit=100${query}`, { key: tenant.key });
  return body.data.filter((entry: Shown) => entry.path !== "/api/v1/activity");
};

describe("The log", () => {
  it("has an entry for every answered request of a real key, within two seconds, under the id of its answer", async () => {
    const tenant = await makeTenant();
    const asked = [
      await call("GET", "/api/v1/users?limit=1", { key: tenant.key, "User-Agent": "test/1", "CF-Connecting-IP": "198.51.100.9" }),
      await call("POST", "/api/v1/tasks", { key: tenant.key, body: { title: "x" } }),
      await call("HEAD", "/api/v1/users/%20x%C3%A9", { key: tenant.key }),
      await call("GET", "/api/v1/nothing/here", { key: tenant.key }),
      await call("DELETE", "/api/v1/users", { key: tenant.key }),
      await call("GET", "/api/v1/rate-limit", { key: tenant.key }),
    ];
    const entries = await within2s(
      () => log(tenant),
      (seen) => seen.length >= asked.length,
    );
    expect(entries.map(({ id }) => id)).toEqual(asked.map(({ headers }) => headers.get("X-Request-Id")).toReversed());
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

  it("has the country of each request, even if others from its address had another", async () => {
    const tenant = await makeTenant();
    const from = async (ip: string, country?: string) => {
      const headers = { Authorization: `Bearer ${tenant.key}`, ...(ip && { "CF-Connecting-IP": ip }) };
      const request = new Request(`${origin}/api/v1/me`, { headers, ...(country && { cf: { country } }) });
      await (await exports.default.fetch(request)).text();
    };
    await from("198.51.100.20");
    await from("198.51.100.20", "CH");
    await from("198.51.100.20", "CH");
    await from("198.51.100.21", "NO");
    await from("", "PT");
    await from("", "IS");
    const entries = await within2s(
      () => log(tenant),
      (seen) => seen.length >= 6,
    );
    expect(entries.map(({ ip, country }) => [ip, country]).toReversed()).toEqual([
      ["198.51.100.20", null],
      ["198.51.100.20", "CH"],
      ["198.51.100.20", "CH"],
      ["198.51.100.21", "NO"],
      [null, "PT"],
      [null, "IS"],
    ]);
  });

  it("has refusals of a real key in any state, and none of forged or absent ones", async () => {
    const tenant = await makeTenant();
    const gone = await makeKey(tenant.accountId);
    const rotated = await makeKey(tenant.accountId);
    await call("DELETE", `/api/v1/keys/${gone.keyId}`, { key: tenant.key });
    await call("POST", `/api/v1/keys/${rotated.keyId}/rotate`, { key: tenant.key, body: { overlap_seconds: 0 } });
    await call("GET", "/api/v1/me", { key: gone.key });
    await call("GET", "/api/v1/me", { key: rotated.key });
    await call("GET", "/api/v1/me", { key: `${gone.key.slice(0, -1)}!` });
    await call("GET", "/api/v1/me");
    const entries = await within2s(
      () => log(tenant, "&status=401"),
      (seen) => seen.length >= 2,
    );
    expect(entries.map(({ error_code, counted }) => [error_code, counted])).toEqual([
      ["invalid_key", false],
      ["revoked_key", false],
    ]);
  });

  it("aggregates a flood of refusals: few entries, whose counts add up to all of them", async () => {
    const tenant = await makeTenant();
    const { key } = await makeKey(tenant.accountId, { hourlyLimit: 1 });
    await Promise.all(Array.from({ length: 200 }, () => call("GET", "/api/v1/tasks", { key })));
    const total = (entries: Shown[]) => entries.reduce((sum, entry) => sum + entry.count, 0);
    const entries = await within2s(
      () => log(tenant, "&status=429"),
      (seen) => total(seen) >= 199,
    );
    expect(total(entries)).toBe(199);
    expect(entries.length).toBeLessThan(20);
  });

  it("aggregates a flood of requests that use none of the limit: few entries, and figures of all of them", async () => {
    const tenant = await makeTenant();
    const { key, keyId } = await makeKey(tenant.accountId, { hourlyLimit: 1 });
    const limits = await Promise.all(Array.from({ length: 200 }, () => call("GET", "/api/v1/rate-limit", { key })));
    expect(limits.every(({ status }) => status === 200)).toBe(true);
    const total = (entries: Shown[]) => entries.reduce((sum, entry) => sum + entry.count, 0);
    const entries = await within2s(
      () => log(tenant, `&key_id=${keyId}`),
      (seen) => total(seen) >= 200,
    );
    expect(total(entries)).toBe(200);
    expect(entries.length).toBeLessThan(20);
    expect(entries.every(({ status, counted }) => status === 200 && !counted)).toBe(true);
    const { body: usage } = await call("GET", `/api/v1/usage?window=24h&key_id=${keyId}`, { key: tenant.key });
    expect([usage.total_requests.value, usage.success_rate.value, usage.by_class["2xx"]]).toEqual([200, 100, 200]);
  });

  it("filters by method, status, class, key, path and time", async () => {
    const tenant = await makeTenant();
    const other = await makeKey(tenant.accountId);
    const now = Date.now();
    await write([
      entryOf(tenant, now - 5000, { method: "POST", status: 201 }),
      entryOf(tenant, now - 4000, { status: 404, path: "/api/v1/tasks/tsk_1" }),
      entryOf(tenant, now - 3000, { status: 422, method: "PATCH" }),
      entryOf({ ...tenant, keyId: other.keyId }, now - 2000, { status: 503 }),
    ]);
    const statuses = async (query: string) =>
      (await log(tenant, `&to=${new Date(now - 1000).toISOString()}${query}`)).map(({ status }) => status);
    expect(await statuses("")).toEqual([503, 422, 404, 201]);
    expect(await statuses("&method=POST")).toEqual([201]);
    expect(await statuses("&status=4xx")).toEqual([422, 404]);
    expect(await statuses("&status=404")).toEqual([404]);
    expect(await statuses("&status=5xx&status=404&status=201")).toEqual([503, 404, 201]);
    expect(await statuses("&status=3xx&status=200")).toEqual([]);
    expect(await statuses(`&key_id=${other.keyId}`)).toEqual([503]);
    expect(await statuses("&path=/api/v1/tasks/tsk_1")).toEqual([404]);
    expect(await statuses(`&from=${new Date(now - 3000).toISOString()}`)).toEqual([503, 422]);
    const exact = await log(tenant, `&from=${new Date(now - 4000).toISOString()}&to=${new Date(now - 3000).toISOString()}`);
    expect(exact.map(({ status }) => status)).toEqual([404]);
  });

  it("looks at ten thousand entries for a filtered page, and goes on from there", async () => {
    const tenant = await makeTenant();
    const now = Date.now() - 60_000;
    await write(
      Array.from({ length: entriesScannedAtOnce + 50 }, (_, index) =>
        entryOf(tenant, now - index, { status: index === entriesScannedAtOnce + 20 ? 418 : 200 }),
      ),
    );
    const to = new Date(now + 1).toISOString();
    const first = await call("GET", `/api/v1/activity?status=418&to=${to}`, { key: tenant.key });
    expect([first.body.data.length, first.body.has_more]).toEqual([0, true]);
    const second = await call("GET", `/api/v1/activity?status=418&to=${to}&cursor=${first.body.next_cursor}`, { key: tenant.key });
    expect([second.body.data.length, second.body.has_more]).toEqual([1, false]);
  });

  it("takes a batch again without doubling it", async () => {
    const tenant = await makeTenant();
    const entries = Array.from({ length: 5 }, (_, index) => entryOf(tenant, Date.now() - index));
    await write(entries);
    await write(entries);
    expect((await log(tenant)).length).toBe(5);
    await new Promise((resolve) => setTimeout(resolve, 200));
    const watcher = await makeKey(tenant.accountId);
    expect((await call("GET", `/api/v1/usage?key_id=${tenant.keyId}&window=24h`, { key: watcher.key })).body.by_class["2xx"]).toBe(6);
  });
});

it("An entry takes less than 1,000 bytes, for any request: from there on, each would take a page of the database", async () => {
  const { key } = await makeTenant();
  const sent = { key, "User-Agent": "x".repeat(2000), "CF-Connecting-IP": "2001:db8:1111:2222:3333:4444:5555:6666" };
  const answer = await call("GET", `/api/v1/tasks/${"%C3%A9".repeat(2000)}`, sent);
  const id = answer.headers.get("X-Request-Id") ?? "";
  const find = () => env.ACTIVITY_0.prepare("SELECT * FROM activity WHERE id = ?").bind(id).first();
  const row = await within2s(find, (seen) => seen !== null);
  const bytes = Object.values(row ?? {}).reduce((sum: number, value) => sum + Buffer.byteLength(String(value ?? "")), 0);
  expect([answer.status, bytes > 400, bytes < 950]).toEqual([404, true, true]);
});
