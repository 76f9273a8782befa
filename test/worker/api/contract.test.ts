import { describe, expect, it } from "vitest";
import published from "../../../public/api/v1/openapi.json";
import { openApiDocument } from "../../../scripts/openapi/document.ts";
import { newKeyId, newSecretKey } from "../../../src/credentials/key-format.ts";
import { routers } from "../../../src/surfaces/mounts.ts";
import { type Answer, call, makeKey, makeTenant } from "../support/client.ts";
import { document, expectDocumented, operations, type Walked } from "../support/documented.ts";
import { ask, sampleOf } from "../support/operations.ts";

// Walks the operations of the OpenAPI document: each has a sample, gets the shared cases, and really answers what it says.

function expectProblem(operation: Walked, answer: Answer, status: number, code: string): void {
  expect([answer.status, answer.body?.code]).toEqual([status, code]);
  expect(answer.headers.get("Content-Type")).toBe("application/problem+json");
  expect(answer.body.request_id).toBe(answer.headers.get("X-Request-Id"));
  expectDocumented(operation, answer);
}

const forged = () => newSecretKey(newKeyId(), { name: "a", secret: "not the signing secret of this service" });

const withKey = operations.filter(({ security }) => security.length > 0);
const open = operations.filter(({ security }) => security.length === 0);

it("The checked-in document is the code's, and the one that the Worker serves", async () => {
  expect(published).toEqual(openApiDocument(routers));
  const { body, headers } = await call("GET", "/api/v1/openapi.json");
  expect({ ...body, servers: published.servers }).toEqual(published);
  expect((await call("GET", "/api/v1/openapi.json", { "If-None-Match": headers.get("ETag") })).status).toBe(304);
});

/** Every object schema of an answer that is closed, and every enum of a code. */
function closedIn(node: unknown): string[] {
  const found: string[] = [];
  const walk = (at: unknown, path: string): void => {
    if (typeof at !== "object" || at === null) return;
    const { additionalProperties, enum: values } = at as Record<string, unknown>;
    if (additionalProperties === false || (path.endsWith("/code") && values)) found.push(path);
    for (const [name, child] of Object.entries(at)) walk(child, `${path}/${name}`);
  };
  walk(node, "");
  return found;
}

it("The document that clients see is open for members and codes to come in answers, and closed for what they send", () => {
  for (const item of Object.values(published.paths))
    for (const { responses } of Object.values(item as Record<string, { responses: unknown }>)) expect(closedIn(responses)).toEqual([]);
  const { schemas } = published.components as unknown as { schemas: Record<string, Record<string, unknown>> };
  for (const name of ["Key", "Webhook", "Problem", "Me"]) expect(closedIn(schemas[name]), name).toEqual([]);
  const bodies = Object.values(published.paths).flatMap((item) => Object.values(item as Record<string, { requestBody?: object }>));
  const named = JSON.stringify(bodies.map(({ requestBody = {} }) => requestBody)).matchAll(/"#\/components\/schemas\/(\w+)"/g);
  const sent = [...new Set([...named].map(([, name = ""]) => name))];
  expect(sent).toEqual(expect.arrayContaining(["NewKey", "KeyPatch", "NewWebhook", "WebhookPatch"]));
  for (const name of sent) expect(schemas[name]?.additionalProperties, name).toBe(false);
});

it("Only the document itself and the report of a leaked key are open", () => {
  expect(open.map(({ operationId }) => operationId).sort()).toEqual(["getOpenApi", "getOpenApiYaml", "revokeLeakedKey"]);
});

it("Every object in an answer is closed, so that a leaked member is seen", () => {
  const loose: string[] = [];
  const walk = (node: unknown, at: string) => {
    if (typeof node !== "object" || node === null) return;
    const { type, properties, additionalProperties } = node as Record<string, unknown>;
    if (type === "object" && properties && additionalProperties !== false) loose.push(at);
    for (const [name, child] of Object.entries(node)) walk(child, `${at}/${name}`);
  };
  // A document of OpenAPI is no answer of ours.
  const { OpenApiDocument, ...schemas } = document.components.schemas;
  walk(schemas, "#/components/schemas");
  for (const { operationId, responses } of withKey) walk(responses, operationId);
  expect(loose).toEqual([]);
});

