import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { createApp } from "../../../src/app.ts";
import { isForwarded, suffixIn } from "../../../src/verification/forward.ts";
import { makeKey, makeTenant, origin, within2s } from "../support/client.ts";
import { forward, makeToken, usedOf, verifiedEntries } from "../support/team.ts";

const bearer = (key: string) => ({ Authorization: `Bearer ${key}` });

describe("Forward auth", () => {
  it.each([
    ["nginx", { "X-Original-Method": "POST", "X-Original-URI": "/orders/7?x=1", "X-Real-IP": "203.0.113.9" }, "", "GET"],
    ["Caddy", { "X-Forwarded-Method": "POST", "X-Forwarded-Uri": "/orders/7?x=1", "X-Real-IP": "203.0.113.9" }, "", "GET"],
    [
      "Traefik",
      { "X-Forwarded-Method": "POST", "X-Forwarded-Uri": "/orders/7?x=1", "X-Forwarded-For": "1.1.1.1", "X-Real-IP": "203.0.113.9" },
      "",
      "GET",
    ],
    ["Envoy", { "X-Real-IP": "203.0.113.9" }, "/orders/7?x=1", "POST"],
  ])("decides about the request that %s has received", async (_, headers, suffix, method) => {
    const tenant = await makeTenant({ hourlyLimit: 10 });
    const token = await makeToken(["verify"]);
    const sent = { ...headers, ...bearer(tenant.key), "X-Service-Token": token } as unknown as Record<string, string>;
    const { status, headers: answered, text } = await forward(suffix, sent, method);
    expect([status, text]).toEqual([200, ""]);
    expect(answered.get("X-Verified-Account")).toBe(tenant.accountId);
    expect(answered.get("X-Verified-Key")).toBe(tenant.keyId);
    expect(answered.get("X-Verified-External-Id")).toBe("-");
    expect(answered.get("X-Verified-Receipt")).toBe("-");
    expect(answered.get("X-Verified-Scopes")).toContain("users:read");
    expect(answered.get("X-RateLimit-Remaining")).toBe("9");
    const [entry] = await within2s(
      () => verifiedEntries(tenant),
      (found) => found.length === 1,
    );
    expect(entry).toMatchObject({ method: "POST", path: "/orders/7", ip: "203.0.113.9", status: null });
  });

  it("gives a receipt only if it is asked for one", async () => {
    const { key } = await makeTenant();
    const token = await makeToken(["verify"]);
    const { headers } = await forward("?report=1", { ...bearer(key), "X-Service-Token": token });
    expect(headers.get("X-Verified-Receipt")?.length).toBeGreaterThan(20);
  });

  it.each([
    ["an X-API-Key header", (key: string): Record<string, string> => ({ "X-API-Key": key })],
    ["the user of Basic", (key: string): Record<string, string> => ({ Authorization: `Basic ${btoa(`${key}:`)}` })],
    ["the password of Basic", (key: string): Record<string, string> => ({ Authorization: `Basic ${btoa(`me:${key}`)}` })],
    ["the same key twice", (key: string): Record<string, string> => ({ Authorization: `Bearer ${key}`, "X-API-Key": key })],
  ])("finds the key in %s", async (_, headersOf) => {
    const { key } = await makeTenant();
    const token = await makeToken(["verify"]);
    expect((await forward("", { ...headersOf(key), "X-Service-Token": token })).status).toBe(200);
  });

  it("denies a request with two different credentials with 400", async () => {
    const [one, other] = [await makeTenant(), await makeTenant()];
    const token = await makeToken(["verify"]);
    const answer = await forward("", { ...bearer(one.key), "X-API-Key": other.key, "X-Service-Token": token });
    expect([answer.status, answer.body.code]).toEqual([400, "invalid_header"]);
  });

  it("does not find a key in the query of the request", async () => {
    const tenant = await makeTenant();
    const token = await makeToken(["verify"]);
    const answer = await forward("", { "X-Original-URI": `/orders?key=${tenant.key}`, "X-Service-Token": token });
    expect([answer.status, answer.body.code]).toEqual([401, "missing_key"]);
    expect(JSON.stringify([answer.text, ...answer.headers])).not.toContain(tenant.key.slice(21));
  });

  it.each([
    ["no service token", {}],
    ["an unknown service token", { "X-Service-Token": "svc_0000000000000000_00000000000000000000000000000000a0000000" }],
    ["an operator's Authorization header alone", { Authorization: "Bearer dvop_token-of-the-tests" }],
  ])("returns 401 for %s, and says nothing about the key", async (_, headers) => {
    const { key } = await makeTenant();
    const answer = await forward("", { ...bearer(key), ...(headers as Record<string, string>) });
    expect([answer.status, answer.body.code]).toEqual([401, "invalid_token"]);
    expect(answer.headers.get("X-Verified-Key")).toBeNull();
    expect(answer.headers.get("RateLimit")).toBeNull();
  });

  it("returns 401, 403 and 429 with the headers and the problem", async () => {
    const tenant = await makeTenant({ hourlyLimit: 1, scopes: ["users:read"] });
    const token = await makeToken(["verify"]);
    const headers = { ...bearer(tenant.key), "X-Service-Token": token };
    const scoped = await forward("?scope=orders:write", headers);
    expect([scoped.status, scoped.body.code]).toEqual([403, "insufficient_scope"]);
    expect(scoped.headers.get("Content-Type")).toBe("application/problem+json");
    await forward("", headers);
    const limited = await forward("", headers);
    expect([limited.status, limited.body.code]).toEqual([429, "rate_limit_exceeded"]);
    expect(Number(limited.headers.get("Retry-After"))).toBeGreaterThan(0);
    const none = await forward("", { "X-Service-Token": token });
    expect([none.status, none.headers.get("WWW-Authenticate")]).toEqual([401, 'Bearer realm="api"']);
  });

  it("turns other denials into 403 for nginx, with the problem in a header", async () => {
    const tenant = await makeTenant({ hourlyLimit: 1 });
    const token = await makeToken(["verify"]);
    const headers = { ...bearer(tenant.key), "X-Service-Token": token, "X-Original-URI": "/é" };
    await forward("?deny=403", headers);
    const answer = await forward("?deny=403", headers);
    expect(answer.status).toBe(403);
    expect(JSON.parse(answer.headers.get("X-Verified-Problem") ?? "")).toMatchObject({ status: 429, code: "rate_limit_exceeded" });
    expect((await forward("?deny=403", { "X-Service-Token": token })).status).toBe(401);
  });

  it("lets requests without a credential and with an unknown one through only if the location says so", async () => {
    const { key } = await makeTenant();
    const token = { "X-Service-Token": await makeToken(["verify"]) };
    expect((await forward("?missing=pass", token)).status).toBe(200);
    const passed = await forward("?unknown=pass", { ...token, ...bearer("eyJhbGciOi.session.jwt") });
    expect([passed.status, passed.headers.get("X-Verified-Account")]).toEqual([200, "-"]);
    expect((await forward("?unknown=pass", token)).status).toBe(401);
    expect((await forward("?missing=pass", { ...token, ...bearer("eyJhbGciOi.session.jwt") })).status).toBe(401);
    expect((await forward("?unknown=pass", { ...token, ...bearer(`${key.slice(0, -1)}!`) })).status).toBe(401);
  });

  it("ignores options in the query that Envoy passes on from the client", async () => {
    const token = { "X-Service-Token": await makeToken(["verify"]) };
    expect((await forward("/orders?missing=pass", token)).status).toBe(401);
    expect((await forward("/orders?x=1", { ...token, "X-Verify-Options": "missing=pass" })).status).toBe(200);
  });

  it.each(["?other=1", "?deny=404", "?missing=yes", "?cost=0"])("rejects the options %s", async (query) => {
    const answer = await forward(query, { "X-Service-Token": await makeToken(["verify"]) });
    expect([answer.status, answer.body.code]).toEqual([400, "invalid_parameter"]);
  });

  it("takes the IP address from one header alone, never from X-Forwarded-For", async () => {
    const tenant = await makeTenant();
    const bound = await makeKey(tenant.accountId, { allowedIps: ["203.0.113.9"] });
    const headers = { ...bearer(bound.key), "X-Service-Token": await makeToken(["verify"]) };
    expect((await forward("", { ...headers, "X-Forwarded-For": "203.0.113.9" })).body.code).toBe("ip_not_allowed");
    expect((await forward("", { ...headers, "X-Real-IP": "203.0.113.9" })).status).toBe(200);
    expect(await usedOf(tenant)).toBe(0);
  });

  it.each([
    "/../forward?missing=pass",
    "/orders/%2e%2e/%2e%2e/forward?missing=pass&unknown=pass",
    "/orders\\..\\..\\forward?missing=pass",
    "/../../../../docs",
    "/orders\\..\\..\\..\\..\\..\\docs",
    "/./orders",
  ])("denies the path %s, with which a client behind Envoy could choose what decides about it", async (suffix) => {
    // `Request` would normalize the path, so the Worker is called with a URL as it arrives.
    const url = `${origin}/operator/api/verify/forward${suffix}`;
    expect(isForwarded(url)).toBe(true);
    expect(() => suffixIn(url)).toThrow("dot segments");
    const request = new Proxy(new Request(origin, { headers: { "X-Service-Token": await makeToken(["verify"]) } }), {
      get: (target, name) => {
        if (name === "url") return url;
        const value = Reflect.get(target, name) as unknown;
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
    const response = await createApp({ isLocal: true }).fetch(request, env, createExecutionContext());
    expect([response.status, ((await response.json()) as { code: string }).code]).toEqual([403, "forbidden"]);
  });

  it("denies a request of Envoy whose path was removed with its dot segments before it reached the Worker", async () => {
    const { key } = await makeTenant();
    const ofEnvoy = { "X-Service-Token": await makeToken(["verify"]), "X-Verify-Options": "scope=orders:read" };
    for (const query of ["", "?missing=pass", "?unknown=pass"]) {
      expect((await forward(query, ofEnvoy)).status).toBe(403);
      expect((await forward(query, { ...ofEnvoy, Authorization: `Bearer ${key}` })).status).toBe(403);
    }
  });

  it("does not take options from the header of a client behind a proxy with a fixed path", async () => {
    const token = { "X-Service-Token": await makeToken(["verify"]) };
    const ofClient = { ...token, "X-Verify-Options": "missing=pass" };
    for (const header of ["X-Forwarded-Uri", "X-Original-URI"])
      expect((await forward("", { ...ofClient, [header]: "/orders" })).status).toBe(401);
    expect((await forward("/?missing=pass", token)).status).toBe(400);
    expect((await forward("?scope=a&scope=b", token)).status).toBe(400);
    expect((await forward("?scope=a%0ab", token)).status).toBe(400);
  });

  it("logs the path that the proxy has overwritten, not the one that a client has added", async () => {
    const tenant = await makeTenant();
    const token = await makeToken(["verify"]);
    await forward("", {
      ...bearer(tenant.key),
      "X-Service-Token": token,
      "X-Forwarded-Method": "DELETE",
      "X-Forwarded-Uri": "/real",
      "X-Original-Method": "GET",
      "X-Original-URI": "/forged",
    });
    const [entry] = await within2s(
      () => verifiedEntries(tenant),
      (found) => found.length === 1,
    );
    expect(entry).toMatchObject({ method: "DELETE", path: "/real" });
  });
});
