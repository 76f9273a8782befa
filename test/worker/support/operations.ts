import type { Schema } from "@cfworker/json-schema";
import { type Answer, type Call, call, makeKey, type Tenant, within2s } from "./client.ts";
import { type DocumentedOperation, document, operations } from "./documented.ts";
import { operate } from "./operate.ts";
import { newPath, receiver, waitForAttempts } from "./receiver.ts";

// Sample requests for all operations of the OpenAPI document.

/** A sample request that an operation handles successfully. */
export interface Sample extends Call {
  /** The expected status of the response. */
  status: number;
  query?: string;
  /** Creates the resource for `{id}` in the path. Returns the id of the resource. */
  id?: (tenant: Tenant) => Promise<string>;
  /** Creates data before the request, so that lists and figures in the response are not empty. */
  before?: (tenant: Tenant) => Promise<unknown>;
}

/** Sends a POST request. Returns the id of the created resource. */
const post = async (path: string, tenant: Tenant, body: unknown) =>
  (await call("POST", `/api/v1${path}`, { key: tenant.key, body })).body.id as string;
const user = (tenant: Tenant) => post("/users", tenant, { name: "Ada", email: `${crypto.randomUUID()}@example.com` });
const key = async (tenant: Tenant) => (await makeKey(tenant.accountId, { scopes: ["usage:read"] })).keyId;
/** Creates an API key, so that an event exists. Every API that is built on this project has events about keys. */
const createKey = (tenant: Tenant) => post("/keys", tenant, { name: "Another", scopes: [] });
const entry = async (tenant: Tenant) => {
  const id = (await call("GET", "/api/v1/me", { key: tenant.key })).headers.get("X-Request-Id") ?? "";
  await within2s(
    () => call("GET", `/api/v1/activity/${id}`, { key: tenant.key }),
    ({ status }) => status === 200,
  );
  return id;
};

const webhook = (tenant: Tenant) => post("/webhooks", tenant, { url: receiver + newPath(), event_types: ["key.created"] });
const usedWebhook = async (tenant: Tenant) => {
  const id = await webhook(tenant);
  await createKey(tenant);
  return id;
};
const firstOf = async (path: string, tenant: Tenant) =>
  (await call("GET", `/api/v1${path}`, { key: tenant.key })).body.data[0].id as string;
const delivery = async (tenant: Tenant) => firstOf(`/webhooks/${await usedWebhook(tenant)}/deliveries`, tenant);
/** Creates a delivery whose first attempt has failed. The delivery waits for its second attempt. Returns the id of the delivery. */
const waitingDelivery = async (tenant: Tenant) => {
  const webhookId = await post("/webhooks", tenant, { url: receiver + newPath("fail"), event_types: ["key.created"] });
  await createKey(tenant);
  const id = await firstOf(`/webhooks/${webhookId}/deliveries`, tenant);
  await waitForAttempts(tenant, id, 1);
  return id;
};
const event = async (tenant: Tenant) => {
  await createKey(tenant);
  return firstOf("/events", tenant);
};
const redelivery = async (tenant: Tenant) => post(`/webhooks/${await webhook(tenant)}/redeliver`, tenant, { from: "2026-01-31T09:30:00Z" });

/** The samples of non-standard operations, and of operations for which the example in the document does not succeed. */
const samples: Record<string, Sample> = {
  listUsers: { status: 200, before: user },
  createUser: { status: 201, body: { name: "Ada", email: "ada@example.com" } },
  getUser: { status: 200, id: user },
  updateUser: { status: 200, id: user, body: { name: "Ada Lovelace" } },
  deleteUser: { status: 204, id: user },
  updateTask: {
    status: 200,
    id: (tenant) => post("/tasks", tenant, { title: "Write it down" }),
    body: { status: "done" },
    "Content-Type": "application/merge-patch+json",
  },
  getAnalytics: { status: 200, before: async (tenant) => post("/tasks", tenant, { title: "x", assignee_id: await user(tenant) }) },
  getMe: { status: 200 },
  getRateLimit: { status: 200 },
  getAccountLimits: {
    status: 200,
    before: ({ accountId }) => operate("PATCH", `/accounts/${accountId}`, { limits: [{ per: "hour", limit: 100_000 }] }),
  },
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
  listEvents: { status: 200, before: createKey },
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

const exampleOf = (schema: Schema): unknown => {
  const resolved = typeof schema.$ref === "string" ? (document.components.schemas[schema.$ref.split("/").at(-1) ?? ""] as Schema) : schema;
  return resolved.example;
};

/** Returns the example of an operation's request body. */
const bodyOf = ({ requestBody }: DocumentedOperation): unknown => {
  const schema = requestBody?.content["application/json"]?.schema;
  return schema && exampleOf(schema);
};

/** Builds the sample of a list, create, read, update or delete operation from the examples of the document. */
function standardSample(operation: DocumentedOperation): Sample | undefined {
  const collection = operation.path.replace("/{id}", "");
  const creation = operations.find(({ method, path }) => method === "POST" && path === collection);
  const content = creation && bodyOf(creation);
  if (content === undefined) return undefined;
  const create = (tenant: Tenant) => post(collection.replace("/api/v1", ""), tenant, content);
  if (!operation.path.endsWith("/{id}"))
    return operation.method === "POST" ? { status: 201, body: content } : { status: 200, before: create };
  return {
    status: operation.method === "DELETE" ? 204 : 200,
    id: create,
    ...(operation.method === "PATCH" && { body: bodyOf(operation) }),
  };
}

/** Returns the sample of an operation. Throws if the operation has no sample. */
export const sampleOf = (operation: DocumentedOperation): Sample => {
  const sample = samples[operation.operationId] ?? standardSample(operation);
  if (!sample) throw new Error(`the operation ${operation.operationId} has no sample, which the tests of every operation need`);
  return sample;
};

/**
 * Calls an operation with its sample request. Sends `key`, or no key if `key` is undefined. The resource in the path belongs to `tenant`.
 */
export async function callOperation(operation: DocumentedOperation, tenant: Tenant, key: string | undefined): Promise<Answer> {
  const { status: _, query = "", id, before: __, ...request } = sampleOf(operation);
  const path = id ? operation.path.replace("{id}", await id(tenant)) : operation.path;
  return call(operation.method, path + query, { ...request, ...(key !== undefined && { key }) });
}
