import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { createApp } from "../../../src/app.ts";
import { newSecretKey } from "../../../src/credentials/key-format.ts";
import type { AppContext } from "../../../src/http/context.ts";
import { normalizedPath } from "../../../src/http/request-path.ts";
import { answerOf, call, makeKey, makeTenant, within2s } from "../support/client.ts";
import { readAllRows, readTables } from "../support/schema.ts";

// These tests check the middleware that runs before the route of every API request.

const ctx = createExecutionContext();

/** Adds a route to the Worker. The route does not declare its access. Returns a function that sends requests to the route. */
function withUndeclaredRoute(handler: (c: AppContext) => Response | Promise<Response>, path = "/api/v1/undeclared") {
  const app = createApp({ isLocal: true });
  const { app: surface } = app.surfaceOf(path);
  surface.get(path, handler);
  surface.post(path, handler);
  return async (method: string, key?: string, init: RequestInit = {}) => {
    const headers = { ...(key && { Authorization: `Bearer ${key}` }), ...init.headers };
    return app.fetch(new Request(`http://localhost${path}`, { method, ...init, headers }), env, ctx);
  };
}

/** Wraps a request, and replaces some of its properties. The class `Request` would normalize or reject the new values. */
const requestWith = (request: Request, properties: { url?: string; body?: () => ReadableStream | null }) =>
  new Proxy(request, {
    get: (target, name) => {
      if (name === "url" && properties.url !== undefined) return properties.url;
      if (name === "body" && properties.body !== undefined) return properties.body();
      const member = Reflect.get(target, name);
      return typeof member === "function" ? member.bind(target) : member;
    },
  });

/** Waits until the log contains the entry of a request. Returns the response with this entry. */
const readEntry = (key: string, id: string | null) =>
  within2s(
    () => call("GET", `/api/v1/activity/${id}`, { key }),
    ({ status }) => status === 200,
  );

describe("A route without a declaration", () => {
  it.each(["/api/v1/undeclared", "/api/undeclared", "/api/v2/users"])("requires a key and counts its requests: %s", async (path) => {
    const send = withUndeclaredRoute(() => new Response("open"), path);
    const { key, accountId } = await makeTenant();
    const { key: limitedKey } = await makeKey(accountId, { scopes: [], hourlyLimit: 1 });
    const forgedKey = newSecretKey("key_0123456789abcdef", { name: "a", secret: "not the signing secret of this service" });
    expect([(await send("GET")).status, (await send("GET", forgedKey)).status, (await send("GET", key)).status]).toEqual([401, 401, 200]);
    expect([(await send("GET", limitedKey)).status, (await send("GET", limitedKey)).status]).toEqual([200, 429]);
  });

  it("gets bodies up to the common limit, and larger bodies do not reach it", async () => {
    const { key } = await makeTenant();
    let calls = 0;
    const send = withUndeclaredRoute(async (c) => {
      const { length } = await c.req.text();
      calls++;
      return c.json({ read: length });
    });
    expect(await (await send("POST", key, { body: "x".repeat(65_536) })).json()).toEqual({ read: 65_536 });
    const tooLarge = await answerOf(await send("POST", key, { body: "x".repeat(65_537) }));
    expect([tooLarge.status, tooLarge.body.code, calls]).toEqual([413, "body_too_large", 1]);
  });

  it("returns the common headers, and its requests are logged with their status", async () => {
    const { key, keyId } = await makeTenant();
    const respond = () => new Response("teapot", { status: 418, headers: { "Content-Type": "text/plain", ETag: '"a"' } });
    const { status, headers } = await withUndeclaredRoute(respond)("GET", key);
    expect([status, headers.get("Content-Type"), headers.get("Cache-Control")]).toEqual([418, "text/plain", "private, no-cache"]);
    expect(headers.get("X-RateLimit-Used")).toBe("1");
    expect(headers.get("Content-Security-Policy")).toBe("default-src 'none'; frame-ancestors 'none'");
    const { body } = await readEntry(key, headers.get("X-Request-Id"));
    expect(body).toMatchObject({ status: 418, route: "/api/v1/*", key_id: keyId, counted: true, error_code: null });
  });

  it("can stream its response, and the request is logged when the headers are sent", async () => {
    const { key } = await makeTenant();
    const endlessBody = () => new ReadableStream({ pull: () => new Promise(() => {}) });
    const response = await withUndeclaredRoute(() => new Response(endlessBody()))("GET", key);
    expect((await readEntry(key, response.headers.get("X-Request-Id"))).body.status).toBe(200);
    await response.body?.cancel();
  });

  it("can open a WebSocket, whose request is logged and whose response is unchanged", async () => {
    const { key } = await makeTenant();
    const send = withUndeclaredRoute(() => {
      const [client, server] = Object.values(new WebSocketPair()) as [WebSocket, WebSocket];
      server.accept();
      return new Response(null, { status: 101, webSocket: client });
    });
    const response = await send("GET", key, { headers: { Upgrade: "websocket" } });
    expect([response.status, response.headers.has("X-Request-Id")]).toEqual([101, false]);
    response.webSocket?.accept();
    response.webSocket?.close();
    const log = await within2s(
      () => call("GET", "/api/v1/activity", { key }),
      ({ body }) => body.data.some(({ status }: { status: number }) => status === 101),
    );
    expect(log.body.data.map(({ status }: { status: number }) => status)).toContain(101);
  });

  it.each<[string, (c: AppContext) => Response]>([
    ["returns nothing", () => undefined as unknown as Response],
    [
      "throws a string",
      () => {
        throw "a text";
      },
    ],
    [
      "throws null",
      () => {
        throw null;
      },
    ],
  ])("gets 500 with the common headers and a log entry if its handler %s", async (_, handler) => {
    const { key } = await makeTenant();
    const response = await answerOf(await withUndeclaredRoute(handler)("GET", key));
    expect([response.status, response.body.code, response.headers.get("X-RateLimit-Used")]).toEqual([500, "internal_error", "1"]);
    const id = response.headers.get("X-Request-Id");
    expect((await readEntry(key, id)).body).toMatchObject({ status: 500, error_code: "internal_error" });
  });

  it("gets 404 outside the API, with a page that has the headers of every page", async () => {
    const send = withUndeclaredRoute(() => undefined as unknown as Response, "/undeclared");
    await makeTenant();
    expect((await answerOf(await send("GET"))).status).toBe(404);
    const page = await answerOf(await send("GET", undefined, { headers: { "Sec-Fetch-Site": "none" } }));
    expect([page.status, page.headers.get("X-Frame-Options")]).toEqual([404, "DENY"]);
    expect(page.text).toContain(page.headers.get("X-Request-Id"));
  });
});

