import { describe, expect, it } from "vitest";
import { call, makeKey, makeTenant } from "../support/client.ts";

const limitHeaders = [
  "RateLimit-Policy",
  "RateLimit",
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "X-RateLimit-Used",
  "X-RateLimit-Reset",
];

describe("Every answer of the API", () => {
  it("has its headers, in every case", async () => {
    const { key } = await makeTenant();
    const answers = [
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
    for (const { headers } of answers) {
      expect(headers.get("X-Request-Id")).toMatch(/^req_[0-9a-f]{32}$/);
      expect(headers.get("Content-Security-Policy")).toBe("default-src 'none'; frame-ancestors 'none'");
      expect(headers.get("X-Content-Type-Options")).toBe("nosniff");
      expect(headers.get("Strict-Transport-Security")).toContain("max-age=");
      expect(headers.get("Access-Control-Allow-Origin")).toBe("*");
      expect(headers.get("Access-Control-Allow-Credentials")).toBeNull();
      expect(headers.get("Cache-Control")).toBe(headers.has("ETag") ? "private, no-cache" : "no-store");
    }
  });

  it("exposes its headers to browsers and answers their preflight without a key", async () => {
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

  it("lets a browser send every header that it asks for, and echoes nothing that is no name of a header", async () => {
    const ask = async (asked: string) =>
      (
        await call("OPTIONS", "/api/v1/tasks", { "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": asked })
      ).headers.get("Access-Control-Allow-Headers");
    const traced = "authorization,baggage,cache-control,content-type,traceparent,x-requested-with";
    expect(await ask(traced)).toBe(traced);
    expect(await ask("X-Own , x-other,,a b,<b>,é,x:y,*")).toBe("X-Own,x-other,*");
    expect((await ask(Array.from({ length: 5000 }, (_, n) => `x-${n}`).join(",")))?.length).toBeLessThanOrEqual(4096);
  });

  it("may be read by a page of another origin, as may what clients read beside the API", async () => {
    for (const path of ["/health", "/llms.txt", "/.well-known/api-catalog"]) {
      const answer = await call("GET", path, { Origin: "https://app.example", "Sec-Fetch-Site": "cross-site" });
      expect([answer.status, answer.headers.get("Access-Control-Allow-Origin")], path).toEqual([200, "*"]);
      expect(answer.headers.has("Access-Control-Allow-Credentials")).toBe(false);
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

  it("shows the limit whenever a key was recognised, refused or not", async () => {
    const { key, accountId } = await makeTenant();
    const { key: bare, keyId } = await makeKey(accountId, { scopes: [] });
    const [forbidden] = [await call("GET", "/api/v1/users", { key: bare })];
    await call("DELETE", `/api/v1/keys/${keyId}`, { key });
    for (const { headers } of [forbidden, await call("GET", "/api/v1/me", { key: bare }), await call("GET", "/api/v1/none", { key })]) {
      for (const name of limitHeaders) expect(headers.has(name), name).toBe(true);
    }
  });

  it("has the headers of its own, and none of those before it", async () => {
    const { key } = await makeTenant();
    const { headers: made } = await call("POST", "/api/v1/tasks", { key, body: { title: "x" } });
    await call("POST", "/api/v1/tasks", { key, body: { title: "y" } });
    const { headers: read } = await call("GET", made.get("Location") ?? "", { key });
    const { headers: page } = await call("GET", "/api/v1/tasks?limit=1", { key });
    const { headers: refused } = await call("DELETE", "/api/v1/tasks", { key });
    const { headers: forged } = await call("GET", "/api/v1/me", { key: `${key}x` });
    const own = [made.has("Location"), read.has("ETag"), page.has("Link"), refused.has("Allow"), forged.has("WWW-Authenticate")];
    expect(own).toEqual([true, true, true, true, true]);
    const [plain, missing, keyless] = [
      await call("GET", "/api/v1/me", { key }),
      await call("GET", "/api/v1/nothing", { key }),
      await call("DELETE", "/api/v1/keys/revoke-leaked"),
    ];
    for (const { headers } of [plain, missing])
      for (const name of ["Location", "ETag", "Link", "Allow", "WWW-Authenticate", "Retry-After", "Idempotent-Replayed"])
        expect(headers.has(name), name).toBe(false);
    expect([plain.headers.get("Cache-Control"), plain.headers.get("Content-Type")]).toEqual(["no-store", "application/json"]);
    expect(keyless.headers.has("RateLimit")).toBe(false);
  });
});

describe("Routes", () => {
  it("that are not there need a key too", async () => {
    const { key } = await makeTenant();
    for (const path of ["/api/v1", "/api/v1/", "/api/v1/users/", "/api/v1/users//", "/api/v1/nothing", "/api/v1/users/usr_1/more"]) {
      expect((await call("GET", path)).body.code, path).toBe("missing_key");
      expect((await call("GET", path, { key })).body.code, path).toBe("not_found");
    }
  });

  it.each([
    ["PUT", "/users", "GET, HEAD, POST"],
    ["DELETE", "/users", "GET, HEAD, POST"],
    ["POST", "/users/usr_1", "GET, HEAD, PATCH, DELETE"],
    ["POST", "/me", "GET, HEAD"],
    ["GET", "/keys/key_1/rotate", "POST"],
    ["HEAD", "/keys/key_1/rotate", "POST"],
    ["PROPFIND", "/tasks", "GET, HEAD, POST"],
    ["DELETE", "/keys/revoke-leaked", "POST"],
    ["HEAD", "/keys/revoke-leaked", "POST"],
  ])("do not take %s %s", async (method, path, allowed) => {
    const { key } = await makeTenant();
    const answer = await call(method, `/api/v1${path}`, { key });
    expect([answer.status, answer.headers.get("Allow")]).toEqual([405, allowed]);
    if (method !== "HEAD") expect(answer.body.code).toBe("method_not_allowed");
  });

  it.each([
    ["/users", "GET, HEAD, POST"],
    ["/users/usr_1", "GET, HEAD, PATCH, DELETE"],
    ["/me", "GET, HEAD"],
    ["/keys/key_1/rotate", "POST"],
    ["/keys/revoke-leaked", "POST"],
    ["/webhooks/whk_1/deliveries", "GET, HEAD"],
    ["/openapi.json", "GET, HEAD"],
  ])("say what they take to OPTIONS, without a key: %s", async (path, allowed) => {
    const { status, text, headers } = await call("OPTIONS", `/api/v1${path}`);
    expect([status, text, headers.get("Allow"), headers.get("Access-Control-Allow-Methods")]).toEqual([204, "", allowed, allowed]);
  });

  it("that are not there answer 404 to OPTIONS, without a key and with one, and none of it is counted", async () => {
    const { key } = await makeTenant();
    for (const path of ["/api", "/api/v1", "/api/v1/nothing", "/api/v1/users/", "/api/v1/users/usr_1/more", "/api/v2/users"])
      for (const sent of [{}, { key }, { Origin: "https://app.example", "Access-Control-Request-Method": "GET" }]) {
        const { status, body, headers } = await call("OPTIONS", path, sent);
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

  it("answer HEAD as GET, without a body", async () => {
    const { key } = await makeTenant();
    for (const path of ["/api/v1/users", "/api/v1/me", "/api/v1/nothing"]) {
      const [get, head] = [await call("GET", path, { key }), await call("HEAD", path, { key })];
      expect([head.status, head.text, head.headers.get("Content-Type")]).toEqual([get.status, "", get.headers.get("Content-Type")]);
      expect(head.headers.has("X-RateLimit-Used")).toBe(true);
    }
  });
});

describe("The key", () => {
  it.each([
    ["Basic abc", "missing_key"],
    ["Bearer", "missing_key"],
    ["dvo_x", "missing_key"],
    ["bearer x y", "invalid_key"],
    ["Bearer dvo_", "invalid_key"],
    ["Bearer  ", "missing_key"],
    ["Bearer a b", "invalid_key"],
  ])("is not read from %j", async (authorization, code) => {
    const answer = await call("GET", "/api/v1/me", { Authorization: authorization });
    expect([answer.status, answer.body.code]).toEqual([401, code]);
  });

  it.each([
    ["GET", "/api/v1/me"],
    ["GET", "/api/v1/m%65"],
    ["HEAD", "/api/v1/me"],
    ["PUT", "/api/v1/me"],
    ["GET", "/api/v1/tasks/:id"],
    ["GET", "/api/v1/none"],
  ])("is refused in the same way where it is made up, at %s %s", async (method, path) => {
    const { status, headers, body } = await call(method, path, { key: "dvo_made_up" });
    expect([status, headers.get("WWW-Authenticate")]).toEqual([401, 'Bearer realm="api", error="invalid_token"']);
    expect(headers.get("Content-Type")).toBe("application/problem+json");
    expect(headers.get("X-Request-Id")).toMatch(/^req_/);
    if (method !== "HEAD") expect([body.code, body.instance]).toEqual(["invalid_key", path]);
  });

  it("is taken from nowhere but its header, whose scheme has no case", async () => {
    const { key } = await makeTenant();
    expect((await call("GET", `/api/v1/me?api_key=${key}`)).body.code).toBe("missing_key");
    expect((await call("GET", "/api/v1/me", { Cookie: `key=${key}`, "X-API-Key": key })).body.code).toBe("missing_key");
    expect((await call("GET", "/api/v1/me", { Authorization: `bearer ${key}` })).status).toBe(200);
  });
});

describe("Conditional requests", () => {
  const makeUser = (key: string) => call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } });

  it("save the body of what the client has", async () => {
    const { key } = await makeTenant();
    const { headers } = await makeUser(key);
    const path = headers.get("Location") ?? "";
    const etag = (await call("GET", path, { key })).headers.get("ETag") ?? "";
    expect(etag).toMatch(/^"[^"]+"$/);
    expect(headers.get("ETag")).toBe(etag);
    for (const known of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
      const answer = await call("GET", path, { key, "If-None-Match": known });
      expect([answer.status, answer.text, answer.headers.get("ETag"), answer.headers.get("Cache-Control")]).toEqual([
        304,
        "",
        etag,
        "private, no-cache",
      ]);
    }
    expect((await call("GET", path, { key, "If-None-Match": '"other"' })).status).toBe(200);
    expect((await call("GET", path, { key, "If-Match": etag })).status).toBe(200);
    expect((await call("GET", path, { key, "If-Match": '"other"' })).status).toBe(412);
  });

  it("change and delete only the version that the client has seen", async () => {
    const { key } = await makeTenant();
    const made = await makeUser(key);
    const [path, etag] = [made.headers.get("Location") ?? "", made.headers.get("ETag") ?? ""];
    const changed = await call("PATCH", path, { key, body: { name: "Bob" }, "If-Match": etag });
    expect([changed.status, changed.headers.get("ETag") === etag]).toEqual([200, false]);
    for (const [method, body] of [
      ["PATCH", { name: "Eve" }],
      ["DELETE", undefined],
    ] as const) {
      for (const stale of [etag, `W/${etag}`]) {
        const answer = await call(method, path, { key, body, "If-Match": stale });
        expect([answer.status, answer.body.code]).toEqual([412, "precondition_failed"]);
      }
      expect((await call(method, path, { key, body, "If-Match": `${changed.headers.get("ETag")?.slice(0, -1)}.bogus"` })).status).toBe(412);
      const bad = await call(method, path, { key, body, "If-Match": "no-quotes" });
      expect([bad.status, bad.body.code, bad.body.errors[0].header]).toEqual([400, "invalid_header", "If-Match"]);
    }
    expect((await call("DELETE", path, { key, "If-Match": changed.headers.get("ETag") })).status).toBe(204);
    expect((await call("DELETE", path, { key, "If-Match": etag })).status).toBe(404);
  });

  it("count a 304 against the limit like any other response", async () => {
    const { key } = await makeTenant();
    const { headers } = await makeUser(key);
    const known = await call("GET", headers.get("Location") ?? "", { key, "If-None-Match": headers.get("ETag") });
    expect([known.status, known.headers.get("X-RateLimit-Used")]).toEqual([304, "2"]);
  });

  describe.each<[string, string, object, object]>([
    ["a user", "/users", { name: "Ada", email: "ada@example.com" }, { name: "Bob" }],
    ["a task", "/tasks", { title: "x" }, { title: "y" }],
    ["a key", "/keys", { name: "x" }, { name: "y" }],
    ["a webhook", "/webhooks", { url: "https://hooks.acme.dev/", event_types: ["*"] }, { description: "y" }],
  ])("of %s", (_, list, content, patch) => {
    const make = async () => {
      const { key } = await makeTenant();
      const { headers } = await call("POST", `/api/v1${list}`, { key, body: content });
      return { key, path: headers.get("Location") ?? "", etag: headers.get("ETag") ?? "" };
    };

    it("take the weak form of the tag, into which proxies turn it", async () => {
      const { key, path, etag } = await make();
      const changed = await call("PATCH", path, { key, body: patch, "If-Match": `W/${etag}` });
      expect(changed.status).toBe(200);
      expect((await call("GET", path, { key, "If-Match": `W/${changed.headers.get("ETag")}` })).status).toBe(200);
      expect((await call("DELETE", path, { key, "If-Match": `W/${etag}` })).body.code).toBe("precondition_failed");
      expect((await call("DELETE", path, { key, "If-Match": `"other", W/${changed.headers.get("ETag")}` })).status).toBe(204);
    });

    it("change and delete nothing if If-None-Match names the version, or any", async () => {
      const { key, path, etag } = await make();
      const before = (await call("GET", path, { key })).text;
      for (const [method, body] of [
        ["PATCH", patch],
        ["DELETE", undefined],
      ] as const) {
        for (const excluded of ["*", etag, `W/${etag}`, `"other", ${etag}`]) {
          const refused = await call(method, path, { key, body, "If-None-Match": excluded });
          expect([refused.status, refused.body.code], `${method} ${excluded}`).toEqual([412, "precondition_failed"]);
        }
        const both = await call(method, path, { key, body, "If-Match": etag, "If-None-Match": etag });
        expect(both.body.code).toBe("precondition_failed");
        const bad = await call(method, path, { key, body, "If-None-Match": "no-quotes" });
        expect([bad.status, bad.body.errors[0].header]).toEqual([400, "If-None-Match"]);
      }
      expect((await call("GET", path, { key })).text).toBe(before);
      expect((await call("PATCH", path, { key, body: patch, "If-None-Match": '"other"' })).status).toBe(200);
      expect((await call("DELETE", path, { key, "If-Match": "*", "If-None-Match": etag })).status).toBe(204);
    });
  });

  it("let one of many changes at once through that name the same version; without one, all", async () => {
    const { key } = await makeTenant();
    const made = await call("POST", "/api/v1/tasks", { key, body: { title: "x" } });
    const patch = (n: number, headers: Record<string, string>) =>
      call("PATCH", `/api/v1/tasks/${made.body.id}`, { key, body: { title: `t${n}` }, ...headers });
    const racing = await Promise.all([1, 2, 3, 4, 5].map((n) => patch(n, { "If-Match": made.headers.get("ETag") ?? "" })));
    expect(racing.map(({ status }) => status).toSorted()).toEqual([200, 412, 412, 412, 412]);
    const all = await Promise.all(Array.from({ length: 20 }, (_, n) => patch(n, {})));
    expect(new Set(all.map(({ status }) => status))).toEqual(new Set([200]));
  });

  it("see a key that was used meanwhile as changed, but not as changed by another", async () => {
    const { key, accountId } = await makeTenant();
    const other = await makeKey(accountId);
    const path = `/api/v1/keys/${other.keyId}`;
    const etag = (await call("GET", path, { key })).headers.get("ETag") ?? "";
    await call("GET", "/api/v1/me", { key: other.key });
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect((await call("GET", path, { key, "If-None-Match": etag })).status).toBe(200);
    expect((await call("PATCH", path, { key, body: { name: "y" }, "If-Match": etag })).status).toBe(200);
    expect((await call("PATCH", path, { key, body: { name: "z" }, "If-Match": etag })).status).toBe(412);
  });
});
