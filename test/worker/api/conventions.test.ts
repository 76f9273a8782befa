import { describe, expect, it, vi } from "vitest";
import { call, makeKey, makeTenant } from "../support/client.ts";
import { logDelay } from "../support/entries.ts";

const limitHeaders = [
  "RateLimit-Policy",
  "RateLimit",
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "X-RateLimit-Used",
  "X-RateLimit-Reset",
];

describe("Every response of the API", () => {
  it("has the security, cache and CORS headers, and a request id", async () => {
    const { key } = await makeTenant();
    const responses = [
      await call("GET", "/api/v1/me", { key }),
      await call("GET", "/api/v1/me"),
      await call("GET", "/api/v1/none", { key }),
      await call("PUT", "/api/v1/users", { key }),
      await call("POST", "/api/v1/tasks", { key, body: "{" }),
      await call("OPTIONS", "/api/v1/users"),
      await call("GET", "/api/v1/openapi.json"),
      await call("GET", "/api"),
      await call("GET", "/api/v2/users"),
    ];
    for (const { headers } of responses) {
      expect(headers.get("X-Request-Id")).toMatch(/^req_[0-9a-f]{32}$/);
      expect(headers.get("Content-Security-Policy")).toBe("default-src 'none'; frame-ancestors 'none'");
      expect(headers.get("X-Content-Type-Options")).toBe("nosniff");
      expect(headers.get("Strict-Transport-Security")).toContain("max-age=");
      expect(headers.get("Access-Control-Allow-Origin")).toBe("*");
      expect(headers.get("Access-Control-Allow-Credentials")).toBeNull();
      expect(headers.get("Cache-Control")).toBe(headers.has("ETag") ? "private, no-cache" : "no-store");
    }
  });

  it("exposes its headers to browsers, even in preflights without a key", async () => {
    const preflight = await call("OPTIONS", "/api/v1/tasks/tsk_1", {
      Origin: "https://app.example",
      "Access-Control-Request-Method": "PATCH",
      "Access-Control-Request-Headers": "authorization,if-match",
    });
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get("Access-Control-Allow-Methods")).toContain("PATCH");
    expect(preflight.headers.get("Access-Control-Allow-Headers")?.toLowerCase()).toContain("if-match");
    const { headers } = await call("GET", "/api/v1/me", { Origin: "https://app.example" });
    for (const name of [...limitHeaders, "X-Request-Id", "Retry-After"])
      expect(headers.get("Access-Control-Expose-Headers")).toContain(name);
  });

  it("allows every header that a preflight requests, and omits invalid header names", async () => {
    const allowedHeaders = async (requested: string) =>
      (
        await call("OPTIONS", "/api/v1/tasks", { "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": requested })
      ).headers.get("Access-Control-Allow-Headers");
    const tracing = "authorization,baggage,cache-control,content-type,traceparent,x-requested-with";
    expect(await allowedHeaders(tracing)).toBe(tracing);
    expect(await allowedHeaders("X-Own , x-other,,a b,<b>,é,x:y,*")).toBe("X-Own,x-other,*");
    expect((await allowedHeaders(Array.from({ length: 5000 }, (_, n) => `x-${n}`).join(",")))?.length).toBeLessThanOrEqual(4096);
  });
});

describe("A page of another origin", () => {
  it("can read health checks, llms.txt and the API catalog, but no page of the Worker", async () => {
    for (const path of ["/health", "/llms.txt", "/.well-known/api-catalog"]) {
      const response = await call("GET", path, { Origin: "https://app.example", "Sec-Fetch-Site": "cross-site" });
      // Other tests break what the health check looks at.
      expect(path === "/health" ? [200, 503] : [200]).toContain(response.status);
      expect(response.headers.get("Access-Control-Allow-Origin"), path).toBe("*");
      expect(response.headers.has("Access-Control-Allow-Credentials")).toBe(false);
      const preflight = await call("OPTIONS", path, {
        Origin: "https://app.example",
        "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": "traceparent",
      });
      const { headers } = preflight;
      expect([preflight.status, headers.get("Access-Control-Allow-Origin"), headers.get("Access-Control-Allow-Headers")]).toEqual([
        204,
        "*",
        "traceparent",
      ]);
      expect([headers.get("Allow"), headers.get("Access-Control-Allow-Methods")]).toEqual(["GET, HEAD", "GET, HEAD"]);
    }
    for (const path of ["/", "/docs", "/keys", "/login"])
      expect((await call("GET", path, { Origin: "https://app.example" })).headers.has("Access-Control-Allow-Origin"), path).toBe(false);
  });
});

