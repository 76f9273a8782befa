import { createExecutionContext, createMessageBatch, getQueueResult } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import type { DeliveryMessage } from "../../../src/outbox/enqueue.ts";
import { consume } from "../../../src/webhooks/deliveries/consume.ts";
import { browse, textOf } from "../support/browse.ts";
import { call, makeKey, makeTenant, type Tenant } from "../support/client.ts";
import {
  deliveriesOf,
  deliveryWait,
  newPath,
  readDelivery,
  receivedAt,
  receiver,
  register,
  sampleType,
  verifyRequest,
  waitForAttempts,
  waitForRequest,
  waitForRequests,
} from "../support/receiver.ts";
import { readWebhookRow, setResponseBody } from "../support/webhook-rows.ts";

/** Waits until the only delivery of a webhook has a retry time after its first attempt. Returns the delivery. */
const waitForRetryTime = (tenant: Tenant, webhookId: string) =>
  vi.waitFor(async () => {
    const [delivery] = await deliveriesOf(tenant, webhookId);
    expect(delivery.next_attempt_at).not.toBe(delivery.created_at);
    return delivery;
  }, deliveryWait);

const statusesOf = async (tenant: Tenant, webhookId: string, query = "") =>
  (await deliveriesOf(tenant, webhookId, query)).map(({ status }: { status: string }) => status);

const createTask = ({ key }: Pick<Tenant, "key">, title: string) => call("POST", "/api/v1/tasks", { key, body: { title } });

describe("A delivery", () => {
  it.each([
    ["an error response", "fail", "status", 500],
    ["a redirect", "redirect", "redirect", 302],
  ] as const)("is retried after %s and records the error with advice", async (_, behaviour, error, status) => {
    const tenant = await makeTenant();
    const { key } = tenant;
    const { id } = await register(key, { event_types: ["task.created"] }, newPath(behaviour));
    await createTask(tenant, "Fail");
    const delivery = await waitForRetryTime(tenant, id);
    expect(delivery).toMatchObject({ status: "pending", attempts_made: 1, event_type: "task.created", redelivery_of: null });
    const { attempts } = await readDelivery(tenant, delivery.id);
    expect(attempts).toMatchObject([{ status, error }]);
    // The delay is measured from the time of the attempt, because a busy machine may make the attempt late.
    const delayMs = Date.parse(delivery.next_attempt_at) - Date.parse(attempts[0].at);
    expect(delayMs).toBeGreaterThanOrEqual(4000);
    expect(delayMs).toBeLessThan(6000 + attempts[0].duration_ms + 1000);
    expect(attempts[0].advice).toMatch(/\.$/);
    await vi.waitFor(async () => expect((await call("GET", `/api/v1/webhooks/${id}`, { key })).body.status).toBe("failing"), deliveryWait);
    await call("DELETE", `/api/v1/webhooks/${id}`, { key });
  });

  it("is retried no earlier than the Retry-After header of the receiver requests", async () => {
    const tenant = await makeTenant();
    const { id } = await register(tenant.key, {}, newPath("busy"));
    const startedAt = Date.now();
    await createTask(tenant, "Busy");
    const delivery = await waitForRetryTime(tenant, id);
    expect(Date.parse(delivery.next_attempt_at) - startedAt).toBeGreaterThanOrEqual(7000);
  });

  it("disables its webhook after a 410 response, and later deliveries are held", async () => {
    const tenant = await makeTenant();
    const { key } = tenant;
    const observer = await register(key, { event_types: ["webhook.disabled"] });
    const gone = await register(key, { event_types: ["task.created"] }, newPath("gone"));
    await createTask(tenant, "One");
    const webhook = await vi.waitFor(async () => {
      const { body } = await call("GET", `/api/v1/webhooks/${gone.id}`, { key });
      expect(body.status).toBe("disabled");
      return body;
    }, deliveryWait);
    expect(webhook).toMatchObject({ status: "disabled", disabled_reason: "The receiver responded with 410 Gone." });
    const request = await waitForRequest(observer.path);
    expect(verifyRequest(observer.secret, request)).toMatchObject({ type: "webhook.disabled", data: { id: gone.id } });
    await createTask(tenant, "Two");
    expect(await statusesOf(tenant, gone.id)).toEqual(["held", "failed"]);
    for (const [query, statuses] of [
      ["?status=held&status=failed", ["held", "failed"]],
      ["?status=delivered&status=failed&event_type=task.created&event_type=task.updated", ["failed"]],
      ["?status=pending&status=delivered", []],
      ["?event_type=task.updated&event_type=user.created", []],
    ] as const)
      expect(await statusesOf(tenant, gone.id, query), query).toEqual(statuses);
    const path = newPath();
    await call("PATCH", `/api/v1/webhooks/${gone.id}`, { key, body: { status: "active", url: receiver + path } });
    expect(await statusesOf(tenant, gone.id)).toEqual(["held", "failed"]);
    // If the held delivery were sent, its request would arrive before the request for the next event.
    await createTask(tenant, "Three");
    const next = await waitForRequest(path);
    expect(verifyRequest(gone.secret, next)).toMatchObject({ data: { title: "Three" } });
    await vi.waitFor(async () => expect(await statusesOf(tenant, gone.id)).toEqual(["delivered", "held", "failed"]), deliveryWait);
    expect(await receivedAt(path)).toHaveLength(1);
  });
});

