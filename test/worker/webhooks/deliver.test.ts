import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { connect } from "../../../src/db/client.ts";
import { dayMs, minuteMs, secondMs } from "../../../src/lib/time/clock.ts";
import type { DeliveryMessage } from "../../../src/outbox/enqueue.ts";
import { sweepDeliveries } from "../../../src/webhooks/deliveries/sweep.ts";
import { call, cron, db, makeTenant, type Tenant } from "../support/client.ts";
import { d1With } from "../support/d1.ts";
import { hurryTimeouts } from "../support/real-time.ts";
import {
  attemptDelivery,
  makeDueDelivery,
  newPath,
  readDelivery,
  receivedAt,
  receiver,
  sampleType,
  waitForAttempts,
  waitForRequest,
} from "../support/receiver.ts";
import {
  deleteAllDeliveries,
  deleteDeliveries,
  deleteEvents,
  readAttemptRows,
  setFailingSince,
  setWebhookUrl,
} from "../support/webhook-rows.ts";

/** An address at which no server listens. */
const closedPort = "http://127.0.0.1:1/";

const readWebhook = async ({ key }: Tenant, webhookId: string) => (await call("GET", `/api/v1/webhooks/${webhookId}`, { key })).body;

/** Returns a `fetch` that runs an action before it sends each request. During the action, the attempt is already in flight. */
const fetchAfter =
  (action: () => Promise<unknown>): typeof fetch =>
  async (input, init) => {
    await action();
    return fetch(input, init);
  };

/** Inserts `count` overdue copies of the only delivery of a webhook. The copies become due in the order of their ids. */
const insertOverdueDeliveries = (webhookId: string, count: number) =>
  env.DB.prepare(
    `INSERT INTO deliveries
        (id, account_id, webhook_id, event_id, event_type, status, attempts_made, next_attempt_at, claimed_until, created_at)
      SELECT 'dlv_' || printf('%032x', made.value), account_id, webhook_id, event_id, event_type, 'pending', 0, made.value, 0, 0
      FROM deliveries, json_each(?) AS made WHERE webhook_id = ?`,
  )
    .bind(JSON.stringify(Array.from({ length: count }, (_, index) => index)), webhookId)
    .run();

it("A delivery that is started 20 times at once is sent once", async () => {
  const tenant = await makeTenant();
  const { deliveryId, path } = await makeDueDelivery(tenant);
  await Promise.all(Array.from({ length: 20 }, () => attemptDelivery(deliveryId)));
  await attemptDelivery(deliveryId);
  expect(await receivedAt(path)).toHaveLength(1);
  expect(await readDelivery(tenant, deliveryId)).toMatchObject({ status: "delivered", attempts_made: 1 });
});

it("The sweep sends a delivery whose queue message was lost", async () => {
  const tenant = await makeTenant();
  const { path } = await makeDueDelivery(tenant);
  await cron();
  expect(await receivedAt(path)).toEqual([]);
  await cron(Date.now() + 10_000);
  await waitForRequest(path);
});

it("The sweep starts deliveries directly if the queue is unavailable", async () => {
  const tenant = await makeTenant();
  const { deliveryId } = await makeDueDelivery(tenant);
  const started: string[] = [];
  const queue = { sendBatch: () => Promise.reject(new Error("queue down")) } as unknown as Queue<DeliveryMessage>;
  await sweepDeliveries({ db, queue, deliver: async (id) => void started.push(id) }, Date.now() + 10_000, "", 1000);
  expect(started).toContain(deliveryId);
});

it("A delivery is sent again with the same id, after its lease expires, if the Worker crashes after the POST", async () => {
  const tenant = await makeTenant();
  const { deliveryId, path } = await makeDueDelivery(tenant);
  let hasCrashed = false;
  const connectionLost = new Error("D1_ERROR: Network connection lost");
  // The first batch of an attempt records the result of the attempt.
  const crashingD1 = d1With(env.DB, {
    prepare(query) {
      if (hasCrashed) throw connectionLost;
      return env.DB.prepare(query);
    },
    async batch() {
      hasCrashed = true;
      throw connectionLost;
    },
  });
  await expect(attemptDelivery(deliveryId, { db: connect(crashingD1) })).rejects.toThrow();
  await attemptDelivery(deliveryId);
  expect(await receivedAt(path)).toHaveLength(1);
  await attemptDelivery(deliveryId, { now: () => Date.now() + minuteMs });
  const [first, second, ...others] = await receivedAt(path);
  expect(second?.headers["webhook-id"]).toBe(first?.headers["webhook-id"]);
  expect(others).toEqual([]);
  expect((await readDelivery(tenant, deliveryId)).status).toBe("delivered");
});

