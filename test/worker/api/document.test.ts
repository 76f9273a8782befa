import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import document from "../../../public/api/v1/openapi.json";
import { type JsonObject, resolve } from "../../../src/api/openapi/document.ts";
import { serversOf } from "../../../src/api/openapi/servers.ts";
import { call, makeTenant } from "../support/client.ts";
import { register } from "../support/receiver.ts";

// These tests compare the OpenAPI document with the service. The document must describe every rule that the service enforces, and the
// service must enforce every rule of the document.

interface Property {
  type?: string | string[];
  format?: string;
  pattern?: string;
  maxItems?: number;
  minLength?: number;
  maxLength?: number;
}
const { schemas } = document.components as unknown as { schemas: Record<string, { properties: Record<string, Property> }> };
const property = (schema: string, name: string): Property => schemas[schema]?.properties[name] ?? {};

/** Returns a part of the document. If the part is a reference, returns the part to which the reference points. */
function resolved<Part>(part: Part): Part {
  const { $ref } = (part ?? {}) as { $ref?: string };
  return $ref === undefined ? part : (resolve(document as unknown as JsonObject, $ref) as Part);
}

describe("The OpenAPI document", () => {
  it("declares the fields that can be null", () => {
    for (const [schema, name] of [
      ["NewTask", "due_at"],
      ["TaskPatch", "due_at"],
      ["KeyPatch", "allowed_ips"],
      ["KeyPatch", "expires_at"],
      ["NewKey", "expires_at"],
    ] as const)
      expect(property(schema, name).type, `${schema}.${name}`).toContain("null");
    expect(property("NewKey", "allowed_ips").type).toBe("array");
  });

  it("declares the maximum number of IP addresses in an allowlist, which the service enforces", async () => {
    for (const schema of ["NewKey", "KeyPatch"]) expect(property(schema, "allowed_ips").maxItems).toBe(100);
    const { key } = await makeTenant();
    const ips = (count: number) => Array.from({ length: count }, (_, index) => `203.0.${index}.1`);
    expect((await call("POST", "/api/v1/keys", { key, body: { name: "x", allowed_ips: ips(100) } })).status).toBe(201);
    expect((await call("POST", "/api/v1/keys", { key, body: { name: "x", allowed_ips: ips(101) } })).status).toBe(422);
  });

  it("declares patterns of headers, and the service accepts exactly the values that match", async () => {
    const { key } = await makeTenant();
    const parameters = Object.values(document.paths).flatMap((item) =>
      Object.values(item).flatMap((operation) =>
        "parameters" in operation ? (operation.parameters as { name: string; schema: Property }[]).map(resolved) : [],
      ),
    );
    const patternOf = (name: string) => new RegExp(parameters.find((each) => each.name === name)?.schema.pattern ?? "never^");
    const createTask = (value: string) => call("POST", "/api/v1/tasks", { key, body: { title: "x" }, "Idempotency-Key": value });
    const readUser = (value: string) => call("GET", "/api/v1/users/usr_1", { key, "If-None-Match": value });
    for (const value of ["a", "a b", "~", "x".repeat(255), "x".repeat(256), "é"])
      expect((await createTask(value)).status === 201, value).toBe(patternOf("Idempotency-Key").test(value));
    for (const value of ['"a"', 'W/"a"', '"a", W/"b"', "*", '""', "a", '"a', '"a" "b"', "**", '"a",'])
      expect((await readUser(value)).status === 404, value).toBe(patternOf("If-None-Match").test(value));
    expect(patternOf("If-Match").source).toBe(patternOf("If-None-Match").source);
  });

  it("declares patterns of texts and URLs, and the service rejects values that do not match", async () => {
    const { key } = await makeTenant();
    for (const [schema, name, path, body] of [
      ["NewTask", "title", "/tasks", {}],
      ["NewUser", "name", "/users", { email: "ada@example.com" }],
      ["NewKey", "name", "/keys", {}],
    ] as const) {
      const { pattern = "", minLength } = property(schema, name);
      expect(minLength).toBe(1);
      for (const value of ["", " ", "\t\n", "a\0", "\0"]) {
        expect(new RegExp(pattern).test(value), JSON.stringify(value)).toBe(false);
        expect((await call("POST", `/api/v1${path}`, { key, body: { ...body, [name]: value } })).status).toBe(422);
      }
      // A title can have several lines, but a name cannot.
      expect(new RegExp(pattern).test(" a\n")).toBe(schema === "NewTask");
      expect(new RegExp(pattern).test(" a")).toBe(true);
    }
    const { pattern = "", maxLength } = property("NewWebhook", "url");
    expect(maxLength).toBe(2048);
    for (const url of ["ftp://hooks.acme.dev/", "hooks.acme.dev", "https:/hooks.acme.dev", "https://", "//hooks.acme.dev"]) {
      expect(new RegExp(pattern).test(url), url).toBe(false);
      expect((await call("POST", "/api/v1/webhooks", { key, body: { url, event_types: ["*"] } })).status).toBe(422);
    }
    expect(new RegExp(pattern).test("https://hooks.acme.dev/x")).toBe(true);
  });

  it("declares the filters that accept several values as lists, with a repeated parameter", () => {
    const filters = Object.entries(document.paths).flatMap(([path, item]) => {
      const { parameters = [] } = (item as { get?: { parameters?: { name: string; schema: Property; explode?: boolean }[] } }).get ?? {};
      return parameters.map(resolved).map((parameter) => ({ ...parameter, filter: `${path.slice("/api/v1".length)} ${parameter.name}` }));
    });
    const listFilters = filters.filter(({ schema }) => schema.type === "array");
    expect(listFilters.map(({ filter }) => filter)).toEqual(
      expect.arrayContaining([
        "/activity status",
        "/events type",
        "/keys status",
        "/tasks priority",
        "/tasks status",
        "/users role",
        "/users status",
        "/webhooks/{id}/deliveries event_type",
        "/webhooks/{id}/deliveries status",
      ]),
    );
    const enumFilters = filters.filter(({ name }) => ["status", "type", "event_type", "role", "priority"].includes(name));
    expect(enumFilters).toEqual(listFilters);
    expect(listFilters.every(({ explode }) => explode === true)).toBe(true);
  });

  it("documents the headers of each response", () => {
    const headersOf = (path: string, method: string, status: string) => {
      const operations = (document.paths as unknown as Record<string, Record<string, { responses: Record<string, { headers: object }> }>>)[
        path
      ];
      return Object.keys(resolved(operations?.[method]?.responses[status])?.headers ?? {});
    };
    for (const status of ["200", "304", "400", "401", "403", "404", "412", "429", "500", "503"])
      for (const name of ["X-Request-Id", "RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Reset"])
        expect(headersOf("/api/v1/tasks/{id}", "get", status), `${status} ${name}`).toContain(name);
    expect(headersOf("/api/v1/tasks/{id}", "get", "304")).toContain("ETag");
    expect(headersOf("/api/v1/tasks", "post", "201")).toContain("Idempotent-Replayed");
    expect(headersOf("/api/v1/tasks", "post", "409")).toContain("Retry-After");
    expect(headersOf("/api/v1/tasks", "post", "403")).toContain("WWW-Authenticate");
    expect(headersOf("/api/v1/webhooks/{id}/test", "post", "202")).toContain("Location");
    for (const term of ["405", "method_not_allowed", "`Allow`"]) expect(document.info.description).toContain(term);
  });
});

