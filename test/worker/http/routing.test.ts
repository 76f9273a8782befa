import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { createApp } from "../../../src/app.ts";
import { newSecretKey } from "../../../src/credentials/key-format.ts";
import type { AppContext } from "../../../src/http/context.ts";
import { normalizedPath } from "../../../src/http/request-path.ts";
import { answerOf, call, makeKey, makeTenant, within2s } from "../support/client.ts";

// The list of middleware that every request of the API passes, before any route.

const ctx = createExecutionContext();

/** The Worker with routes that nobody has declared anything of. */
function undeclared(handler: (c: AppContext) => Response | Promise<Response>, path = "/api/v1/undeclared") {
  const app = createApp({ isLocal: true });
  const { app: surface } = app.surfaceOf(path);
  surface.get(path, handler);
  surface.post(path, handler);
  return async (method: string, key?: string, init: RequestInit = {}) => {
    const headers = { ...(key && { Authorization: `Bearer ${key}` }), ...init.headers };
    return app.fetch(new Request(`http://localhost${path}`, { method, ...init, headers }), env, ctx);
  };
}

const entry = (key: string, id: string | null) =>
  within2s(
    () => call("GET", `/api/v1/activity/${id}`, { key }),
    ({ status }) => status === 200,
  );

describe("A route that nothing is declared of", () => {
  it.each(["/api/v1/undeclared", "/api/undeclared", "/api/v2/users"])("needs a key, at %s", async (path) => {
    const ask = undeclared(() => new Response("open"), path);
    const { key, accountId } = await makeTenant();
    const { key: small } = await makeKey(accountId, { scopes: [], hourlyLimit: 1 });
    const forged = newSecretKey("key_0123456789abcdef", { name: "a", secret: "not the signing secret of this service" });
    expect([(await ask("GET")).status, (await ask("GET", forged)).status, (await ask("GET", key)).status]).toEqual([401, 401, 200]);
    expect([(await ask("GET", small)).status, (await ask("GET", small)).status]).toEqual([200, 429]);
  });

  it("gets a body within the limits of all others, and reads none of another", async () => {
    const { key } = await makeTenant();
    let reads = 0;
    const ask = undeclared(async (c) => {
      const { length } = await c.req.text();
      reads++;
      return c.json({ read: length });
    });
    expect(await (await ask("POST", key, { body: "x".repeat(65_536) })).json()).toEqual({ read: 65_536 });
    const large = await answerOf(await ask("POST", key, { body: "x".repeat(65_537) }));
    expect([large.status, large.body.code, reads]).toEqual([413, "body_too_large", 1]);
  });

  it("is logged with the status of its response, which has the headers of all", async () => {
    const { key, keyId } = await makeTenant();
    const ask = undeclared(() => new Response("teapot", { status: 418, headers: { "Content-Type": "text/plain", ETag: '"a"' } }));
    const { status, headers } = await ask("GET", key);
    expect([status, headers.get("Content-Type"), headers.get("Cache-Control")]).toEqual([418, "text/plain", "private, no-cache"]);
    expect(headers.get("X-RateLimit-Used")).toBe("1");
    expect(headers.get("Content-Security-Policy")).toBe("default-src 'none'; frame-ancestors 'none'");
    const { body } = await entry(key, headers.get("X-Request-Id"));
    expect(body).toMatchObject({ status: 418, route: "/api/v1/*", key_id: keyId, counted: true, error_code: null });
  });

  it("may hand on a response whose headers are immutable", async () => {
    const { key } = await makeTenant();
    const ask = undeclared(() => Response.redirect("https://example.com/", 302));
    const { status, headers } = await ask("GET", key);
    expect([status, headers.get("Location"), headers.get("X-RateLimit-Used")]).toEqual([302, "https://example.com/", "1"]);
    expect((await entry(key, headers.get("X-Request-Id"))).body.status).toBe(302);
  });

  it("may stream: it is logged when its headers go", async () => {
    const { key } = await makeTenant();
    const ask = undeclared(() => new Response(new ReadableStream({ pull: () => new Promise(() => {}) })));
    const response = await ask("GET", key);
    expect((await entry(key, response.headers.get("X-Request-Id"))).body.status).toBe(200);
    await response.body?.cancel();
  });

  it("may open a WebSocket, which is logged and left as it is", async () => {
    const { key } = await makeTenant();
    const ask = undeclared(() => {
      const [client, server] = Object.values(new WebSocketPair()) as [WebSocket, WebSocket];
      server.accept();
      return new Response(null, { status: 101, webSocket: client });
    });
    const response = await ask("GET", key, { headers: { Upgrade: "websocket" } });
    expect([response.status, response.headers.has("X-Request-Id")]).toEqual([101, false]);
    response.webSocket?.accept();
    response.webSocket?.close();
    const seen = await within2s(
      () => call("GET", "/api/v1/activity", { key }),
      ({ body }) => body.data.some(({ status }: { status: number }) => status === 101),
    );
    expect(seen.body.data.map(({ status }: { status: number }) => status)).toContain(101);
  });
});

