import { describe, expect, it } from "vitest";
import published from "../../../public/api/v1/openapi.json";
import { newKeyId, newSecretKey } from "../../../src/credentials/key-format.ts";
import { type Answer, call, makeKey, makeTenant } from "../support/client.ts";
import { type DocumentedOperation, document, expectDocumented, operations } from "../support/documented.ts";
import { callOperation, sampleOf } from "../support/operations.ts";

// These tests call each operation of the OpenAPI document with a sample request. The tests check each response against the document.

function expectProblem(operation: DocumentedOperation, response: Answer, status: number, code: string): void {
  expect([response.status, response.body?.code]).toEqual([status, code]);
  expect(response.headers.get("Content-Type")).toBe("application/problem+json");
  expect(response.body.request_id).toBe(response.headers.get("X-Request-Id"));
  expectDocumented(operation, response);
}

const makeForgedKey = () => newSecretKey(newKeyId(), { name: "a", secret: "not the signing secret of this service" });

const operationsWithKey = operations.filter(({ security }) => security.length > 0);
const publicOperations = operations.filter(({ security }) => security.length === 0);
const labelled = (list: DocumentedOperation[]) => list.map((operation) => [`${operation.method} ${operation.path}`, operation] as const);

/**
 * Returns the paths of all closed schemas. A closed object schema allows no additional members. A closed schema of a code allows no
 * additional values.
 */
function closedPathsIn(root: unknown): string[] {
  const found: string[] = [];
  const walk = (node: unknown, path: string): void => {
    if (typeof node !== "object" || node === null) return;
    const { additionalProperties, enum: values } = node as Record<string, unknown>;
    if (additionalProperties === false || (path.endsWith("/code") && values)) found.push(path);
    for (const [name, child] of Object.entries(node)) walk(child, `${path}/${name}`);
  };
  walk(root, "");
  return found;
}

it("The published document allows further members and codes in responses, and no unknown members in requests", () => {
  for (const item of Object.values(published.paths))
    for (const { responses } of Object.values(item as Record<string, { responses: unknown }>)) expect(closedPathsIn(responses)).toEqual([]);
  const { schemas } = published.components as unknown as { schemas: Record<string, Record<string, unknown>> };
  for (const name of ["Key", "Webhook", "Problem", "Me"]) expect(closedPathsIn(schemas[name]), name).toEqual([]);
  const bodies = Object.values(published.paths).flatMap((item) => Object.values(item as Record<string, { requestBody?: object }>));
  const references = JSON.stringify(bodies.map(({ requestBody = {} }) => requestBody)).matchAll(/"#\/components\/schemas\/(\w+)"/g);
  const requestSchemas = [...new Set([...references].map(([, name = ""]) => name))];
  expect(requestSchemas).toEqual(expect.arrayContaining(["NewKey", "KeyPatch", "NewWebhook", "WebhookPatch"]));
  for (const name of requestSchemas) expect(schemas[name]?.additionalProperties, name).toBe(false);
});

it("Only the OpenAPI document and the report of a leaked key are available without a key", () => {
  expect(publicOperations.map(({ operationId }) => operationId).sort()).toEqual(["getOpenApi", "getOpenApiYaml", "revokeLeakedKey"]);
});

it("The document that tests use allows no unknown members in responses, so that the tests find leaked members", () => {
  const open: string[] = [];
  const walk = (node: unknown, at: string) => {
    if (typeof node !== "object" || node === null) return;
    const { type, properties, additionalProperties } = node as Record<string, unknown>;
    if (type === "object" && properties && additionalProperties !== false) open.push(at);
    for (const [name, child] of Object.entries(node)) walk(child, `${at}/${name}`);
  };
  // The schema `OpenApiDocument` describes the format of OpenAPI documents. This check does not apply to `OpenApiDocument`.
  const { OpenApiDocument, ...schemas } = document.components.schemas;
  walk(schemas, "#/components/schemas");
  for (const { operationId, responses } of operationsWithKey) walk(responses, operationId);
  expect(open).toEqual([]);
});

