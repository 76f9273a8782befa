import { exports } from "cloudflare:workers";
import { beforeAll, describe, expect, it } from "vitest";
import document from "../../../public/api/team/openapi.json" with { type: "json" };
import { tokenScopes } from "../../../src/team/tokens/token.ts";
import { answerOf, origin } from "../support/client.ts";
import { ofTeam, operate } from "../support/operate.ts";
import { makeToken } from "../support/team.ts";
import { deleteSampleForms, makeCustomer, requestOf, teamOperations } from "../support/team-operations.ts";

// Cases that are generated from the OpenAPI document of the team API, for each of its operations.

const operations = teamOperations.map(({ method, path, ...operation }) => ({
  name: `${method} ${path}`,
  method,
  path: path.replaceAll(/\{\w+\}/g, "none"),
  scope: Object.values(operation.security[0] ?? {})[0]?.[0],
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
) => {
  const answer = await answerOf(
    await exports.default.fetch(
      new Request(origin + path, {
        method,
        headers: { ...(token && { Authorization: `Bearer ${token}` }), ...(headers as Record<string, string>) },
        ...(body !== undefined && { body }),
      }),
    ),
  );
  ofTeam.checkResponse(method, path, answer);
  return answer;
};

const tokenFor = (scope: string | undefined) => (scope === "tokens:write" ? without.get("verify") : every) ?? "";

describe.each(operations)("$name", ({ method, path, scope, hasBody, isBodyRequired }) => {
  const json = { "Content-Type": "application/json", ...(hasBody && { body: "{}" }) };

  it("needs a token with its scope, and rejects unknown query parameters", async () => {
    const withoutToken = await send(method, path, json);
    expect([withoutToken.status, withoutToken.body.code]).toEqual([401, "invalid_token"]);
    const unknown = await send(method, `${path}?none=1`, { token: tokenFor(scope), ...json });
    expect([unknown.status, unknown.body.code]).toEqual([400, "invalid_parameter"]);
    if (scope === undefined) return;
    const denied = await send(method, path, { token: without.get(scope) ?? "", ...json });
    expect([denied.status, denied.body.code]).toEqual([403, "insufficient_scope"]);
    expect(denied.headers.get("WWW-Authenticate")).toContain(`scope="${scope}"`);
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

const labelled = (list: typeof teamOperations) => list.map((operation) => [`${operation.method} ${operation.path}`, operation] as const);
const takes = (parameter: string) =>
  labelled(teamOperations.filter(({ parameters = [] }) => parameters.some(({ name }) => name === parameter)));

describe.each(labelled(teamOperations))("%s", (_, operation) => {
  it("responds as documented", async () => {
    const { path, body, status } = await requestOf(operation, await makeCustomer());
    const answer = await operate(operation.method, path, body);
    expect([answer.status, answer.text]).toEqual([status, expect.anything()]);
    expect(answer.body?.data).not.toEqual([]);
    await deleteSampleForms();
  });
});

describe.each(takes("cursor"))("%s", (_, operation) => {
  it("gives pages, and rejects a cursor of another list", async () => {
    const customer = await makeCustomer();
    const { path } = await requestOf(operation, customer);
    await requestOf(operation, customer);
    const all = (await operate("GET", `${path}?limit=100`)).body.data;
    const first = (await operate("GET", `${path}?limit=1`)).body;
    expect([first.data, first.has_more]).toEqual([all.slice(0, 1), true]);
    const second = (await operate("GET", `${path}?limit=1&cursor=${first.next_cursor}`)).body;
    expect(second.data).toEqual(all.slice(1, 2));
    const others = (await operate("GET", `/accounts/${(await makeCustomer()).accountId}/keys?limit=1`)).body;
    const cursors = [btoa("{}"), first.next_cursor.slice(1), others.next_cursor];
    for (const cursor of cursors) {
      const wrong = await operate("GET", `${path}?cursor=${cursor}`);
      expect([wrong.status, wrong.body.code]).toEqual([400, "invalid_cursor"]);
    }
    for (const limit of ["0", "101", "x", "1.5"]) {
      const wrong = await operate("GET", `${path}?limit=${limit}`);
      expect([wrong.status, wrong.body.errors[0].parameter]).toEqual([400, "limit"]);
    }
    await deleteSampleForms();
  });
});

const ofOneResource = takes("If-Match").filter(([, { operationId }]) => operationId !== "putAccountByExternalId");

describe.each(takes("If-Match"))("%s", (_, operation) => {
  it("does nothing if the client names another version", async () => {
    const { path, body } = await requestOf(operation, await makeCustomer());
    const stale = await operate(operation.method, path, body, undefined, { "If-Match": '"none"' });
    expect([stale.status, stale.body.code]).toEqual([412, "precondition_failed"]);
    const broken = await operate(operation.method, path, body, undefined, { "If-Match": "none" });
    expect([broken.status, broken.body.code]).toEqual([400, "invalid_header"]);
  });
});

describe.each(ofOneResource)("%s", (_, operation) => {
  it("accepts the version that the client has read", async () => {
    const { path, body } = await requestOf(operation, await makeCustomer());
    const tag = (await operate("GET", path)).headers.get("ETag") ?? "";
    expect((await operate("GET", path, undefined, undefined, { "If-None-Match": tag })).status).toBe(304);
    expect((await operate(operation.method, path, body, undefined, { "If-Match": tag })).status).toBeLessThan(300);
  });
});

it("A plan that changes while it is deleted is not deleted against If-Match", async () => {
  const { body, headers } = await operate("POST", "/plans", { name: "Contended plan" });
  const path = `/plans/${body.id}`;
  const condition = { "If-Match": headers.get("ETag") ?? "" };
  const [changed, deleted] = await Promise.all([
    operate("PATCH", path, { retention_days: 40 }, undefined, condition),
    operate("DELETE", path, undefined, undefined, condition),
  ]);
  expect([
    [200, 412],
    [404, 204],
    [412, 204],
  ]).toContainEqual([changed.status, deleted.status]);
});

describe.each(takes("Idempotency-Key"))("%s", (_, operation) => {
  it("takes effect once for an Idempotency-Key", async () => {
    const { path, body } = await requestOf(operation, await makeCustomer());
    const headers = { "Idempotency-Key": crypto.randomUUID() };
    const first = await operate("POST", path, body, undefined, headers);
    const again = await operate("POST", path, body, undefined, headers);
    expect([again.status, again.headers.get("Idempotent-Replayed")]).toEqual([first.status, "true"]);
    const shownOnce = Object.fromEntries(
      ["secret_key", "token", "setup_url", "url"].flatMap((name) => (name in first.body ? [[name, null]] : [])),
    );
    expect(again.body).toEqual({ ...first.body, ...shownOnce });
    for (const name of ["ETag", "Location"]) expect(again.headers.get(name)).toBe(first.headers.get(name));
    await deleteSampleForms();
  });

  it.runIf(operation.requestBody)("rejects an Idempotency-Key that was used for another body", async () => {
    const { path, body } = await requestOf(operation, await makeCustomer());
    const headers = { "Idempotency-Key": crypto.randomUUID() };
    await operate("POST", path, body, undefined, headers);
    const changes = { name: "Another", role: "admin", overlap_seconds: 7 };
    const name = (["name", "role"] as const).find((each) => Object.hasOwn((body ?? {}) as object, each)) ?? "overlap_seconds";
    const change = { [name]: changes[name] };
    const other = await operate("POST", path, { ...(body as object | undefined), ...change }, undefined, headers);
    expect([other.status, other.body.code]).toEqual([422, "idempotency_key_reused"]);
    await deleteSampleForms();
  });
});

it("The document of the team API is served to every service token, and has no other operations than the routes", async () => {
  const { status, body } = await operate("GET", "/openapi.json", undefined, await makeToken(["verify"]));
  expect([status, body.openapi]).toEqual([200, "3.1.0"]);
  expect(Object.keys(body.paths)).toEqual(Object.keys(document.paths));
});