describe("A webhook", () => {
  it("signs requests with both secrets until the overlap of a rotation ends, and then only with the new secret", async () => {
    const tenant = await makeTenant();
    const { key } = tenant;
    const { id, path, secret } = await register(key, { event_types: ["task.created"] });
    const rotate = async (overlap_seconds: number): Promise<string> =>
      (await call("POST", `/api/v1/webhooks/${id}/rotate-secret`, { key, body: { overlap_seconds } })).body.secret;
    const second = await rotate(600);
    await createTask(tenant, "Both");
    const first = await waitForRequest(path);
    for (const each of [secret, second]) expect(verifyRequest(each, first)).toMatchObject({ type: "task.created" });
    const third = await rotate(0);
    await createTask(tenant, "New");
    const [, last] = await waitForRequests(path, 2);
    if (!last) throw new Error("the receiver got no second request");
    expect(verifyRequest(third, last)).toMatchObject({ type: "task.created" });
    for (const each of [secret, second]) expect(() => verifyRequest(each, last)).toThrow();
  });

  it("shows its secret once, and D1 stores the secret encrypted", async () => {
    const { key } = await makeTenant();
    const { id, secret } = await register(key);
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect((await call("GET", `/api/v1/webhooks/${id}`, { key })).text).not.toContain("whsec_");
    const row = await readWebhookRow(id);
    expect(row).not.toBeNull();
    expect(JSON.stringify(row)).not.toContain(secret.slice(6));
  });

  it("cannot be created if the account has 20 webhooks", async () => {
    const { key } = await makeTenant();
    for (let index = 0; index < 20; index++) await register(key);
    const { status, body } = await call("POST", "/api/v1/webhooks", { key, body: { url: receiver, event_types: ["*"] } });
    expect([status, body.code]).toEqual([409, "limit_reached"]);
  });

  it("requires the scopes of its event types", async () => {
    const { key } = await makeTenant({ scopes: ["webhooks:read", "webhooks:write", "tasks:read"] });
    const create = (event_types: string[]) => call("POST", "/api/v1/webhooks", { key, body: { url: receiver, event_types } });
    expect((await create(["task.created"])).status).toBe(201);
    expect((await create(["task.created", "user.created"])).body.code).toBe("forbidden");
    expect((await create(["*"])).body.code).toBe("forbidden");
    expect((await call("GET", "/api/v1/events?type=user.created", { key })).body.code).toBe("forbidden");
  });

  it("reports an invalid URL together with all other invalid members", async () => {
    const { key } = await makeTenant();
    const { body } = await call("POST", "/api/v1/webhooks", {
      key,
      body: { url: "https://10.0.0.1/", event_types: ["nope"], colour: "red" },
    });
    expect(body.errors.map(({ pointer }: { pointer: string }) => pointer).sort()).toEqual(["/colour", "/event_types/0", "/url"]);
  });

  it("gets a test event on request, and no other webhook gets it", async () => {
    const tenant = await makeTenant();
    const { key } = tenant;
    const [tested, other] = [await register(key), await register(key)];
    // The request has no body, because all properties of the body are optional.
    const { status, body } = await call("POST", `/api/v1/webhooks/${tested.id}/test`, { key });
    expect(status).toBe(202);
    const request = await waitForRequest(tested.path);
    expect(verifyRequest(tested.secret, request)).toMatchObject({ type: "webhook.test" });
    expect((await readDelivery(tenant, body.delivery_id)).event_type).toBe("webhook.test");
    expect(await receivedAt(other.path)).toEqual([]);
    expect(await deliveriesOf(tenant, other.id)).toEqual([]);
  });
});

