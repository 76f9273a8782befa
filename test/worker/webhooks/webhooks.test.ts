import { createExecutionContext, createMessageBatch, getQueueResult } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { consume } from "../../../src/webhooks/consume.ts";
import type { DeliveryMessage } from "../../../src/webhooks/enqueue.ts";
import { call, makeKey, makeTenant } from "../support/client.ts";
import { deliveriesOf, newPath, receivedAt, receiver, register, until, verified } from "../support/receiver.ts";

describe("A delivery", () => {
  it("that fails is tried again later, and says why and what to do", async () => {
    const tenant = await makeTenant();
    const { key } = tenant;
    for (const [behaviour, error, status] of [
      ["fail", "status", 500],
      ["redirect", "redirect", 302],
    ] as const) {
      const { id } = await register(key, { event_types: ["task.created"] }, newPath(behaviour));
      await call("POST", "/api/v1/tasks", { key, body: { title: "Fail" } });
      const [delivery] = await until(
        () => deliveriesOf(tenant, id),
        ([first]) => first?.next_attempt_at !== first?.created_at,
      );
      expect(delivery).toMatchObject({ status: "pending", attempts_made: 1, event_type: "task.created", redelivery_of: null });
      const { attempts } = (await call("GET", `/api/v1/deliveries/${delivery.id}`, { key })).body;
      expect(attempts).toMatchObject([{ status, error }]);
      // From the attempt, since a busy machine may begin it late.
      const waitMs = Date.parse(delivery.next_attempt_at) - Date.parse(attempts[0].at);
      expect(waitMs).toBeGreaterThanOrEqual(4000);
      expect(waitMs).toBeLessThan(6000 + attempts[0].duration_ms + 1000);
      expect(attempts[0].advice).toMatch(/\.$/);
      expect((await call("GET", `/api/v1/webhooks/${id}`, { key })).body.status).toBe("failing");
      await call("DELETE", `/api/v1/webhooks/${id}`, { key });
    }
  });

  it("waits as long as a busy receiver asks", async () => {
    const tenant = await makeTenant();
    const { id } = await register(tenant.key, {}, newPath("busy"));
    const before = Date.now();
    await call("POST", "/api/v1/tasks", { key: tenant.key, body: { title: "Busy" } });
    const [delivery] = await until(
      () => deliveriesOf(tenant, id),
      ([first]) => first?.next_attempt_at !== first?.created_at,
    );
    expect(Date.parse(delivery.next_attempt_at) - before).toBeGreaterThanOrEqual(7000);
  });

  it("of a receiver that is gone disables the webhook, tells the others, and holds what comes", async () => {
    const tenant = await makeTenant();
    const { key } = tenant;
    const witness = await register(key, { event_types: ["webhook.disabled"] });
    const gone = await register(key, { event_types: ["task.created"] }, newPath("gone"));
    await call("POST", "/api/v1/tasks", { key, body: { title: "One" } });
    const webhook = await until(
      async () => (await call("GET", `/api/v1/webhooks/${gone.id}`, { key })).body,
      ({ status }) => status === "disabled",
    );
    expect(webhook).toMatchObject({ status: "disabled", disabled_reason: "The receiver answered 410 Gone." });
    const [told] = await until(
      () => receivedAt(witness.path),
      (seen) => seen.length > 0,
    );
    expect(told && verified(witness.secret, told)).toMatchObject({ type: "webhook.disabled", data: { id: gone.id } });
    await call("POST", "/api/v1/tasks", { key, body: { title: "Two" } });
    expect((await deliveriesOf(tenant, gone.id)).map(({ status }: { status: string }) => status)).toEqual(["held", "failed"]);
    for (const [query, found] of [
      ["?status=held&status=failed", ["held", "failed"]],
      ["?status=delivered&status=failed&event_type=task.created&event_type=task.updated", ["failed"]],
      ["?status=pending&status=delivered", []],
      ["?event_type=task.updated&event_type=user.created", []],
    ] as const)
      expect(
        (await deliveriesOf(tenant, gone.id, query)).map(({ status }: { status: string }) => status),
        query,
      ).toEqual(found);
    await call("PATCH", `/api/v1/webhooks/${gone.id}`, { key, body: { status: "active", url: receiver + newPath() } });
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect((await deliveriesOf(tenant, gone.id)).map(({ status }: { status: string }) => status)).toEqual(["held", "failed"]);
  });
});