describe("The servers in the OpenAPI document", () => {
  it("are the configured origins, in JSON and YAML, and the response has its own ETag", async () => {
    const origins = ["https://overview.acme.dev", "https://overview.acme.workers.dev:8443"];
    for (const [path, parseText] of [
      ["/api/v1/openapi.json", (text: string) => JSON.parse(text)],
      ["/api/v1/openapi.yaml", (text: string) => parse(text)],
    ] as const) {
      const { status, text, headers } = await call("GET", path, {});
      const { servers, ...rest } = parseText(text) as { servers: { url: string }[]; paths: object };
      expect([status, servers.map(({ url }) => url)]).toEqual([200, origins]);
      for (const name of Object.keys(rest.paths)) expect(decodeURI(new URL(origins[0] + name).pathname)).toBe(name);
      expect({ ...rest, servers: document.servers }).toEqual(document);
      expect((await call("GET", path, { "If-None-Match": headers.get("ETag") })).status).toBe(304);
    }
  });

  it("are the origin of the request if none is configured, and never contain a path", () => {
    expect(serversOf("", "http://localhost:8790").map(({ url }) => url)).toEqual(["http://localhost:8790"]);
    expect(serversOf(" https://a.example/ ,https://b.example/overview", "x").map(({ url }) => url)).toEqual([
      "https://a.example",
      "https://b.example",
    ]);
  });
});

