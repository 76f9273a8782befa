import type { Schema } from "@cfworker/json-schema";
import { type Answer, type Call, call, makeKey, type Tenant, within2s } from "./client.ts";
import { document, operations, type Walked } from "./documented.ts";
import { newPath, receiver, until } from "./receiver.ts";

// A sample of each operation of the OpenAPI document.

/** What one operation is called with to succeed. `id` makes the thing that the path names. */
export interface Sample extends Call {
  status: number;
  query?: string;
  id?: (tenant: Tenant) => Promise<string>;
  /** Makes what a list or figure is to show, so that its items are seen. */
  before?: (tenant: Tenant) => Promise<unknown>;
}

const made = async (path: string, tenant: Tenant, body: unknown) =>
  (await call("POST", `/api/v1${path}`, { key: tenant.key, body })).body.id as string;
const user = (tenant: Tenant) => made("/users", tenant, { name: "Ada", email: `${crypto.randomUUID()}@example.com` });
const key = async (tenant: Tenant) => (await makeKey(tenant.accountId, { scopes: ["usage:read"] })).keyId;
/** An event of a type that every API has. */
const newKey = (tenant: Tenant) => made("/keys", tenant, { name: "Another", scopes: [] });
const entry = async (tenant: Tenant) => {
  const id = (await call("GET", "/api/v1/me", { key: tenant.key })).headers.get("X-Request-Id") ?? "";
  await within2s(
    () => call("GET", `/api/v1/activity/${id}`, { key: tenant.key }),
    (answer) => answer.status === 200,
  );
  return id;
};

const webhook = (tenant: Tenant) => made("/webhooks", tenant, { url: receiver + newPath(), event_types: ["key.created"] });
const usedWebhook = async (tenant: Tenant) => {
  const id = await webhook(tenant);
  await newKey(tenant);
  return id;
};
const firstOf = async (path: string, tenant: Tenant) =>
  (await call("GET", `/api/v1${path}`, { key: tenant.key })).body.data[0].id as string;
const delivery = async (tenant: Tenant) => firstOf(`/webhooks/${await usedWebhook(tenant)}/deliveries`, tenant);
/** One whose first attempt has failed, so that it waits for the next. */
const waitingDelivery = async (tenant: Tenant) => {
  const webhookId = await made("/webhooks", tenant, { url: receiver + newPath("fail"), event_types: ["key.created"] });
  await newKey(tenant);
  const id = await firstOf(`/webhooks/${webhookId}/deliveries`, tenant);
  // However busy the machine is: until its first attempt is on record, it is being made.
  await until(
    () => call("GET", `/api/v1/deliveries/${id}`, { key: tenant.key }),
    ({ body }) => body.attempts.length > 0,
  );
  return id;
};
const event = async (tenant: Tenant) => {
  await newKey(tenant);
  return firstOf("/events", tenant);
};
const redelivery = async (tenant: Tenant) => made(`/webhooks/${await webhook(tenant)}/redeliver`, tenant, { from: "2026-01-31T09:30:00Z" });

/** The samples of operations that are not standard, or whose example does not do. */
const samples: Record<string, Sample> = {
  listUsers: { status: 200, before: user },
  createUser: { status: 201, body: { name: "Ada", email: "ada@example.com" } },
  getUser: { status: 200, id: user },
  updateUser: { status: 200, id: user, body: { name: "Ada Lovelace" } },
  deleteUser: { status: 204, id: user },
  updateTask: {
    status: 200,
    id: (tenant) => made("/tasks", tenant, { title: "Write it down" }),
    body: { status: "done" },
    "Content-Type": "application/merge-patch+json",
  },
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
  revokeLeakedKey: { status: 202, body: { key: "not a key" } },
  getOpenApi: { status: 200 },
  getOpenApiYaml: { status: 200 },
  listEventTypes: { status: 200 },
  listEvents: { status: 200, before: newKey },
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
  attemptDelivery: { status: 202, id: waitingDelivery },
  listAudit: { status: 200, before: key },
  redeliverMany: { status: 202, id: webhook, body: { from: "2026-01-31T09:30:00Z" } },
  getRedelivery: { status: 200, id: redelivery },
};

/** The example of a schema of the document. */
const exampleOf = (schema: Schema): unknown => {
  const named = typeof schema.$ref === "string" ? (document.components.schemas[schema.$ref.split("/").at(-1) ?? ""] as Schema) : schema;
  return named.example;
};

/** The example of what an operation takes. */
const bodyOf = ({ requestBody }: Walked): unknown => {
  const schema = requestBody?.content["application/json"]?.schema;
  return schema && exampleOf(schema);
};

/** The sample of an operation that lists, makes, reads, changes or deletes a thing, from the examples of the document. */
function standardSample(operation: Walked): Sample | undefined {
  const collection = operation.path.replace("/{id}", "");
  const creation = operations.find(({ method, path }) => method === "POST" && path === collection);
  const content = creation && bodyOf(creation);
  if (content === undefined) return undefined;
  const make = (tenant: Tenant) => made(collection.replace("/api/v1", ""), tenant, content);
  const isOne = operation.path.endsWith("/{id}");
  if (!isOne) return operation.method === "POST" ? { status: 201, body: content } : { status: 200, before: make };
  return { status: operation.method === "DELETE" ? 204 : 200, id: make, ...(operation.method === "PATCH" && { body: bodyOf(operation) }) };
}

export const sampleOf = (operation: Walked): Sample => {
  const sample = samples[operation.operationId] ?? standardSample(operation);
  if (!sample) throw new Error(`operation ${operation.operationId} has no sample, and so none of the shared cases`);
  return sample;
};

export async function ask(operation: Walked, tenant: Tenant, withKey: string | undefined): Promise<Answer> {
  const { status: _, query = "", id, before: __, ...sent } = sampleOf(operation);
  const path = id ? operation.path.replace("{id}", await id(tenant)) : operation.path;
  return call(operation.method, path + query, { ...sent, ...(withKey !== undefined && { key: withKey }) });
}