describe("The response of a receiver", () => {
  it("is shown only with the scope of the event, because it may repeat the data of the event", async () => {
    const tenant = await makeTenant();
    const narrow = await makeKey(tenant.accountId, { scopes: ["webhooks:read"] });
    const { id } = await register(tenant.key, { event_types: ["task.created"] });
    await createTask(tenant, "Confidential");
    await vi.waitFor(async () => expect(await statusesOf(tenant, id)).toEqual(["delivered"]), deliveryWait);
    const [delivery] = await deliveriesOf(tenant, id);
    const path = `/api/v1/deliveries/${delivery.id}`;
    await setResponseBody(delivery.id, "Confidential");
    expect((await call("GET", path, { key: tenant.key })).body.attempts[0].response_body).toBe("Confidential");
    const denied = await call("GET", path, { key: narrow.key });
    expect([denied.status, denied.body.code, denied.text.includes("Confidential")]).toEqual([403, "forbidden", false]);
    expect((await call("GET", `/api/v1/webhooks/${id}/deliveries`, { key: narrow.key })).text).not.toContain("Confidential");
  });
});

describe("The queue consumer", () => {
  const batchOf = (queue: string, bodies: readonly unknown[]) =>
    createMessageBatch<DeliveryMessage>(
      queue,
      bodies.map((body, index) => ({ id: String(index), timestamp: new Date(), attempts: 1, body: body as DeliveryMessage })),
    );
  const messagesFor = (...deliveryIds: string[]) => deliveryIds.map((deliveryId) => ({ deliveryId }));

  it("acknowledges each message whose delivery started, and retries the others", async () => {
    const batch = batchOf("developer-overview-deliveries", messagesFor("dlv_good", "dlv_bad"));
    const deliver = (id: string) => (id === "dlv_bad" ? Promise.reject(new Error("no room")) : Promise.resolve());
    await consume(batch, env.DEAD_DELIVERIES_QUEUE, deliver);
    const { explicitAcks, retryMessages } = await getQueueResult(batch, createExecutionContext());
    expect([explicitAcks, retryMessages.map(({ msgId }) => msgId)]).toEqual([["0"], ["1"]]);
  });

  it.each([null, undefined, 7, "dlv_1", {}, { deliveryId: 7 }, { deliveryId: null }])(
    "acknowledges the invalid message %j and still starts the other deliveries of the batch",
    async (body) => {
      const batch = batchOf("developer-overview-deliveries", [body, ...messagesFor("dlv_good")]);
      const started: string[] = [];
      await consume(batch, env.DEAD_DELIVERIES_QUEUE, async (id) => void started.push(id));
      expect(started).toEqual(["dlv_good"]);
      expect((await getQueueResult(batch, createExecutionContext())).explicitAcks.toSorted()).toEqual(["0", "1"]);
    },
  );

  it("acknowledges all messages of the dead letter queue without starting deliveries, which the sweep retries", async () => {
    const batch = batchOf("developer-overview-dead-deliveries", messagesFor("dlv_a", "dlv_b"));
    await consume(batch, env.DEAD_DELIVERIES_QUEUE, () => Promise.reject(new Error("not to be called")));
    expect((await getQueueResult(batch, createExecutionContext())).ackAll).toBe(true);
  });
});

it("A test event that fails has one attempt, and neither makes the webhook failing nor counts in its rate", async () => {
  const tenant = await makeTenant();
  const { key } = tenant;
  const webhook = await register(key, { event_types: [sampleType] }, newPath("fail"));
  const test = async () => (await call("POST", `/api/v1/webhooks/${webhook.id}/test`, { key })).body.delivery_id as string;
  const { attempts, status, next_attempt_at: next } = await waitForAttempts(tenant, await test(), 1);
  expect([attempts[0].status, status, next]).toEqual([500, "failed", null]);
  expect((await call("GET", `/api/v1/webhooks/${webhook.id}`, { key })).body.status).toBe("active");
  const { get } = browse(tenant.accountId);
  expect(textOf(await get("/webhooks"))).toMatch(/not used yet/);
  const tested = await get(`/webhooks/${webhook.id}?tested=${await test()}`);
  expect(textOf(tested)).toContain("of the latest 0 attempts");
  expect(tested.text).not.toContain("Failing since");
});