describe("The schema of an event", () => {
  it("uses only keywords of JSON Schema 2020-12", async () => {
    const { key } = await makeTenant();
    const { body } = await call("GET", "/api/v1/event-types", { key });
    const knownKeywords = new Set(
      "$schema type properties required additionalProperties items anyOf enum const examples description format pattern minimum maximum".split(
        " ",
      ),
    );
    const unknownKeywords = new Set<string>();
    const walk = (schema: Record<string, unknown>): void => {
      for (const keyword of Object.keys(schema)) if (!knownKeywords.has(keyword)) unknownKeywords.add(keyword);
      for (const child of Object.values((schema.properties as object) ?? {})) walk(child);
      if (schema.items) walk(schema.items as Record<string, unknown>);
      for (const child of (schema.anyOf as Record<string, unknown>[]) ?? []) walk(child);
    };
    for (const { schema } of body.data) walk(schema);
    expect([...unknownKeywords]).toEqual([]);
    expect(body.data[0].schema.$schema).toBe("https://json-schema.org/draft/2020-12/schema");
    expect(JSON.stringify(body.data)).toContain('"examples"');
  });
});

describe("An email address", () => {
  it.each([
    "ada@example.com",
    "ada@xn--e1afmkfd.xn--p1ai",
    "ada@пример.рф",
    "ada@例え.テスト",
    "a*b!c@example.com",
    "o'hara+tag@sub.example.co",
    "почта@example.com",
    "x@a1.b2",
  ])("like %s is accepted", async (email) => {
    const { key } = await makeTenant();
    const { status, body } = await call("POST", "/api/v1/users", { key, body: { name: "Ada", email } });
    expect([status, body.email]).toEqual([201, email]);
    expect(new RegExp(property("NewUser", "email").pattern ?? "never^").test(email)).toBe(true);
  });

  it.each([
    "ada",
    "ada@",
    "@example.com",
    "a@b",
    "a b@example.com",
    "a@exa mple.com",
    ".a@example.com",
    "a..b@example.com",
    "a@-x.com",
    "a@x..com",
    "a@x.com.",
    "a\0@x.com",
    `${"a".repeat(250)}@x.com`,
    "a@[127.0.0.1]",
  ])("like %j is rejected", async (email) => {
    const { key } = await makeTenant();
    const { status, body } = await call("POST", "/api/v1/users", { key, body: { name: "Ada", email } });
    expect([status, body.errors?.[0].pointer]).toEqual([422, "/email"]);
  });
});

