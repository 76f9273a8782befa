import { type Schema, Validator } from "@cfworker/json-schema";
import { describe, expect, it } from "vitest";
import published from "../../public/api/v1/openapi.json";
import { createResources } from "../../src/api/api.ts";
import { closedDocument, openApiDocument } from "../../src/api/openapi.ts";
import { eventCatalogue } from "../../src/event-catalogue.ts";
import { newKeyId, newSecretKey } from "../../src/keys/key-format.ts";
import { type Answer, type Call, call, makeKey, makeTenant, type Tenant, within2s } from "./client.ts";
import { newPath, receiver } from "./receiver.ts";

// Walks the operations of the OpenAPI document: each has a sample here, gets the shared cases, and really answers what it says. What
// clients see is open for members and codes to come; here, answers are held to the closed form.

const document = closedDocument(createResources(eventCatalogue)) as unknown as {
  paths: Record<string, Record<string, unknown>>;
  components: { schemas: Record<string, unknown>; headers: Record<string, unknown> };
};

interface Operation {
  operationId: string;
  security: Record<string, string[]>[];
  responses: Record<string, { headers?: Record<string, unknown>; content?: Record<string, { schema: Schema }> }>;
}

const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]) => ({ method: method.toUpperCase(), path, ...(operation as unknown as Operation) })),
);

/** What one operation is called with to succeed. `id` makes the thing that the path names. */
interface Sample extends Call {
  status: number;
  query?: string;
  id?: (tenant: Tenant) => Promise<string>;
  /** Makes what a list or figure is to show, so that its items are seen. */
  before?: (tenant: Tenant) => Promise<unknown>;
}

const made = async (path: string, tenant: Tenant, body: unknown) =>
  (await call("POST", `/api/v1${path}`, { key: tenant.key, body })).body.id as string;
const user = (tenant: Tenant) => made("/users", tenant, { name: "Ada", email: `${crypto.randomUUID()}@example.com` });
const task = (tenant: Tenant) =>
  made("/tasks", tenant, { title: "Write it down", assignee_id: null, due_at: "2030-01-31T09:30:00+02:00", labels: ["a"] });
const key = async (tenant: Tenant) => (await makeKey(tenant.accountId, { scopes: ["tasks:read"] })).keyId;
const entry = async (tenant: Tenant) => {
  const id = (await call("GET", "/api/v1/me", { key: tenant.key })).headers.get("X-Request-Id") ?? "";
  await within2s(
    () => call("GET", `/api/v1/activity/${id}`, { key: tenant.key }),
    (answer) => answer.status === 200,
  );
  return id;
};

const webhook = (tenant: Tenant) => made("/webhooks", tenant, { url: receiver + newPath(), event_types: ["task.created"] });
const usedWebhook = async (tenant: Tenant) => {
  const id = await webhook(tenant);
  await task(tenant);
  return id;
};
const firstOf = async (path: string, tenant: Tenant) =>
  (await call("GET", `/api/v1${path}`, { key: tenant.key })).body.data[0].id as string;
const delivery = async (tenant: Tenant) => firstOf(`/webhooks/${await usedWebhook(tenant)}/deliveries`, tenant);
const event = async (tenant: Tenant) => {
  await task(tenant);
  return firstOf("/events", tenant);
};
const redelivery = async (tenant: Tenant) => made(`/webhooks/${await webhook(tenant)}/redeliver`, tenant, { from: "2026-01-31T09:30:00Z" });