describe("A webhook", () => {
  it("has its secret rotated: both sign until the overlap ends, then the new one alone", async () => {
    const { key } = await makeTenant();
    const { id, path, secret } = await register(key, { event_types: ["task.created"] });
    const { body } = await call("POST", `/api/v1/webhooks/${id}/rotate-secret`, { key, body: { overlap_seconds: 600 } });
    await call("POST", "/api/v1/tasks", { key, body: { title: "Both" } });
    const [both] = await until(
      () => receivedAt(path),
      (seen) => seen.length === 1,
    );
    for (const each of [secret, body.secret]) expect(both && verified(each, both)).toMatchObject({ type: "task.created" });
    const last = (await call("POST", `/api/v1/webhooks/${id}/rotate-secret`, { key, body: { overlap_seconds: 0 } })).body.secret;
    await call("POST", "/api/v1/tasks", { key, body: { title: "New" } });
    const [, alone] = await until(
      () => receivedAt(path),
      (seen) => seen.length === 2,
    );
    if (!alone) throw new Error("nothing came");
    expect(verified(last, alone)).toMatchObject({ type: "task.created" });
    for (const each of [secret, body.secret]) expect(() => verified(each, alone)).toThrow();
  });

  it("shows its secret once, and D1 holds it encrypted", async () => {
    const { key, accountId } = await makeTenant();
    const { id, secret } = await register(key);
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect((await call("GET", `/api/v1/webhooks/${id}`, { key })).text).not.toContain("whsec_");
    const row = await env.DB.prepare("SELECT * FROM webhooks WHERE account_id = ?").bind(accountId).first();
    expect(JSON.stringify(row)).not.toContain(secret.slice(6));
  });

  it("refuses URLs that it may not call, and says why", async () => {
    const { key } = await makeTenant();
    for (const url of ["ftp://example.org/", "https://10.0.0.1/", "https://user:pw@acme.dev/", "https://intranet/", "nonsense"]) {
      const { status, body } = await call("POST", "/api/v1/webhooks", { key, body: { url, event_types: ["*"] } });
      expect([url, status, body.errors?.[0]?.pointer]).toEqual([url, 422, "/url"]);
    }
  });

  it("is the twentieth of an account at most", async () => {
    const { key } = await makeTenant();
    for (let index = 0; index < 20; index++) await register(key);
    const { status, body } = await call("POST", "/api/v1/webhooks", { key, body: { url: receiver, event_types: ["*"] } });
    expect([status, body.code]).toEqual([409, "limit_reached"]);
  });

  it("asks for the scope of what its events are about", async () => {
    const { key } = await makeTenant({ scopes: ["webhooks:read", "webhooks:write", "tasks:read"] });
    const create = (event_types: string[]) => call("POST", "/api/v1/webhooks", { key, body: { url: receiver, event_types } });
    expect((await create(["task.created"])).status).toBe(201);
    expect((await create(["task.created", "user.created"])).body.code).toBe("forbidden");
    expect((await create(["*"])).body.code).toBe("forbidden");
    expect((await call("GET", "/api/v1/events?type=user.created", { key })).body.code).toBe("forbidden");
  });

  it("tells the others when a call disables it, once", async () => {
    const { key } = await makeTenant();
    const witness = await register(key, { event_types: ["webhook.disabled"] });
    const { id } = await register(key, { event_types: ["task.created"] });
    for (let time = 0; time < 2; time++) await call("PATCH", `/api/v1/webhooks/${id}`, { key, body: { status: "disabled" } });
    const [told] = await until(
      () => receivedAt(witness.path),
      (seen) => seen.length > 0,
    );
    expect(told && verified(witness.secret, told)).toMatchObject({
      data: { id, status: "disabled", disabled_reason: "It was disabled by a call." },
    });
    await call("POST", "/api/v1/tasks", { key, body: { title: "Held" } });
    expect(await receivedAt(witness.path)).toHaveLength(1);
  });

  it("names its URL beside every other bad member", async () => {
    const { key } = await makeTenant();
    const { body } = await call("POST", "/api/v1/webhooks", {
      key,
      body: { url: "https://10.0.0.1/", event_types: ["nope"], colour: "red" },
    });
    expect(body.errors.map(({ pointer }: { pointer: string }) => pointer).sort()).toEqual(["/colour", "/event_types/0", "/url"]);
  });

  it("is sent a test on demand, it alone", async () => {
    const { key } = await makeTenant();
    const [tested, other] = [await register(key), await register(key)];
    // With no member to send, the body may be left out.
    const { status, body } = await call("POST", `/api/v1/webhooks/${tested.id}/test`, { key });
    expect(status).toBe(202);
    const [one] = await until(
      () => receivedAt(tested.path),
      (seen) => seen.length > 0,
    );
    expect(one && verified(tested.secret, one)).toMatchObject({ type: "webhook.test" });
    expect((await call("GET", `/api/v1/deliveries/${body.delivery_id}`, { key })).body.event_type).toBe("webhook.test");
    expect(await receivedAt(other.path)).toEqual([]);
  });
});