describe("An error response", () => {
  const readDetails = async (method: string, path: string, body?: unknown) => {
    const { key } = await makeTenant();
    const answer = await call(method, `/api/v1${path}`, { key, body });
    return (answer.body.errors ?? []).map(({ detail }: { detail: string }) => detail).join(" ");
  };

  it.each([
    ["GET", "/users?limit=1&limit=2", undefined, "Must be a string, given once."],
    ["GET", "/users?role=owner", undefined, "Must be one of admin, member, viewer."],
    ["POST", "/webhooks", { url: "ftp://hooks.acme.dev/", event_types: ["*"] }, "The URL must begin with https://."],
    ["POST", "/tasks", {}, "This is required."],
    ["POST", "/tasks", { title: 7 }, "Must be a string."],
    ["POST", "/tasks", { title: "x", labels: "a" }, "Must be a list."],
    ["POST", "/tasks", { title: "x", labels: Array(21).fill("a") }, "Must have at most 20 items."],
    ["POST", "/keys", { name: "x", hourly_limit: 0 }, "Must be at least 1."],
    ["POST", "/keys", { name: "x", hourly_limit: 1.5 }, "Must be a whole number."],
    ["POST", "/keys", { name: "x", hourly_limit: "1" }, "Must be a number."],
    ["POST", "/tasks", [], "Must be an object."],
  ] as const)("to %s %s %j explains the problem in plain words", async (method, path, body, details) => {
    expect(await readDetails(method, path, body)).toBe(details);
  });

  it("names the query parameter that is not valid UTF-8", async () => {
    const { key } = await makeTenant();
    for (const [path, parameter] of [
      ["/users?q=%ff", "q"],
      ["/users?q=%", "q"],
      ["/users?limit=5&q=%C3%28", "q"],
      ["/me?%ff=1", "\ufffd"],
    ] as const) {
      const { status, body } = await call("GET", `/api/v1${path}`, { key });
      expect([status, body.code, body.errors?.[0].parameter], path).toEqual([400, "invalid_parameter", parameter]);
    }
    expect((await call("GET", "/api/v1/users?q=%C3%A9+%2B", { key })).status).toBe(200);
  });
});

describe("The API", () => {
  it("accepts times with lowercase letters", async () => {
    const { key } = await makeTenant();
    const { status, body } = await call("POST", "/api/v1/tasks", { key, body: { title: "x", due_at: "2027-01-01t00:00:00z" } });
    expect([status, body.due_at]).toEqual([201, "2027-01-01T00:00:00.000Z"]);
    expect((await call("GET", "/api/v1/tasks?due_before=2027-01-01t00:00:01z", { key })).body.data).toHaveLength(1);
  });

  it("rejects JSON bodies with a charset other than UTF-8", async () => {
    const { key } = await makeTenant();
    const post = (type: string) => call("POST", "/api/v1/tasks", { key, body: '{"title":"x"}', "Content-Type": type });
    for (const charset of ["utf-8", "UTF-8", '"utf-8"', "utf8"])
      expect((await post(`application/json; charset=${charset}`)).status).toBe(201);
    for (const charset of ["iso-8859-1", "utf-16", '"latin1"'])
      expect((await post(`application/json; charset=${charset}`)).body.code, charset).toBe("unsupported_media_type");
  });

  it("returns the same error for an unknown key and for a key of another account, in every filter by key", async () => {
    const [{ key }, foreign] = [await makeTenant(), await makeTenant()];
    for (const keyId of ["key_0123456789abcdef", foreign.keyId, "none"])
      for (const path of ["/usage?", "/usage/breakdown?by=route&", "/activity?"])
        expect((await call("GET", `/api/v1${path}key_id=${keyId}`, { key })).body.code, path).toBe("not_found");
  });

  it("returns the location of a test, a redelivery and a bulk redelivery with status 202", async () => {
    const tenant = await makeTenant();
    const { key } = tenant;
    const { id } = await register(key);
    const post = (path: string, body: unknown) => call("POST", `/api/v1${path}`, { key, body });
    const tested = await post(`/webhooks/${id}/test`, {});
    const redelivered = await post(`/deliveries/${tested.body.delivery_id}/redeliver`, {});
    const bulk = await post(`/webhooks/${id}/redeliver`, { from: "2026-01-31T09:30:00Z" });
    for (const [answer, createdId] of [
      [tested, tested.body.delivery_id],
      [redelivered, redelivered.body.id],
      [bulk, bulk.body.id],
    ] as const) {
      expect(answer.status).toBe(202);
      const { status, body } = await call("GET", answer.headers.get("Location") ?? "", { key });
      expect([status, body.id]).toEqual([200, createdId]);
    }
  });
});