it("The path of a request equals the path of its URL, with any characters", () => {
  const pathOf = (url: string) => normalizedPath({ url } as Request);
  // An HTTP request can contain these characters unencoded, but `Request` would encode the characters.
  const text = fc.oneof(fc.string(), fc.string({ unit: "binary" }), fc.webPath());
  fc.assert(
    fc.property(text, (path) => {
      const url = `https://overview.acme.dev/${path}`;
      expect(pathOf(url)).toBe(new URL(url).pathname);
    }),
    { numRuns: 100 },
  );
  expect(pathOf('https://overview.acme.dev/api/v1/a"b')).toBe("/api/v1/a%22b");
});

it("The Worker decodes encoded ids in a path, but logs the path unchanged and decodes no route names", async () => {
  const { key } = await makeTenant();
  expect((await call("GET", "/api/v1/%75sers", { key })).status).toBe(404);
  const { body: task } = await call("POST", "/api/v1/tasks", { key, body: { title: "x" } });
  const encoded = await call("GET", `/api/v1/tasks/%74${task.id.slice(1)}`, { key });
  expect([encoded.status, encoded.body.id]).toEqual([200, task.id]);
  expect((await readEntry(key, encoded.headers.get("X-Request-Id"))).body).toMatchObject({
    path: `/api/v1/tasks/%74${task.id.slice(1)}`,
    route: "/api/v1/tasks/{id}",
  });
});

describe("The id of a request", () => {
  it("is the same in the response, the problem, the log entry and the error log line", async () => {
    const { key } = await makeTenant();
    const logged = vi.spyOn(console, "error");
    const send = withUndeclaredRoute(() => {
      throw new TypeError("nobody foresaw this");
    });
    const response = await answerOf(await send("GET", key));
    const id = response.headers.get("X-Request-Id") ?? "";
    const lines = logged.mock.calls.map((line) => line.join(" "));
    logged.mockRestore();
    expect([response.status, response.body.request_id]).toEqual([500, id]);
    expect(lines.filter((line) => line.includes(id))).toEqual([expect.stringContaining("nobody foresaw this")]);
    expect((await readEntry(key, id)).body).toMatchObject({ status: 500, error_code: "internal_error" });
  });
});