describe("What a receiver answered", () => {
  it("is shown with the scope of the event alone, since it may be what the receiver was sent", async () => {
    const tenant = await makeTenant();
    const lesser = await makeKey(tenant.accountId, { scopes: ["webhooks:read"] });
    const { id } = await register(tenant.key, { event_types: ["task.created"] });
    await call("POST", "/api/v1/tasks", { key: tenant.key, body: { title: "Confidential" } });
    const [delivery] = await until(
      () => deliveriesOf(tenant, id),
      ([first]) => first?.status === "delivered",
    );
    const path = `/api/v1/deliveries/${delivery.id}`;
    await env.DB.prepare("UPDATE attempts SET response_body = 'Confidential' WHERE delivery_id = ?").bind(delivery.id).run();
    expect((await call("GET", path, { key: tenant.key })).body.attempts[0].response_body).toBe("Confidential");
    const refused = await call("GET", path, { key: lesser.key });
    expect([refused.status, refused.body.code, refused.text.includes("Confidential")]).toEqual([403, "forbidden", false]);
    expect((await call("GET", `/api/v1/webhooks/${id}/deliveries`, { key: lesser.key })).text).not.toContain("Confidential");
  });
});

describe("Two webhooks whose ids end alike", () => {
  it("both get each event: the ids of their deliveries differ", async () => {
    const tenant = await makeTenant();
    const [one, other] = [await register(tenant.key), await register(tenant.key)];
    // As random as ids are, two of an account's may have the same last characters.
    const twin = other.id.slice(0, -12) + one.id.slice(-12);
    await env.DB.prepare("UPDATE webhooks SET id = ? WHERE id = ?").bind(twin, other.id).run();
    await call("POST", "/api/v1/users", { key: tenant.key, body: { name: "Ada", email: "ada@example.com" } });
    const all = [...(await deliveriesOf(tenant, one.id)), ...(await deliveriesOf(tenant, twin))];
    expect(all.map(({ webhook_id }) => webhook_id)).toEqual([one.id, twin]);
    expect(all[0].id).not.toBe(all[1].id);
    expect(all[0].id).toMatch(/^dlv_[0-9a-f]{32}$/);
  });
});

describe("The queue", () => {
  const batchOf = (queue: string, deliveryIds: string[]) =>
    createMessageBatch<DeliveryMessage>(
      queue,
      deliveryIds.map((deliveryId, index) => ({ id: String(index), timestamp: new Date(), attempts: 1, body: { deliveryId } })),
    );

  it("has each message acknowledged that a delivery took over, and the others tried again", async () => {
    const batch = batchOf("developer-overview-deliveries", ["dlv_good", "dlv_bad"]);
    const deliver = (id: string) => (id === "dlv_bad" ? Promise.reject(new Error("no room")) : Promise.resolve());
    await consume(batch, env.DEAD_DELIVERIES_QUEUE, deliver);
    const { explicitAcks, retryMessages } = await getQueueResult(batch, createExecutionContext());
    expect([explicitAcks, retryMessages.map(({ msgId }) => msgId)]).toEqual([["0"], ["1"]]);
  });

  it.each([null, undefined, 7, "dlv_1", {}, { deliveryId: 7 }, { deliveryId: null }])(
    "has a message that is none of ours (%j) reported and acknowledged, and holds up no other for it",
    async (body) => {
      const messages = [body, { deliveryId: "dlv_good" }].map((each, index) => ({
        id: String(index),
        timestamp: new Date(),
        attempts: 1,
        body: each as DeliveryMessage,
      }));
      const batch = createMessageBatch<DeliveryMessage>("developer-overview-deliveries", messages);
      const delivered: string[] = [];
      await consume(batch, env.DEAD_DELIVERIES_QUEUE, async (id) => void delivered.push(id));
      expect(delivered).toEqual(["dlv_good"]);
      expect((await getQueueResult(batch, createExecutionContext())).explicitAcks.toSorted()).toEqual(["0", "1"]);
    },
  );

  it("has its messages delivered with any name, as long as it is not the dead letter queue", async () => {
    const batch = batchOf("our-dead-letters-deliveries", ["dlv_a"]);
    const delivered: string[] = [];
    await consume(batch, env.DEAD_DELIVERIES_QUEUE, async (id) => void delivered.push(id));
    expect(delivered).toEqual(["dlv_a"]);
  });

  it("has what it gave up taken from it, since the sweep goes on with it", async () => {
    const batch = batchOf("developer-overview-dead-deliveries", ["dlv_a", "dlv_b"]);
    await consume(batch, env.DEAD_DELIVERIES_QUEUE, () => Promise.reject(new Error("not to be called")));
    expect((await getQueueResult(batch, createExecutionContext())).ackAll).toBe(true);
  });
});