describe("A route that fails as none should", () => {
  it.each<[string, (c: AppContext) => Response]>([
    ["answers nothing", () => undefined as unknown as Response],
    [
      "throws a text",
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
  ])("and %s is answered with 500, with the headers of all and in the log", async (_, handler) => {
    const { key } = await makeTenant();
    const answer = await answerOf(await undeclared(handler)("GET", key));
    expect([answer.status, answer.body.code, answer.headers.get("X-RateLimit-Used")]).toEqual([500, "internal_error", "1"]);
    const id = answer.headers.get("X-Request-Id");
    expect((await entry(key, id)).body).toMatchObject({ status: 500, error_code: "internal_error" });
  });

  it("outside the API is not found for anybody, with a page that has the headers of all pages", async () => {
    const ask = undeclared(() => undefined as unknown as Response, "/undeclared");
    await makeTenant();
    expect((await answerOf(await ask("GET"))).status).toBe(404);
    const answer = await answerOf(await ask("GET", undefined, { headers: { "Sec-Fetch-Site": "none" } }));
    expect([answer.status, answer.headers.get("X-Frame-Options")]).toEqual([404, "DENY"]);
    expect(answer.text).toContain(answer.headers.get("X-Request-Id"));
  });
});

it("A path is that of its URL, with any characters", () => {
  const pathOf = (url: string) => normalizedPath({ url } as Request);
  // Over HTTP they arrive as they are; `Request` would encode them first.
  const text = fc.oneof(fc.string(), fc.string({ unit: "binary" }), fc.webPath());
  fc.assert(
    fc.property(text, (path) => {
      const url = `https://overview.acme.dev/${path}`;
      expect(pathOf(url)).toBe(new URL(url).pathname);
    }),
    { numRuns: 500 },
  );
  expect(pathOf('https://overview.acme.dev/api/v1/a"b')).toBe("/api/v1/a%22b");
});

describe("A path with something encoded", () => {
  it("is routed, logged and known again as it is written", async () => {
    const { key } = await makeTenant();
    expect((await call("GET", "/api/v1/%75sers", { key })).status).toBe(404);
    const { body: task } = await call("POST", "/api/v1/tasks", { key, body: { title: "x" } });
    const encoded = await call("GET", `/api/v1/tasks/%74${task.id.slice(1)}`, { key });
    expect([encoded.status, encoded.body.id]).toEqual([200, task.id]);
    expect((await entry(key, encoded.headers.get("X-Request-Id"))).body).toMatchObject({
      path: `/api/v1/tasks/%74${task.id.slice(1)}`,
      route: "/api/v1/tasks/{id}",
    });
  });
});

describe("A body that comes with GET or HEAD", () => {
  it.each(["/api/v1/me", "/api/v1/nothing", "/api/v1/keys/revoke-leaked", "/api/v1/webhooks/whk_1/test"])(
    "changes nothing, at %s",
    async (path) => {
      const { key } = await makeTenant();
      for (const method of ["GET", "HEAD"]) {
        const plain = await call(method, path, { key });
        // `Request` takes no such body, so it is given as it would arrive.
        const request = new Proxy(new Request(`http://localhost${path}`, { method, headers: { Authorization: `Bearer ${key}` } }), {
          get: (target, name) => {
            if (name === "body") return new Response("{}").body;
            const member = Reflect.get(target, name);
            return typeof member === "function" ? member.bind(target) : member;
          },
        });
        const answer = await createApp({ isLocal: true }).fetch(request, env, ctx);
        expect([method, answer.status]).toEqual([method, plain.status]);
        expect(Number(answer.headers.get("X-RateLimit-Used"))).toBe(Number(plain.headers.get("X-RateLimit-Used")) + 1);
      }
    },
  );
});

describe("The id of a request", () => {
  it("is one: in the response, its problem, its entry and the line that its failure is logged with", async () => {
    const { key } = await makeTenant();
    const logged = vi.spyOn(console, "error");
    const ask = undeclared(() => {
      throw new TypeError("nobody foresaw this");
    });
    const answer = await answerOf(await ask("GET", key));
    const id = answer.headers.get("X-Request-Id") ?? "";
    const lines = logged.mock.calls.map((line) => line.join(" "));
    logged.mockRestore();
    expect([answer.status, answer.body.request_id]).toEqual([500, id]);
    expect(lines.filter((line) => line.includes(id))).toEqual([expect.stringContaining("nobody foresaw this")]);
    expect((await entry(key, id)).body).toMatchObject({ status: 500, error_code: "internal_error" });
  });

  it("is one on a page too", async () => {
    const logged = vi.spyOn(console, "error");
    const app = createApp({ isLocal: true });
    const DB = {
      prepare: () => {
        throw new TypeError("nobody foresaw this");
      },
    } as unknown as D1Database;
    const request = new Request("http://localhost/", { headers: { "Sec-Fetch-Site": "none" } });
    const response = await app.fetch(request, { ...env, DB }, ctx);
    const id = response.headers.get("X-Request-Id") ?? "none";
    const lines = logged.mock.calls.map((line) => line.join(" "));
    logged.mockRestore();
    expect(response.status).toBe(500);
    expect(await response.text()).toContain(id);
    expect(lines.filter((line) => line.includes(id))).toHaveLength(1);
  });
});

describe("The path of a request", () => {
  it.each(["/api/v1/users/../me", "/api/v1/users/%2e%2e/me", "/api/v1/./me", "/x/../api/v1/me"])(
    "is the one that it is routed by, logged and shown: %s",
    async (path) => {
      const { key } = await makeTenant();
      // `Request` normalises its URL, so the path is given as it would arrive.
      const raw = new Proxy(new Request("http://localhost/", { headers: { Authorization: `Bearer ${key}` } }), {
        get: (target, name) => {
          if (name === "url") return `http://localhost${path}`;
          const member = Reflect.get(target, name);
          return typeof member === "function" ? member.bind(target) : member;
        },
      });
      const answer = await createApp({ isLocal: true }).fetch(raw, env, ctx);
      expect(answer.status).toBe(200);
      expect((await entry(key, answer.headers.get("X-Request-Id"))).body).toMatchObject({ path: "/api/v1/me", route: "/api/v1/me" });
    },
  );
});

describe("A secret key that a client puts where it does not belong", () => {
  const secrets = async () => {
    const tenant = await makeTenant();
    const { key: leaked, keyId } = await makeKey(tenant.accountId);
    return { tenant, leaked, masked: `dvo_${keyId.slice("key_".length)}` };
  };

  it("is cut to its public part in the log and in the problem", async () => {
    const { tenant, leaked, masked } = await secrets();
    const encoded = leaked.replaceAll("_", "%5F").replace("d", "%64");
    for (const [path, userAgent] of [
      [`/api/v1/users/${leaked}`, "test"],
      [`/api/v1/users/${encoded}`, "test"],
      [`/api/v1/users/${"x".repeat(350)}${leaked}`, "test"],
      [`/api/v1/users/%ff${encoded}`, "test"],
      ["/api/v1/me", `curl (${leaked})`],
      ["/api/v1/me", `curl (${encoded})`],
      [`/api/v1/users/${encodeURIComponent(encoded)}`, encodeURIComponent(encodeURIComponent(encoded))],
      ["/api/v1/me", `${"x".repeat(100)} ${leaked}`],
    ] as const) {
      const { headers, text } = await call("GET", path, { key: tenant.key, "User-Agent": userAgent });
      const secret = leaked.slice(21);
      expect(text).not.toContain(secret);
      const { text: shown } = await entry(tenant.key, headers.get("X-Request-Id"));
      expect(shown).not.toContain(secret.slice(0, 8));
      expect(shown).toContain(masked.slice(0, 8));
    }
    const { text } = await call("GET", `/api/v1/users/${leaked}`, { key: tenant.key });
    expect(JSON.parse(text).instance).toBe(`/api/v1/users/${masked}`);
  });

  it.each([
    ["with - for _", (key: string) => key.replaceAll("_", "-")],
    ["with / inside", (key: string) => `${key.slice(0, 38)}/${key.slice(38)}`],
    ["without its prefix", (key: string) => key.slice(4)],
    ["encoded again and again", (key: string) => key.replaceAll("_", "%2525255F").replace("d", "%2564")],
  ])("is shown nowhere %s: not for a path, a User-Agent, a member, a parameter or a value of a header", async (_, form) => {
    const { tenant, leaked } = await secrets();
    const written = form(leaked);
    const answers = [
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
    const ofKey = answers.filter(({ headers }) => headers.has("RateLimit"));
    expect(ofKey.length).toBe(8);
    const entries = await Promise.all(ofKey.map(({ headers }) => entry(tenant.key, headers.get("X-Request-Id"))));
    for (const { text } of [...answers, ...entries]) {
      expect(text).not.toContain(leaked.slice(24, 36));
      expect(text).not.toContain(leaked.slice(40, 52));
    }
  });

  it("is looked for in no more of a path than is shown of it", async () => {
    const { tenant } = await secrets();
    for (const path of [`/api/v1/${"%25".repeat(5000)}`, `/api/v1/%${"25".repeat(7000)}41`]) {
      const { status, body, headers } = await call("GET", path, { key: tenant.key });
      expect([status, path.startsWith(body.instance)]).toEqual([404, true]);
      expect(body.instance.length).toBeGreaterThan(380);
      expect((await entry(tenant.key, headers.get("X-Request-Id"))).body.path).toBe(body.instance);
    }
    const { status, body } = await call("POST", "/api/v1/tasks", { key: tenant.key, body: { [`%${"25".repeat(30_000)}41`]: 1 } });
    expect([status, body.errors.map(({ pointer = "" }) => pointer.length)]).toEqual([422, expect.arrayContaining([101])]);
  });

  it("is not in the last use of the key that sent it, nor in anything of D1", async () => {
    const { tenant, leaked } = await secrets();
    await call("GET", `/api/v1/tasks/${leaked}`, { key: tenant.key });
    await call("POST", "/api/v1/tasks", { key: tenant.key, body: { title: "x" }, "Idempotency-Key": leaked });
    await call("POST", "/api/v1/tasks", { key: tenant.key, body: { title: "x" }, "CF-Connecting-IP": leaked });
    await within2s(
      () => call("GET", "/api/v1/activity", { key: tenant.key }),
      ({ body }) => body.data.length >= 3,
    );
    await call("GET", `/api/v1/keys/${tenant.keyId}`, { key: tenant.key });
    for (const database of [env.DB, env.ACTIVITY_0]) {
      const { results: tables } = await database
        .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_%' ESCAPE '\\'")
        .all<{ name: string }>();
      expect(tables.length).toBeGreaterThan(5);
      for (const { name } of tables.filter((table) => !/^(sqlite|d1)_/.test(table.name))) {
        const { results } = await database.prepare(`SELECT * FROM ${name}`).all();
        expect(JSON.stringify(results), name).not.toContain(leaked.slice(21));
      }
    }
  });

  it("is still told apart from another, as an Idempotency-Key", async () => {
    const { tenant, leaked } = await secrets();
    const rest = leaked.endsWith("a") ? "b" : "a";
    const post = (idempotencyKey: string) =>
      call("POST", "/api/v1/tasks", { key: tenant.key, body: { title: "x" }, "Idempotency-Key": idempotencyKey });
    const [one, other, again] = [await post(leaked), await post(leaked.slice(0, -1) + rest), await post(leaked)];
    expect(other.body.id).not.toBe(one.body.id);
    expect(again.body.id).toBe(one.body.id);
  });
});
