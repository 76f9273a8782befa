import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import document from "../../../public/api/v1/openapi.json";
import { type JsonObject, resolve } from "../../../src/api/openapi/document.ts";
import { serversOf } from "../../../src/api/openapi/servers.ts";
import { email } from "../../../src/lib/inputs/values.ts";
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

describe("An email address", () => {
  it.each([
    ...["ada@example.com", "a*b!c@example.com", "o'hara+tag@sub.example.co", "x@a1.b2"],
    ...["ada@xn--e1afmkfd.xn--p1ai", "ada@пример.рф", "ada@例え.テスト", "почта@example.com"],
  ])("like %s is accepted", (address) => {
    expect(email.parse(address)).toBe(address);
    expect(new RegExp(property("NewUser", "email").pattern ?? "never^").test(address)).toBe(true);
  });

  it.each([
    ...["ada", "ada@", "@example.com", "a@b", "a b@example.com", "a@exa mple.com", ".a@example.com", "a..b@example.com"],
    ...["a@-x.com", "a@x..com", "a@x.com.", "a\0@x.com", `${"a".repeat(250)}@x.com`, "a@[127.0.0.1]"],
  ])("like %j is rejected", (address) => {
    expect(email.safeParse(address).success).toBe(false);
  });
});

describe("An error response", () => {
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
