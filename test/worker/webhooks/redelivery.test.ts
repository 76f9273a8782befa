import { describe, expect, it, vi } from "vitest";
import { attempts } from "../../../src/db/areas/webhooks/tables.ts";
import { newId } from "../../../src/lib/ids.ts";
import { minuteMs } from "../../../src/lib/time/clock.ts";
import { browse, textOf } from "../support/browse.ts";
import { call, db, makeKey, makeTenant } from "../support/client.ts";
import {
  deliveriesOf,
  deliveryWait,
  newPath,
  readDelivery,
  receivedAt,
  receiver,
  register,
  waitForAttempts,
  waitForRequest,
  waitForRequests,
} from "../support/receiver.ts";
import { failAllDeliveries } from "../support/webhook-rows.ts";

const createTask = (key: string, title: string) => call("POST", "/api/v1/tasks", { key, body: { title } });

describe("A redelivery of one delivery", () => {
  it("is a new delivery of the same event", async () => {
    const tenant = await makeTenant();
    const { key } = tenant;
    const { id, path } = await register(key);
    await createTask(key, "Again");
    await waitForRequest(path);
    const [original] = await deliveriesOf(tenant, id);
    const responses = [
      await call("POST", `/api/v1/deliveries/${original.id}/redeliver`, { key }),
      await call("POST", `/api/v1/deliveries/${original.id}/redeliver`, { key }),
    ];
    expect(responses.map(({ status }) => status)).toEqual([202, 202]);
    const requests = await waitForRequests(path, 3);
    expect(new Set(requests.map(({ headers }) => headers["webhook-id"]))).toEqual(new Set([original.event_id]));
    expect(await readDelivery(tenant, responses[0]?.body.id)).toMatchObject({
      event_id: original.event_id,
      redelivery_of: original.id,
    });
  });
});

describe("A redelivery of all matching deliveries", () => {
  it("counts the deliveries first, sends them at a limited rate, and reports its progress", async () => {
    const { key } = await makeTenant();
    const from = new Date(Date.now() - 1000).toISOString();
    const { id, path } = await register(key, { event_types: ["task.created"] });
    await call("PATCH", `/api/v1/webhooks/${id}`, { key, body: { status: "disabled" } });
    for (let index = 0; index < 4; index++) await createTask(key, `Held ${index}`);
    const redeliver = (more: object) => call("POST", `/api/v1/webhooks/${id}/redeliver`, { key, body: { from, ...more } });
    expect(await redeliver({ dry_run: true })).toMatchObject({ status: 200, body: { count: 4 } });
    expect(await redeliver({ to: from })).toMatchObject({
      status: 422,
      body: { code: "invalid_body", errors: [{ pointer: "/from", code: "invalid_span" }] },
    });
    expect((await redeliver({})).status).toBe(409);
    await call("PATCH", `/api/v1/webhooks/${id}`, { key, body: { status: "active" } });
    const startedAt = Date.now();
    const { status, body } = await redeliver({});
    expect([status, body.count]).toEqual([202, 4]);
    const progress = await vi.waitFor(async () => {
      const { body: current } = await call("GET", `/api/v1/redeliveries/${body.id}`, { key });
      expect(current.status).toBe("done");
      return current;
    }, deliveryWait);
    expect(progress).toEqual({ id: body.id, count: 4, sent: 4, status: "done" });
    const requests = await receivedAt(path);
    expect(requests).toHaveLength(4);
    // The fourth event is due 600 ms after the first. A busy machine may send the first event late, so the test measures from the start.
    expect((requests.at(-1)?.at ?? 0) - startedAt).toBeGreaterThan(500);
  });

  it("requires the scopes of the events that it would send, and so does a new URL for waiting deliveries", async () => {
    const { key, accountId } = await makeTenant();
    const { id } = await register(key, { event_types: ["user.created"] }, newPath("fail"));
    await call("POST", "/api/v1/users", { key, body: { name: "Secret", email: "secret@example.com" } });
    await call("PATCH", `/api/v1/webhooks/${id}`, { key, body: { event_types: ["task.created"] } });
    const narrow = await makeKey(accountId, { scopes: ["webhooks:read", "webhooks:write", "tasks:read"] });
    const url = await call("PATCH", `/api/v1/webhooks/${id}`, { key: narrow.key, body: { url: `${receiver}/elsewhere` } });
    expect(url.body.code).toBe("forbidden");
    await failAllDeliveries(accountId);
    const from = new Date(Date.now() - minuteMs).toISOString();
    for (const dry_run of [true, false]) {
      const { body } = await call("POST", `/api/v1/webhooks/${id}/redeliver`, { key: narrow.key, body: { from, dry_run } });
      expect(body.code).toBe("forbidden");
    }
  });

  it("sends each event once if the redelivery is requested several times", async () => {
    const { key } = await makeTenant();
    const { id, path } = await register(key, { event_types: ["task.created"] });
    await call("PATCH", `/api/v1/webhooks/${id}`, { key, body: { status: "disabled" } });
    for (let index = 0; index < 3; index++) await createTask(key, `Held ${index}`);
    await call("PATCH", `/api/v1/webhooks/${id}`, { key, body: { status: "active" } });
    const from = new Date(Date.now() - minuteMs).toISOString();
    const redeliver = (more: object = {}, headers: object = {}) =>
      call("POST", `/api/v1/webhooks/${id}/redeliver`, { key, body: { from, ...more }, ...headers });
    // Both requests may count the same delivery, but only one of the two requests repeats the delivery.
    const [first, second] = await Promise.all([redeliver(), redeliver()]);
    expect([first.status, second.status]).toEqual([202, 202]);
    expect((await redeliver()).body.count).toBe(0);
    await waitForRequests(path, 3);
    expect((await redeliver({ dry_run: true })).body.count).toBe(0);
    const idempotencyKey = { "Idempotency-Key": "count" };
    await redeliver({ dry_run: true }, idempotencyKey);
    const replayed = await redeliver({ dry_run: true }, idempotencyKey);
    expect(replayed.headers.get("Idempotent-Replayed")).toBe("true");
  });
});