describe("An unknown route", () => {
  it("returns 401 without a key, and 404 with a key", async () => {
    const { key } = await makeTenant();
    for (const path of ["/api/v1", "/api/v1/", "/api/v1/users/", "/api/v1/users//", "/api/v1/nothing", "/api/v1/users/usr_1/more"]) {
      expect((await call("GET", path)).body.code, path).toBe("missing_key");
      expect((await call("GET", path, { key })).body.code, path).toBe("not_found");
    }
  });

  it("returns 404 to OPTIONS with or without a key, and the request is not counted", async () => {
    const { key } = await makeTenant();
    for (const path of ["/api", "/api/v1", "/api/v1/nothing", "/api/v1/users/", "/api/v1/users/usr_1/more", "/api/v2/users"])
      for (const request of [{}, { key }, { Origin: "https://app.example", "Access-Control-Request-Method": "GET" }]) {
        const { status, body, headers } = await call("OPTIONS", path, request);
        expect([status, body.code, body.instance, headers.get("Content-Type")]).toEqual([
          404,
          "not_found",
          path,
          "application/problem+json",
        ]);
        expect([headers.has("Allow"), headers.has("RateLimit"), headers.get("Access-Control-Allow-Origin")]).toEqual([false, false, "*"]);
      }
    expect((await call("GET", "/api/v1/me", { key })).headers.get("X-RateLimit-Used")).toBe("1");
  });
});

describe("The API", () => {
  it.each([
    ["/users", "GET, HEAD, POST", ["PUT", "DELETE", "PROPFIND"]],
    ["/users/usr_1", "GET, HEAD, PATCH, DELETE", ["POST"]],
    ["/keys/key_1/rotate", "POST", ["GET", "HEAD"]],
    ["/keys/revoke-leaked", "POST", ["DELETE", "HEAD"]],
    ["/openapi.json", "GET, HEAD", ["POST"]],
  ])("returns the allowed methods of %s to OPTIONS without a key, and with 405 to other methods", async (path, allowed, others) => {
    const { key } = await makeTenant();
    const { status, text, headers } = await call("OPTIONS", `/api/v1${path}`);
    expect([status, text, headers.get("Allow"), headers.get("Access-Control-Allow-Methods")]).toEqual([204, "", allowed, allowed]);
    for (const method of others) {
      const response = await call(method, `/api/v1${path}`, { key });
      expect([method, response.status, response.headers.get("Allow")]).toEqual([method, 405, allowed]);
      if (method !== "HEAD") expect(response.body.code).toBe("method_not_allowed");
    }
  });

  it("responds to HEAD like to GET, without a body", async () => {
    const { key } = await makeTenant();
    for (const path of ["/api/v1/users", "/api/v1/me", "/api/v1/nothing"]) {
      const [get, head] = [await call("GET", path, { key }), await call("HEAD", path, { key })];
      expect([head.status, head.text, head.headers.get("Content-Type")]).toEqual([get.status, "", get.headers.get("Content-Type")]);
      expect(head.headers.has("X-RateLimit-Used")).toBe(true);
    }
  });

  it.each([
    ["Basic abc", "missing_key"],
    ["Bearer", "missing_key"],
    ["dvo_x", "missing_key"],
    ["bearer x y", "invalid_key"],
    ["Bearer dvo_", "invalid_key"],
    ["Bearer  ", "missing_key"],
    ["Bearer a b", "invalid_key"],
  ])("returns 401 to the Authorization header %j", async (authorization, code) => {
    const { status, body } = await call("GET", "/api/v1/me", { Authorization: authorization });
    expect([status, body.code]).toEqual([401, code]);
  });

  it("reads the key from the Authorization header only, whose scheme is case-insensitive", async () => {
    const { key } = await makeTenant();
    expect((await call("GET", `/api/v1/me?api_key=${key}`)).body.code).toBe("missing_key");
    expect((await call("GET", "/api/v1/me", { Cookie: `key=${key}`, "X-API-Key": key })).body.code).toBe("missing_key");
    expect((await call("GET", "/api/v1/me", { Authorization: `bearer ${key}` })).status).toBe(200);
  });
});