it("A delivery is not retried if its webhook is deleted during the attempt", async () => {
  const tenant = await makeTenant();
  const { deliveryId, webhookId } = await makeDueDelivery(tenant, newPath("fail"));
  const deleteWebhook = () => call("DELETE", `/api/v1/webhooks/${webhookId}`, { key: tenant.key });
  await attemptDelivery(deliveryId, { fetch: fetchAfter(deleteWebhook) });
  expect(await readDelivery(tenant, deliveryId)).toMatchObject({ status: "failed", next_attempt_at: null, attempts: [{ status: 500 }] });
});

it("The result of an attempt is not recorded if a later attempt has claimed the delivery", async () => {
  const tenant = await makeTenant();
  const { deliveryId, webhookId, path } = await makeDueDelivery(tenant, newPath("fail"));
  const makeLaterAttempt = async () => {
    await setWebhookUrl(webhookId, receiver + path.replace("/fail/", "/take/"));
    await attemptDelivery(deliveryId, { now: () => Date.now() + 2 * minuteMs });
  };
  await attemptDelivery(deliveryId, { fetch: fetchAfter(makeLaterAttempt) });
  expect(await receivedAt(path)).toHaveLength(1);
  // Both attempts count. The Worker counts each attempt before the POST, so lost results cannot cause endless attempts.
  expect(await readDelivery(tenant, deliveryId)).toMatchObject({ status: "delivered", attempts_made: 2, attempts: [{ status: 204 }] });
});

it("A delivery whose results D1 cannot store is sent at most ten times and then fails", async () => {
  const tenant = await makeTenant();
  const { deliveryId, path } = await makeDueDelivery(tenant, newPath("fail"));
  const batch = () => Promise.reject(new Error("D1_ERROR: database or disk is full: SQLITE_FULL"));
  const fullDb = connect(d1With(env.DB, { batch }));
  for (let minutes = 0; minutes < 15; minutes++) {
    const at = Date.now() + minutes * 2 * minuteMs;
    await attemptDelivery(deliveryId, { db: fullDb, now: () => at }).catch(() => {});
  }
  expect(await receivedAt(path)).toHaveLength(10);
  expect(await readDelivery(tenant, deliveryId)).toMatchObject({ status: "failed", attempts_made: 10, next_attempt_at: null });
});

it("A webhook that has failed for five days is disabled, and its deliveries are held", async () => {
  const tenant = await makeTenant();
  const { deliveryId, webhookId } = await makeDueDelivery(tenant, newPath("fail"));
  await setFailingSince(webhookId, Date.now() - (5 * dayMs - minuteMs));
  await attemptDelivery(deliveryId);
  expect((await readWebhook(tenant, webhookId)).status).toBe("failing");
  await setFailingSince(webhookId, Date.now() - 5 * dayMs);
  await attemptDelivery(deliveryId, { now: () => Date.now() + minuteMs });
  const { status, disabled_reason } = await readWebhook(tenant, webhookId);
  expect([status, disabled_reason]).toEqual(["disabled", "All attempts within five days have failed."]);
  expect((await readDelivery(tenant, deliveryId)).status).toBe("held");
});

it("A successful attempt makes a failing webhook active again", async () => {
  const tenant = await makeTenant();
  const { deliveryId, webhookId } = await makeDueDelivery(tenant);
  await setFailingSince(webhookId, Date.now() - dayMs);
  await attemptDelivery(deliveryId);
  expect((await readWebhook(tenant, webhookId)).status).toBe("active");
});

