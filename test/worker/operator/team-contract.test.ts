import { exports } from "cloudflare:workers";
import { beforeAll, describe, expect, it } from "vitest";
import document from "../../../public/api/team/openapi.json" with { type: "json" };
import { type JsonObject, operationsIn } from "../../../src/openapi/document.ts";
import { tokenScopes } from "../../../src/service-tokens/token.ts";
import { answerOf, origin } from "../support/client.ts";
import { operate } from "../support/operate.ts";
import { makeToken } from "../support/team.ts";

// Cases that are generated from the OpenAPI document of the team API, for each of its operations.

// Forward auth has its own way to send the token, and serves any method.
const ofForwardAuth = "forwardAuth";

const operations = operationsIn(document as unknown as JsonObject)
  .filter(({ operation }) => operation.operationId !== ofForwardAuth)
  .map(({ method, path, operation }) => ({
    name: `${method.toUpperCase()} ${path}`,
    method: method.toUpperCase(),
    path: path.replaceAll(/\{\w+\}/g, "none"),
    scope: Object.values((operation.security as Record<string, string[]>[])[0] ?? {})[0]?.[0],
    hasBody: operation.requestBody !== undefined,
    isBodyRequired: operation.requestBody?.required === true,
  }));

let every: string;
const without = new Map<string, string>();
beforeAll(async () => {
  every = await makeToken(tokenScopes.filter((scope) => scope !== "tokens:write"));
  for (const scope of tokenScopes) without.set(scope, await makeToken(tokenScopes.filter((each) => each !== scope)));
});

const send = async (
  method: string,
  path: string,
  { token, body, ...headers }: { token?: string; body?: string; [name: string]: string | undefined },
) =>
  answerOf(
    await exports.default.fetch(
      new Request(origin + path, {
        method,
        headers: { ...(token && { Authorization: `Bearer ${token}` }), ...(headers as Record<string, string>) },
        ...(body !== undefined && { body }),
      }),
    ),
  );

const tokenFor = (scope: string | undefined) => (scope === "tokens:write" ? without.get("verify") : every) ?? "";

describe.each(operations)("$name", ({ method, path, scope, hasBody, isBodyRequired }) => {
  it("needs a token", async () => {
    const answer = await send(method, path, { "Content-Type": "application/json", ...(hasBody && { body: "{}" }) });
    expect([answer.status, answer.body.code]).toEqual([401, "invalid_token"]);
  });

  it.runIf(scope)("needs its scope", async () => {
    const answer = await send(method, path, {
      token: without.get(scope ?? "") ?? "",
      "Content-Type": "application/json",
      ...(hasBody && { body: "{}" }),
    });
    expect([answer.status, answer.body.code]).toEqual([403, "insufficient_scope"]);
    expect(answer.headers.get("WWW-Authenticate")).toContain(`scope="${scope}"`);
  });

  it("rejects unknown query parameters", async () => {
    const answer = await send(method, `${path}?none=1`, {
      token: tokenFor(scope),
      "Content-Type": "application/json",
      ...(hasBody && { body: "{}" }),
    });
    expect([answer.status, answer.body.code]).toEqual([400, "invalid_parameter"]);
  });

  it.runIf(hasBody)("rejects a body that is not JSON, that has another media type, or an unknown member", async () => {
    const token = tokenFor(scope);
    const broken = await send(method, path, { token, "Content-Type": "application/json", body: "{" });
    expect([broken.status, broken.body.code]).toEqual([400, "malformed_json"]);
    const text = await send(method, path, { token, "Content-Type": "text/csv", body: "a" });
    expect([text.status, text.body.code]).toEqual([415, "unsupported_media_type"]);
    const unknown = await send(method, path, { token, "Content-Type": "application/json", body: '{"none_such":1}' });
    expect([unknown.status, unknown.body.code]).toEqual([422, "invalid_body"]);
    expect(unknown.body.errors.some(({ pointer }: { pointer: string }) => pointer === "/none_such")).toBe(true);
    if (isBodyRequired) expect((await send(method, path, { token })).status).toBe(415);
  });

  it("responds with 405 to a method that the path does not support", async () => {
    const answer = await send("PROPFIND", path, { token: every });
    expect([answer.status, answer.body.code]).toEqual([405, "method_not_allowed"]);
    expect(answer.headers.get("Allow")).toContain(method);
  });
});

it("The document of the team API is served to every service token, and has no other operations than the routes", async () => {
  const { status, body } = await operate("GET", "/openapi.json", undefined, await makeToken(["verify"]));
  expect([status, body.openapi]).toEqual([200, "3.1.0"]);
  expect(Object.keys(body.paths)).toEqual(Object.keys(document.paths));
});