describe("A conditional request", () => {
  const createUser = (key: string) => call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } });

  it("gets 304 without a body if the client has the current version", async () => {
    const { key } = await makeTenant();
    const { headers } = await createUser(key);
    const path = headers.get("Location") ?? "";
    const etag = (await call("GET", path, { key })).headers.get("ETag") ?? "";
    expect(etag).toMatch(/^"[^"]+"$/);
    expect(headers.get("ETag")).toBe(etag);
    for (const known of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
      const { status, text, headers } = await call("GET", path, { key, "If-None-Match": known });
      expect([status, text, headers.get("ETag"), headers.get("Cache-Control")]).toEqual([304, "", etag, "private, no-cache"]);
    }
    expect((await call("GET", path, { key, "If-None-Match": '"other"' })).status).toBe(200);
    expect((await call("GET", path, { key, "If-Match": etag })).status).toBe(200);
    expect((await call("GET", path, { key, "If-Match": '"other"' })).status).toBe(412);
  });

  describe.each<[string, string, object, object]>([
    ["a user", "/users", { name: "Ada", email: "ada@example.com" }, { name: "Bob" }],
    ["a task", "/tasks", { title: "x" }, { title: "y" }],
    ["a key", "/keys", { name: "x" }, { name: "y" }],
    ["a webhook", "/webhooks", { url: "https://hooks.acme.dev/", event_types: ["*"] }, { description: "y" }],
  ])("for %s", (_, list, content, patch) => {
    const create = async () => {
      const { key } = await makeTenant();
      const { headers } = await call("POST", `/api/v1${list}`, { key, body: content });
      return { key, path: headers.get("Location") ?? "", etag: headers.get("ETag") ?? "" };
    };

    it("accepts the weak form of an ETag, which proxies create", async () => {
      const { key, path, etag } = await create();
      const changed = await call("PATCH", path, { key, body: patch, "If-Match": `W/${etag}` });
      expect(changed.status).toBe(200);
      expect((await call("GET", path, { key, "If-Match": `W/${changed.headers.get("ETag")}` })).status).toBe(200);
      expect((await call("DELETE", path, { key, "If-Match": `W/${etag}` })).body.code).toBe("precondition_failed");
      expect((await call("DELETE", path, { key, "If-Match": `"other", W/${changed.headers.get("ETag")}` })).status).toBe(204);
    });

    it("changes and deletes nothing if If-None-Match matches the current version", async () => {
      const { key, path, etag } = await create();
      const before = (await call("GET", path, { key })).text;
      for (const [method, body] of [
        ["PATCH", patch],
        ["DELETE", undefined],
      ] as const) {
        for (const excluded of ["*", etag, `W/${etag}`, `"other", ${etag}`]) {
          const rejected = await call(method, path, { key, body, "If-None-Match": excluded });
          expect([rejected.status, rejected.body.code], `${method} ${excluded}`).toEqual([412, "precondition_failed"]);
        }
        const both = await call(method, path, { key, body, "If-Match": etag, "If-None-Match": etag });
        expect(both.body.code).toBe("precondition_failed");
        const invalid = await call(method, path, { key, body, "If-None-Match": "no-quotes" });
        expect([invalid.status, invalid.body.errors[0].header]).toEqual([400, "If-None-Match"]);
      }
      expect((await call("GET", path, { key })).text).toBe(before);
      expect((await call("PATCH", path, { key, body: patch, "If-None-Match": '"other"' })).status).toBe(200);
      expect((await call("DELETE", path, { key, "If-Match": "*", "If-None-Match": etag })).status).toBe(204);
    });
  });

  it("succeeds only once if five concurrent changes name the same version", async () => {
    const { key } = await makeTenant();
    const created = await call("POST", "/api/v1/tasks", { key, body: { title: "x" } });
    const patch = (n: number, headers: Record<string, string>) =>
      call("PATCH", `/api/v1/tasks/${created.body.id}`, { key, body: { title: `t${n}` }, ...headers });
    const conditional = await Promise.all([1, 2, 3, 4, 5].map((n) => patch(n, { "If-Match": created.headers.get("ETag") ?? "" })));
    expect(conditional.map(({ status }) => status).toSorted()).toEqual([200, 412, 412, 412, 412]);
    const unconditional = await Promise.all(Array.from({ length: 20 }, (_, n) => patch(n, {})));
    expect(new Set(unconditional.map(({ status }) => status))).toEqual(new Set([200]));
  });

  it("finds a used key modified for If-None-Match, but unchanged for If-Match", async () => {
    const { key, accountId } = await makeTenant();
    const other = await makeKey(accountId);
    const path = `/api/v1/keys/${other.keyId}`;
    const etag = (await call("GET", path, { key })).headers.get("ETag") ?? "";
    await call("GET", "/api/v1/me", { key: other.key });
    await vi.waitFor(async () => expect((await call("GET", path, { key, "If-None-Match": etag })).status).toBe(200), logDelay);
    expect((await call("PATCH", path, { key, body: { name: "y" }, "If-Match": etag })).status).toBe(200);
    expect((await call("PATCH", path, { key, body: { name: "z" }, "If-Match": etag })).status).toBe(412);
  });
});