describe("The stored response of an attempt", () => {
  /** Returns a `fetch` that responds with status 500 and long headers. Each response has the next of the given bodies. */
  const failWith = (...bodies: (string | Uint8Array)[]) => {
    let requests = 0;
    return async () =>
      new Response(bodies[requests++], { status: 500, headers: { "X-Long": "y".repeat(1500), "X-Longer": "z".repeat(1500) } });
  };

  it("has at most 128 bytes of the body and 376 bytes of headers after a success", async () => {
    const tenant = await makeTenant();
    const { deliveryId } = await makeDueDelivery(tenant, newPath("flood"));
    await attemptDelivery(deliveryId);
    const { status, attempts } = await readDelivery(tenant, deliveryId);
    expect([status, attempts[0].response_body.length]).toEqual(["delivered", 128]);
    expect(attempts[0].response_headers).not.toEqual({});
    expect(await readAttemptRows(deliveryId)).toMatchObject([{ body_is_cut: 1, row_bytes: 0 }]);
  });

  it("has 16 KiB of the latest failure, 1,024 characters of earlier failures, and 2 KiB of headers", async () => {
    const tenant = await makeTenant();
    const { deliveryId } = await makeDueDelivery(tenant);
    let now = Date.now();
    const fetch = failWith("a".repeat(20_000), "short", new Uint8Array(20_000).fill(255), "d".repeat(16 * 1024));
    /** Makes the next attempt. Returns the lengths of all stored response bodies, in bytes. */
    const bodyLengthsAfterAttempt = async () => {
      await attemptDelivery(deliveryId, { fetch, now: () => now });
      const { attempts, next_attempt_at } = await readDelivery(tenant, deliveryId);
      now = Date.parse(next_attempt_at);
      return attempts.map(({ response_body }: { response_body: string }) => Buffer.byteLength(response_body));
    };
    expect(await bodyLengthsAfterAttempt()).toEqual([16 * 1024]);
    expect(await bodyLengthsAfterAttempt()).toEqual([1024, 5]);
    // Each byte that is not valid UTF-8 becomes a replacement character of three bytes.
    const [, , third] = await bodyLengthsAfterAttempt();
    expect(third).toBeGreaterThan(16 * 1024 - 3);
    expect(third).toBeLessThanOrEqual(16 * 1024);
    expect(await bodyLengthsAfterAttempt()).toEqual([1024, 5, 3 * 1024, 16 * 1024]);
    const { attempts } = await readDelivery(tenant, deliveryId);
    for (const { response_headers } of attempts)
      expect(["x-long" in response_headers, "x-longer" in response_headers]).toEqual([true, false]);
    expect((await readAttemptRows(deliveryId)).map(({ body_is_cut }) => body_is_cut)).toEqual([1, 0, 1, 0]);
  });

  it("has replacement characters instead of NUL characters, at which D1 would end the text", async () => {
    const tenant = await makeTenant();
    const { deliveryId } = await makeDueDelivery(tenant);
    await attemptDelivery(deliveryId, { fetch: failWith(`a\0${"b".repeat(2000)}`) });
    const { attempts } = await readDelivery(tenant, deliveryId);
    expect(attempts[0].response_body).toBe(`a\ufffd${"b".repeat(2000)}`);
  });
});

it("An attempt fails with a timeout if the receiver does not respond within 15 seconds", async () => {
  const tenant = await makeTenant();
  const { deliveryId, webhookId } = await makeDueDelivery(tenant, newPath("hang"));
  const timeouts = hurryTimeouts();
  await attemptDelivery(deliveryId);
  expect((await readDelivery(tenant, deliveryId)).attempts).toMatchObject([{ status: null, error: "timeout" }]);
  expect(timeouts).toContain(15 * secondMs);
  // With a closed port, the retries of this delivery fail at once and do not hang.
  await setWebhookUrl(webhookId, closedPort);
});

it("An attempt fails as unreachable if no server listens at the URL", async () => {
  const { deliveryId, webhookId } = await makeDueDelivery(await makeTenant());
  await setWebhookUrl(webhookId, closedPort);
  await attemptDelivery(deliveryId);
  expect(await readAttemptRows(deliveryId)).toMatchObject([{ error: "unreachable", advice: expect.stringContaining("certificate") }]);
});

it("An attempt fails if its URL is no longer allowed, and sends no request", async () => {
  const tenant = await makeTenant();
  const { deliveryId, path } = await makeDueDelivery(tenant);
  await attemptDelivery(deliveryId, { urls: { isLocal: false, ownHosts: [] } });
  expect((await readDelivery(tenant, deliveryId)).attempts).toMatchObject([{ status: null, error: "refused_url" }]);
  expect(await receivedAt(path)).toEqual([]);
});

it("A webhook URL that points to a host of the deployment is denied on creation and on each attempt", async () => {
  const tenant = await makeTenant();
  for (const host of ["overview.acme.dev", "OVERVIEW.acme.dev", "overview.acme.workers.dev", "overview.acme.dev:444"]) {
    const { status, body } = await call("POST", "/api/v1/webhooks", {
      key: tenant.key,
      body: { url: `https://${host}/x`, event_types: ["*"] },
    });
    expect([status, body.errors?.[0]], host).toMatchObject([422, { pointer: "/url", code: "refused_url" }]);
  }
  const { deliveryId, webhookId } = await makeDueDelivery(tenant);
  await setWebhookUrl(webhookId, "https://overview.acme.dev/x");
  await env.DELIVERIES.send({ deliveryId });
  const { attempts } = await waitForAttempts(tenant, deliveryId, 1);
  expect(attempts).toMatchObject([{ status: null, error: "refused_url" }]);
});

it("The runtime does not route fetches for the operator's own zone to the origin of the zone", () => {
  expect(Cloudflare.compatibilityFlags.global_fetch_strictly_public).toBe(true);
});