const samples: Record<string, Sample> = {
  listUsers: { status: 200, before: user },
  createUser: { status: 201, body: { name: "Ada", email: "ada@example.com" } },
  getUser: { status: 200, id: user },
  updateUser: { status: 200, id: user, body: { name: "Ada Lovelace" } },
  deleteUser: { status: 204, id: user },
  listTasks: { status: 200, before: task },
  createTask: { status: 201, body: { title: "Write it down" } },
  getTask: { status: 200, id: task },
  updateTask: { status: 200, id: task, body: { status: "done" }, "Content-Type": "application/merge-patch+json" },
  deleteTask: { status: 204, id: task },
  getAnalytics: { status: 200, before: async (tenant) => made("/tasks", tenant, { title: "x", assignee_id: await user(tenant) }) },
  getMe: { status: 200 },
  getRateLimit: { status: 200 },
  getUsage: { status: 200, before: entry },
  getUsageBreakdown: { status: 200, query: "?by=route", before: entry },
  listActivity: { status: 200, before: entry },
  getActivityEntry: { status: 200, id: entry },
  listKeys: { status: 200 },
  createKey: { status: 201, body: { name: "Another" } },
  getKey: { status: 200, id: key },
  updateKey: { status: 200, id: key, body: { hourly_limit: 10 } },
  revokeKey: { status: 204, id: key },
  rotateKey: { status: 200, id: key, body: { overlap_seconds: 60 } },
  revokeLeakedKey: { status: 202, body: { key: "whatever" } },
  getOpenApi: { status: 200 },
  listEventTypes: { status: 200 },
  listEvents: { status: 200, before: task },
  getEvent: { status: 200, id: event },
  listWebhooks: { status: 200, before: webhook },
  createWebhook: { status: 201, body: { url: "https://hooks.acme.dev/", event_types: ["*"] } },
  getWebhook: { status: 200, id: webhook },
  updateWebhook: { status: 200, id: webhook, body: { event_types: ["key.revoked"] } },
  deleteWebhook: { status: 204, id: webhook },
  rotateWebhookSecret: { status: 200, id: webhook, body: { overlap_seconds: 60 } },
  testWebhook: { status: 202, id: webhook, body: {} },
  listDeliveries: { status: 200, id: usedWebhook },
  getDelivery: { status: 200, id: delivery },
  redeliver: { status: 202, id: delivery },
  redeliverMany: { status: 202, id: webhook, body: { from: "2026-01-31T09:30:00Z" } },
  getRedelivery: { status: 200, id: redelivery },
};

type Walked = (typeof operations)[number];

const sampleOf = ({ operationId }: Walked): Sample => {
  const sample = samples[operationId];
  if (!sample) throw new Error(`operation ${operationId} has no sample, and so none of the shared cases`);
  return sample;
};

async function ask(operation: Walked, tenant: Tenant, withKey: string | undefined): Promise<Answer> {
  const { status: _, query = "", id, before: __, ...sent } = sampleOf(operation);
  const path = id ? operation.path.replace("{id}", await id(tenant)) : operation.path;
  return call(operation.method, path + query, { ...sent, ...(withKey !== undefined && { key: withKey }) });
}

/** What every answer has, whatever it answers: they stand in the guide, not with each operation. */
const ofAll =
  /^(content-type|content-length|cache-control|content-security-policy|x-content-type-options|strict-transport-security|access-control-.*)$/;

function expectDocumented(operation: Walked, answer: Answer): void {
  const response = operation.responses[String(answer.status)];
  expect(response, `${operation.operationId} answers ${answer.status}, which it does not document`).toBeDefined();
  const documented = Object.keys(response?.headers ?? {}).map((name) => name.toLowerCase());
  const undocumented = [...answer.headers.keys()].filter((name) => !ofAll.test(name) && !documented.includes(name));
  expect(undocumented, `${operation.operationId} answers ${answer.status} with headers that it does not document`).toEqual([]);
  const mediaType = answer.headers.get("Content-Type")?.split(";")[0] ?? "";
  const schema = response?.content?.[mediaType]?.schema;
  if (answer.text === "") {
    expect(response?.content).toBeUndefined();
    return;
  }
  expect(schema, `${operation.operationId} answers ${answer.status} as ${mediaType}, which it does not document`).toBeDefined();
  const { valid, errors } = new Validator({ ...schema, components: document.components } as Schema, "2020-12", false).validate(answer.body);
  expect(valid, JSON.stringify(errors)).toBe(true);
}

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
  expect(published).toEqual(openApiDocument(createResources(eventCatalogue)));
  const { body, headers } = await call("GET", "/api/v1/openapi.json");
  expect(body).toEqual(published);
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
  for (const name of ["User", "Task", "Key", "Webhook", "Problem", "Me"]) expect(closedIn(schemas[name]), name).toEqual([]);
  for (const name of ["NewUser", "UserPatch", "NewTask", "TaskPatch", "NewKey", "KeyPatch", "NewWebhook", "WebhookPatch"])
    expect(schemas[name]?.additionalProperties, name).toBe(false);
});

it("Only the document itself and the report of a leaked key are open", () => {
  expect(open.map(({ operationId }) => operationId).sort()).toEqual(["getOpenApi", "revokeLeakedKey"]);
});

it("Every object in an answer is closed, so that a leaked member is seen", () => {
  const loose: string[] = [];
  const walk = (node: unknown, at: string) => {
    if (typeof node !== "object" || node === null) return;
    const { type, properties, additionalProperties } = node as Record<string, unknown>;
    if (type === "object" && properties && additionalProperties !== false) loose.push(at);
    for (const [name, child] of Object.entries(node)) walk(child, `${at}/${name}`);
  };
  walk(document.components.schemas, "#/components/schemas");
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