it.each(["/api/v1/users/../me", "/api/v1/users/%2e%2e/me", "/api/v1/./me", "/x/../api/v1/me"])(
  "The Worker normalizes the path %s before it routes and logs the request",
  async (path) => {
    const { key } = await makeTenant();
    const request = new Request("http://localhost/", { headers: { Authorization: `Bearer ${key}` } });
    const { status, headers } = await createApp({ isLocal: true }).fetch(
      requestWith(request, { url: `http://localhost${path}` }),
      env,
      ctx,
    );
    expect(status).toBe(200);
    expect((await readEntry(key, headers.get("X-Request-Id"))).body).toMatchObject({ path: "/api/v1/me", route: "/api/v1/me" });
  },
);

describe("A misplaced secret key", () => {
  /** Returns an account, a second key of the account, and the public part of the second key. */
  const makeMisplacedKey = async () => {
    const tenant = await makeTenant();
    const { key: leaked, keyId } = await makeKey(tenant.accountId);
    return { tenant, leaked, masked: `dvo_${keyId.slice("key_".length)}` };
  };

  it.each([
    ["with hyphens instead of underscores", (key: string) => key.replaceAll("_", "-")],
    ["with a slash inside", (key: string) => `${key.slice(0, 38)}/${key.slice(38)}`],
    ["without its prefix", (key: string) => key.slice(4)],
    ["encoded several times", (key: string) => key.replaceAll("_", "%2525255F").replace("d", "%2564")],
  ])("appears in no response and no log entry, even %s", async (_, transform) => {
    const { tenant, leaked } = await makeMisplacedKey();
    const written = transform(leaked);
    const responses = [
      await call("GET", `/api/v1/users/${written}`, { key: tenant.key }),
      await call("GET", `/docs/${written}`),
      await call("GET", "/api/v1/me", { key: tenant.key, "User-Agent": `curl (${written})` }),
      await call("POST", "/api/v1/tasks", { key: tenant.key, body: { title: "x", [written]: 1 } }),
      await call("GET", `/api/v1/tasks?${encodeURIComponent(written)}=1`, { key: tenant.key }),
      await call("GET", `/api/v1/tasks?${written}%ff=1`, { key: tenant.key }),
      await call("POST", "/api/v1/tasks", { key: tenant.key, body: { title: "x" }, "Idempotency-Key": `${written}é` }),
      await call("POST", "/api/v1/tasks", { key: tenant.key, body: { title: "x" }, "Content-Type": written }),
      await call("PATCH", "/api/v1/tasks/tsk_1", { key: tenant.key, body: {}, "If-Match": written }),
    ];
    const logged = responses.filter(({ headers }) => headers.has("RateLimit"));
    expect(logged.length).toBe(8);
    const entries = await Promise.all(logged.map(({ headers }) => readEntry(tenant.key, headers.get("X-Request-Id"))));
    for (const { text } of [...responses, ...entries]) {
      expect(text).not.toContain(leaked.slice(24, 36));
      expect(text).not.toContain(leaked.slice(40, 52));
    }
  });

  it("is searched for only in the part of a path that is shown", async () => {
    const { tenant } = await makeMisplacedKey();
    for (const path of [`/api/v1/${"%25".repeat(5000)}`, `/api/v1/%${"25".repeat(7000)}41`]) {
      const { status, body, headers } = await call("GET", path, { key: tenant.key });
      expect([status, path.startsWith(body.instance)]).toEqual([404, true]);
      expect(body.instance.length).toBeGreaterThan(380);
      expect((await readEntry(tenant.key, headers.get("X-Request-Id"))).body.path).toBe(body.instance);
    }
    const { status, body } = await call("POST", "/api/v1/tasks", { key: tenant.key, body: { [`%${"25".repeat(30_000)}41`]: 1 } });
    expect([status, body.errors.map(({ pointer = "" }) => pointer.length)]).toEqual([422, expect.arrayContaining([101])]);
  });

  it("appears in no table of D1", async () => {
    const { tenant, leaked } = await makeMisplacedKey();
    await call("GET", `/api/v1/tasks/${leaked}`, { key: tenant.key });
    await call("POST", "/api/v1/tasks", { key: tenant.key, body: { title: "x" }, "Idempotency-Key": leaked });
    await call("POST", "/api/v1/tasks", { key: tenant.key, body: { title: "x" }, "CF-Connecting-IP": leaked });
    await within2s(
      () => call("GET", "/api/v1/activity", { key: tenant.key }),
      ({ body }) => body.data.length >= 3,
    );
    await call("GET", `/api/v1/keys/${tenant.keyId}`, { key: tenant.key });
    for (const database of [env.DB, env.ACTIVITY_0]) {
      const tables = await readTables(database);
      expect(tables.length).toBeGreaterThanOrEqual(5);
      for (const { name } of tables) expect(JSON.stringify(await readAllRows(database, name)), name).not.toContain(leaked.slice(21));
    }
  });
});