describe("The pages of webhooks", () => {
  it("say what the receiver said and when the next attempt is made, and show failing and degraded webhooks first", async () => {
    const tenant = await makeTenant();
    const { accountId, key } = tenant;
    const failing = await register(key, {}, newPath("fail"));
    await createTask(key, "Fails");
    const [delivery] = await deliveriesOf(tenant, failing.id);
    await waitForAttempts(tenant, delivery.id, 1);
    await call("POST", `/api/v1/deliveries/${delivery.id}/attempt`, { key });
    await waitForAttempts(tenant, delivery.id, 2);
    const healthy = await register(key);
    const degraded = await register(key);
    await createTask(key, "Arrives");
    await waitForRequest(degraded.path);
    const [arrived] = await deliveriesOf(tenant, degraded.id);
    await vi.waitFor(async () => expect((await readDelivery(tenant, arrived.id)).status).toBe("delivered"), deliveryWait);
    // An earlier attempt of a delivery that has arrived since.
    await db.insert(attempts).values({
      deliveryId: arrived.id,
      id: newId("att", Date.now() - minuteMs),
      at: Date.now() - minuteMs,
      status: 500,
      durationMs: 1,
      error: "status",
      responseBody: "",
      responseHeaders: {},
    });
    const { get } = browse(accountId);
    const textAt = async (path: string) => textOf(await get(path));
    expect(await textAt(`/webhooks/${failing.id}`)).toMatch(/task\.created evt_\w+ ! 500, trying again in \d+ minutes/);
    expect(await textAt("/")).toMatch(/✕ failing .* ! degraded .* ✓ active/);
    const list = (await get("/webhooks")).text;
    const order = [failing, degraded, healthy].map(({ id }) => list.indexOf(`href="/webhooks/${id}"`));
    expect(order).toEqual(order.toSorted((a, b) => a - b));
    expect(await textAt("/webhooks")).toMatch(/✕ failing .* ! degraded .* ✓ active/);
  });
});