it("A delivery stays held if its webhook is disabled during an attempt, and is not sent when the webhook is enabled", async () => {
  const tenant = await makeTenant();
  const { deliveryId, webhookId } = await makeDueDelivery(tenant, newPath("fail"));
  const setStatus = (status: string) => call("PATCH", `/api/v1/webhooks/${webhookId}`, { key: tenant.key, body: { status } });
  await attemptDelivery(deliveryId, { fetch: fetchAfter(() => setStatus("disabled")) });
  expect(await readDelivery(tenant, deliveryId)).toMatchObject({ status: "held", next_attempt_at: null, attempts: [{ status: 500 }] });
  await setStatus("active");
  await attemptDelivery(deliveryId, { now: () => Date.now() + dayMs });
  expect((await readDelivery(tenant, deliveryId)).attempts).toHaveLength(1);
});

it.each([
  ["description", "is disabled", { description: "Changed" }, { webhook: "disabled", delivery: "failed" }],
  ["URL", "stays active", { url: "http://127.0.0.1:4000/elsewhere" }, { webhook: "active", delivery: "pending" }],
] as const)("A webhook whose %s changes during an attempt %s after a 410 response", async (_, __, change, statuses) => {
  const tenant = await makeTenant();
  const { deliveryId, webhookId } = await makeDueDelivery(tenant, newPath("gone"));
  const changeWebhook = () => call("PATCH", `/api/v1/webhooks/${webhookId}`, { key: tenant.key, body: change });
  await attemptDelivery(deliveryId, { fetch: fetchAfter(changeWebhook) });
  expect((await readWebhook(tenant, webhookId)).status).toBe(statuses.webhook);
  expect((await readDelivery(tenant, deliveryId)).status).toBe(statuses.delivery);
});

it("A webhook is not disabled after five days of failures if an attempt succeeded in between", async () => {
  const tenant = await makeTenant();
  const { deliveryId, webhookId } = await makeDueDelivery(tenant, newPath("fail"));
  await setFailingSince(webhookId, Date.now() - 6 * dayMs);
  await attemptDelivery(deliveryId, { fetch: fetchAfter(() => setFailingSince(webhookId, null)) });
  expect((await readWebhook(tenant, webhookId)).status).toBe("failing");
});

it("A delivery is postponed without an attempt if the secret of its webhook cannot be decrypted", async () => {
  const tenant = await makeTenant();
  const { deliveryId } = await makeDueDelivery(tenant);
  await expect(attemptDelivery(deliveryId, { encryption: [{ name: "z", secret: "another" }] })).rejects.toThrow("not among the secrets");
  const { status, attempts_made, next_attempt_at } = await readDelivery(tenant, deliveryId);
  expect([status, attempts_made]).toEqual(["pending", 0]);
  expect(Date.parse(next_attempt_at)).toBeGreaterThan(Date.now() + 4 * minuteMs);
});

it("An event that was deleted after its retention is neither sent nor redelivered", async () => {
  const tenant = await makeTenant();
  const { deliveryId, path } = await makeDueDelivery(tenant);
  await deleteEvents(tenant.accountId, sampleType);
  await attemptDelivery(deliveryId);
  expect([await receivedAt(path), (await readDelivery(tenant, deliveryId)).status]).toEqual([[], "failed"]);
  expect((await call("POST", `/api/v1/deliveries/${deliveryId}/redeliver`, { key: tenant.key })).status).toBe(404);
});

it("The sweep takes ten deliveries of each webhook in turn, so a long queue delays no other webhook", async () => {
  // The sweep covers all accounts, so it would also enqueue deliveries that other tests left behind.
  await deleteAllDeliveries();
  const [busy, quiet] = [await makeTenant(), await makeTenant()];
  const { webhookId } = await makeDueDelivery(busy);
  await insertOverdueDeliveries(webhookId, 500);
  const { deliveryId } = await makeDueDelivery(quiet);
  const sent: { body: DeliveryMessage; delaySeconds: number }[] = [];
  const queue = { sendBatch: async (messages: typeof sent) => void sent.push(...messages) } as unknown as Queue<DeliveryMessage>;
  const sweep = (cursor: string, limit: number) =>
    sweepDeliveries({ db, queue, deliver: async () => {} }, Date.now() + 10_000, cursor, limit);
  // The first two sweeps each enqueue at most ten deliveries. The first sweep enqueues the ten deliveries that have been due longest. The
  // second sweep continues with the next webhook.
  const first = await sweep("", 10);
  expect(first).toEqual({ done: 10, last: webhookId });
  expect(sent.map(({ body }) => body.deliveryId)).toEqual(
    Array.from({ length: 10 }, (_, index) => `dlv_${index.toString(16).padStart(32, "0")}`),
  );
  expect(await sweep(webhookId, 10)).toEqual({ done: 1, last: null });
  expect(sent.slice(10).map(({ body }) => body.deliveryId)).toEqual([deliveryId]);
  // The sweep does not enqueue the same deliveries again while they are reserved, even if the queue is slow.
  expect(await sweep("", 1000)).toEqual({ done: 0, last: null });
  await deleteDeliveries(webhookId);
});