describe.each(labelled(operationsWithKey))("%s", (_, operation) => {
  const scope = Object.values(operation.security[0] ?? {})[0]?.[0];

  it("responds as documented", async () => {
    const tenant = await makeTenant();
    await sampleOf(operation).before?.(tenant);
    const response = await callOperation(operation, tenant, tenant.key);
    expect(response.status).toBe(sampleOf(operation).status);
    expectDocumented(operation, response);
    for (const list of [response.body?.data, response.body?.by_assignee, response.body?.series]) if (list) expect(list).not.toEqual([]);
    expect(response.headers.get("X-RateLimit-Limit")).toBe("5000");
  });

  it("returns 401 without a key and to a forged key", async () => {
    const path = operation.path.replace("{id}", "none");
    for (const [key, code, challenge] of [
      [undefined, "missing_key", 'Bearer realm="api"'],
      [makeForgedKey(), "invalid_key", 'Bearer realm="api", error="invalid_token"'],
    ] as const) {
      const response = await call(operation.method, path, key === undefined ? {} : { key });
      expectProblem(operation, response, 401, code);
      expect(response.headers.get("WWW-Authenticate")).toBe(challenge);
      expect(response.headers.has("X-RateLimit-Limit")).toBe(false);
    }
  });

  it("returns 403 to a key without the required scope", async () => {
    const tenant = await makeTenant();
    const { key: keyWithoutScopes } = await makeKey(tenant.accountId, { scopes: [] });
    const response = await callOperation(operation, tenant, keyWithoutScopes);
    if (scope === undefined) return expect(response.status).toBe(sampleOf(operation).status);
    expectProblem(operation, response, 403, "insufficient_scope");
    expect(response.body.detail).toContain(scope);
  });

  it("returns 429 to a key over its limit, unless its requests are not counted", async () => {
    const tenant = await makeTenant();
    // After the first request, the key has one unit less than the operation costs.
    const { key } = await makeKey(tenant.accountId, { hourlyLimit: operation["x-cost"] ?? 1 });
    await call("GET", "/api/v1/me", { key });
    const response = await callOperation(operation, tenant, key);
    if (operation.operationId === "getRateLimit") return expect([response.status, response.body.policies[0].remaining]).toEqual([200, 0]);
    expectProblem(operation, response, 429, "rate_limit_exceeded");
    expect(response.body.type).toBe("https://iana.org/assignments/http-problem-types#quota-exceeded");
    expect(response.body["violated-policies"]).toEqual(["hour"]);
    const resetSeconds = Number(/t=(\d+)/.exec(response.headers.get("RateLimit") ?? "")?.[1]);
    expect(Number(response.headers.get("Retry-After"))).toBeGreaterThanOrEqual(resetSeconds);
  });

  it("returns 400 with the name of an unknown query parameter", async () => {
    const tenant = await makeTenant();
    const { status: _, query, id, before: __, ...request } = sampleOf(operation);
    const path = id ? operation.path.replace("{id}", await id(tenant)) : operation.path;
    const response = await call(operation.method, `${path}${query ?? "?"}&surprise=1`, { ...request, key: tenant.key });
    expectProblem(operation, response, 400, "invalid_parameter");
    expect(response.body.errors).toEqual([{ parameter: "surprise", code: "unknown_parameter", detail: expect.any(String) }]);
  });
});

describe.each(labelled(operationsWithKey.filter(({ path }) => path.includes("{id}"))))("%s", (_, operation) => {
  it("returns the same 404 to the id of another account as to an unknown id", async () => {
    const [owner, other] = [await makeTenant(), await makeTenant()];
    const { status: _, id, query, before: __, ...request } = sampleOf(operation);
    const ownersId = (await id?.(owner)) ?? "";
    const ids = [ownersId, `${ownersId.slice(0, 4)}${"0".repeat(32)}`, "no-id-at-all", "%00", "%F0%9F%98%80"];
    const responses = await Promise.all(
      ids.map((each) => call(operation.method, operation.path.replace("{id}", each), { ...request, key: other.key })),
    );
    for (const response of responses) expectProblem(operation, response, 404, "not_found");
    expect(new Set(responses.map(({ body }) => body.detail)).size).toBe(1);
  });
});

describe.each(labelled(publicOperations))("%s", (_, operation) => {
  it.each([
    ["without a key", undefined],
    ["with a forged key", makeForgedKey()],
  ])("responds as documented to a request %s", async (_, key) => {
    const response = await callOperation(operation, await makeTenant(), key);
    expect(response.status).toBe(sampleOf(operation).status);
    expectDocumented(operation, response);
  });
});