describe.each(withKey.map((operation) => [`${operation.method} ${operation.path}`, operation] as const))("%s", (_, operation) => {
  const scope = Object.values(operation.security[0] ?? {})[0]?.[0];

  it("answers what it documents", async () => {
    const tenant = await makeTenant();
    await sampleOf(operation).before?.(tenant);
    const answer = await ask(operation, tenant, tenant.key);
    expect(answer.status).toBe(sampleOf(operation).status);
    expectDocumented(operation, answer);
    for (const list of [answer.body?.data, answer.body?.by_assignee, answer.body?.series]) if (list) expect(list).not.toEqual([]);
    expect(answer.headers.get("X-RateLimit-Limit")).toBe("5000");
  });

  it("refuses a request without a key", async () => {
    const answer = await ask(operation, await makeTenant(), undefined);
    expectProblem(operation, answer, 401, "missing_key");
    expect(answer.headers.get("WWW-Authenticate")).toBe('Bearer realm="api"');
    expect(answer.headers.has("X-RateLimit-Limit")).toBe(false);
  });

  it("refuses a forged key", async () => {
    const answer = await ask(operation, await makeTenant(), forged());
    expectProblem(operation, answer, 401, "invalid_key");
    expect(answer.headers.get("WWW-Authenticate")).toBe('Bearer realm="api", error="invalid_token"');
    expect(answer.headers.has("X-RateLimit-Limit")).toBe(false);
  });

  it("refuses a revoked key", async () => {
    const tenant = await makeTenant();
    const other = await makeKey(tenant.accountId);
    expect((await call("DELETE", `/api/v1/keys/${other.keyId}`, { key: tenant.key })).status).toBe(204);
    expectProblem(operation, await ask(operation, tenant, other.key), 401, "revoked_key");
  });

  it("refuses a key without its scope", async () => {
    const tenant = await makeTenant();
    const { key: bare } = await makeKey(tenant.accountId, { scopes: [] });
    const answer = await ask(operation, tenant, bare);
    if (scope === undefined) return expect(answer.status).toBe(sampleOf(operation).status);
    expectProblem(operation, answer, 403, "insufficient_scope");
    expect(answer.body.detail).toContain(scope);
  });

  it("refuses a key over its limit, or is not counted", async () => {
    const tenant = await makeTenant();
    const { key: small } = await makeKey(tenant.accountId, { hourlyLimit: 1 });
    await call("GET", "/api/v1/me", { key: small });
    const answer = await ask(operation, tenant, small);
    if (operation.operationId === "getRateLimit") return expect([answer.status, answer.body.policies[0].remaining]).toEqual([200, 0]);
    expectProblem(operation, answer, 429, "rate_limit_exceeded");
    expect(answer.body.type).toBe("https://iana.org/assignments/http-problem-types#quota-exceeded");
    expect(answer.body["violated-policies"]).toEqual(["hour"]);
    const t = Number(/t=(\d+)/.exec(answer.headers.get("RateLimit") ?? "")?.[1]);
    expect(Number(answer.headers.get("Retry-After"))).toBeGreaterThanOrEqual(t);
  });

  it("refuses an unknown query parameter, by name", async () => {
    const tenant = await makeTenant();
    const { status: _, query, id, before: __, ...sent } = sampleOf(operation);
    const path = id ? operation.path.replace("{id}", await id(tenant)) : operation.path;
    const answer = await call(operation.method, `${path}${query ?? "?"}&surprise=1`, { ...sent, key: tenant.key });
    expectProblem(operation, answer, 400, "invalid_parameter");
    expect(answer.body.errors).toEqual([{ parameter: "surprise", code: "unknown_parameter", detail: expect.any(String) }]);
  });
});

describe.each(
  withKey.filter(({ path }) => path.includes("{id}")).map((operation) => [`${operation.method} ${operation.path}`, operation] as const),
)("%s", (_, operation) => {
  it("answers for another account's id as for one that is not there", async () => {
    const [tenant, stranger] = [await makeTenant(), await makeTenant()];
    const { status: _, id, query, before: __, ...sent } = sampleOf(operation);
    const foreign = (await id?.(tenant)) ?? "";
    const ids = [foreign, `${foreign.slice(0, 4)}${"0".repeat(32)}`, "no-id-at-all", "%00", "%F0%9F%98%80"];
    const answers = await Promise.all(
      ids.map((each) => call(operation.method, operation.path.replace("{id}", each), { ...sent, key: stranger.key })),
    );
    for (const answer of answers) expectProblem(operation, answer, 404, "not_found");
    expect(new Set(answers.map(({ body }) => body.detail)).size).toBe(1);
  });
});

describe.each(open.map((operation) => [`${operation.method} ${operation.path}`, operation] as const))("%s", (_, operation) => {
  it.each([
    ["without a key", undefined],
    ["with a forged one", forged()],
  ])("answers %s what it documents", async (_, key) => {
    const answer = await ask(operation, await makeTenant(), key);
    expect(answer.status).toBe(sampleOf(operation).status);
    expectDocumented(operation, answer);
  });
});
