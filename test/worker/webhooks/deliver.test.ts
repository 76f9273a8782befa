import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { connect } from "../../../src/db/client.ts";
import { dayMs, minuteMs } from "../../../src/time/clock.ts";
import { deliver } from "../../../src/webhooks/deliver.ts";
import { testEvent } from "../../../src/webhooks/events.ts";
import { writeEvents } from "../../../src/webhooks/write-events.ts";
import { call, cron, db, makeTenant, type Tenant } from "../support/client.ts";
import { deliveriesOf, delivering, newPath, receivedAt, register, until } from "../support/receiver.ts";

/** An event with a delivery that nobody has been told of. */
async function unsent(tenant: Tenant, path = newPath()) {
  const { id } = await register(tenant.key, { event_types: ["webhook.test"] }, path);
  await writeEvents({ db }, [testEvent({ accountId: tenant.accountId, id }, Date.now())]);
  const [delivery] = await deliveriesOf(tenant, id);
  expect(delivery.attempts_made).toBe(0);
  return { webhookId: id, path, deliveryId: delivery.id as string };
}

const stateOf = async ({ key }: Tenant, deliveryId: string) => (await call("GET", `/api/v1/deliveries/${deliveryId}`, { key })).body;

it("A delivery takes at most four statements of D1 in two calls where nothing fails", async () => {
  const tenant = await makeTenant();
  const { deliveryId, path } = await unsent(tenant);
  let statements = 0;
  const counted = new Proxy(env.DB, {
    get: (target, name) => {
      const member = Reflect.get(target, name);
      if (name === "prepare") statements++;
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
  await deliver(delivering({ db: connect(counted) }), deliveryId);
  expect(await receivedAt(path)).toHaveLength(1);
  expect((await stateOf(tenant, deliveryId)).status).toBe("delivered");
  // The claim; then the attempt, the result and what is set off next, in one batch.
  expect(statements).toBeLessThanOrEqual(4);
});

it("A delivery that is set off many times at once is sent once", async () => {
  const tenant = await makeTenant();
  const { deliveryId, path } = await unsent(tenant);
  await Promise.all(Array.from({ length: 20 }, () => deliver(delivering(), deliveryId)));
  await deliver(delivering(), deliveryId);
  expect(await receivedAt(path)).toHaveLength(1);
  expect(await stateOf(tenant, deliveryId)).toMatchObject({ status: "delivered", attempts_made: 1 });
});

it("A delivery that was lost with the queue is found by the sweep", async () => {
  const tenant = await makeTenant();
  const { path } = await unsent(tenant);
  await cron();
  expect(await receivedAt(path)).toEqual([]);
  await cron(Date.now() + 10_000);
  expect(
    await until(
      () => receivedAt(path),
      (seen) => seen.length > 0,
    ),
  ).toHaveLength(1);
});

it("A delivery is made by the sweep itself where the queue takes nothing", async () => {
  const tenant = await makeTenant();
  const { deliveryId } = await unsent(tenant);
  const { sweepDeliveries } = await import("../../../src/webhooks/sweep.ts");
  const made: string[] = [];
  const queue = { sendBatch: () => Promise.reject(new Error("queue down")) } as unknown as Queue<{ deliveryId: string }>;
  await sweepDeliveries({ db, queue, deliver: async (id) => void made.push(id) }, Date.now() + 10_000, "", 1000);
  expect(made).toContain(deliveryId);
});

it("A crash after the POST and before its record sends again once the lease has ended, with the same id", async () => {
  const tenant = await makeTenant();
  const { deliveryId, path } = await unsent(tenant);
  let isDead = false;
  const dying = new Proxy(env.DB, {
    get: (target, name) => {
      const member = Reflect.get(target, name);
      if (name === "batch") isDead = true;
      if (isDead)
        return () => {
          throw new Error("D1_ERROR: Network connection lost");
        };
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
  await expect(deliver(delivering({ db: connect(dying) }), deliveryId)).rejects.toThrow();
  await deliver(delivering(), deliveryId);
  expect(await receivedAt(path)).toHaveLength(1);
  await deliver(delivering({ now: () => Date.now() + minuteMs }), deliveryId);
  const [first, second, ...others] = await receivedAt(path);
  expect(second?.headers["webhook-id"]).toBe(first?.headers["webhook-id"]);
  expect(others).toEqual([]);
  expect((await stateOf(tenant, deliveryId)).status).toBe("delivered");
});

it("A webhook that is deleted while a delivery is on its way leaves nothing to try again", async () => {
  const tenant = await makeTenant();
  const { deliveryId, webhookId } = await unsent(tenant, newPath("fail"));
  const meanwhile = async (input: RequestInfo | URL, init?: RequestInit) => {
    await call("DELETE", `/api/v1/webhooks/${webhookId}`, { key: tenant.key });
    return fetch(input, init);
  };
  await deliver(delivering({ fetch: meanwhile }), deliveryId);
  expect(await stateOf(tenant, deliveryId)).toMatchObject({ status: "failed", next_attempt_at: null, attempts: [{ status: 500 }] });
});

it("A redelivery while the delivery itself waits for its next attempt leaves both to go on", async () => {
  const tenant = await makeTenant();
  const { deliveryId, path } = await unsent(tenant, newPath("fail"));
  await deliver(delivering(), deliveryId);
  const { body } = await call("POST", `/api/v1/deliveries/${deliveryId}/redeliver`, { key: tenant.key });
  await until(
    () => stateOf(tenant, body.id),
    ({ attempts }) => attempts.length === 1,
  );
  expect(await receivedAt(path)).toHaveLength(2);
  for (const id of [deliveryId, body.id]) await deliver(delivering({ now: () => Date.now() + minuteMs }), id);
  expect(await receivedAt(path)).toHaveLength(4);
  expect(new Set((await receivedAt(path)).map(({ headers }) => headers["webhook-id"])).size).toBe(1);
});

it("The result of an attempt whose lease another has taken over is not recorded", async () => {
  const tenant = await makeTenant();
  const { deliveryId, path } = await unsent(tenant, newPath("fail"));
  const slowly = async (input: RequestInfo | URL, init?: RequestInit) => {
    await env.DB.prepare("UPDATE webhooks SET url = replace(url, '/fail/', '/take/') WHERE account_id = ?").bind(tenant.accountId).run();
    await deliver(delivering({ now: () => Date.now() + 2 * minuteMs }), deliveryId);
    return fetch(input, init);
  };
  await deliver(delivering({ fetch: slowly }), deliveryId);
  expect(await receivedAt(path)).toHaveLength(1);
  // Both were made, so both are counted: the count is written before the POST, so that a result that is lost makes none endless.
  expect(await stateOf(tenant, deliveryId)).toMatchObject({ status: "delivered", attempts_made: 2, attempts: [{ status: 204 }] });
});

it("A delivery whose results D1 never takes is POSTed ten times at most, and has failed then", async () => {
  const tenant = await makeTenant();
  const { deliveryId, path } = await unsent(tenant, newPath("fail"));
  const full = new Proxy(db, {
    get: (target, name) =>
      name === "batch" ? () => Promise.reject(new Error("D1_ERROR: database or disk is full: SQLITE_FULL")) : Reflect.get(target, name),
  });
  for (let minutes = 0; minutes < 15; minutes++) {
    const at = Date.now() + minutes * 2 * minuteMs;
    await deliver(delivering({ db: full, now: () => at }), deliveryId).catch(() => {});
  }
  expect(await receivedAt(path)).toHaveLength(10);
  expect(await stateOf(tenant, deliveryId)).toMatchObject({ status: "failed", attempts_made: 10, next_attempt_at: null });
});

it("A receiver that has failed for five days is left alone, and what waits for it is held", async () => {
  const tenant = await makeTenant();
  const { deliveryId, webhookId } = await unsent(tenant, newPath("fail"));
  const failingSince = (ms: number) =>
    env.DB.prepare("UPDATE webhooks SET failing_since = ? WHERE account_id = ?")
      .bind(Date.now() - ms, tenant.accountId)
      .run();
  await failingSince(5 * dayMs - minuteMs);
  await deliver(delivering(), deliveryId);
  expect((await call("GET", `/api/v1/webhooks/${webhookId}`, { key: tenant.key })).body.status).toBe("failing");
  await failingSince(5 * dayMs);
  await deliver(delivering({ now: () => Date.now() + minuteMs }), deliveryId);
  const { status, disabled_reason } = (await call("GET", `/api/v1/webhooks/${webhookId}`, { key: tenant.key })).body;
  expect([status, disabled_reason]).toEqual(["disabled", "Every attempt of five days has failed."]);
  expect((await stateOf(tenant, deliveryId)).status).toBe("held");
});

it("A success ends the time of failing", async () => {
  const tenant = await makeTenant();
  const { deliveryId, webhookId } = await unsent(tenant);
  await env.DB.prepare("UPDATE webhooks SET failing_since = ? WHERE account_id = ?")
    .bind(Date.now() - dayMs, tenant.accountId)
    .run();
  await deliver(delivering(), deliveryId);
  expect((await call("GET", `/api/v1/webhooks/${webhookId}`, { key: tenant.key })).body.status).toBe("active");
});

it("A tenth failure is the last", async () => {
  const tenant = await makeTenant();
  const { deliveryId } = await unsent(tenant, newPath("fail"));
  let now = Date.now();
  for (let attempt = 1; attempt <= 10; attempt++) {
    await deliver(delivering({ now: () => now }), deliveryId);
    const { attempts_made, next_attempt_at, status } = await stateOf(tenant, deliveryId);
    expect([attempts_made, status]).toEqual([attempt, attempt < 10 ? "pending" : "failed"]);
    now = Date.parse(next_attempt_at ?? 0);
  }
});

describe("Of a response is kept", () => {
  /** A receiver that responds with what it is told. */
  const responding = (...bodies: (string | Uint8Array)[]) => {
    let made = 0;
    return async () => new Response(bodies[made++], { status: 500, headers: { "X-Long": "y".repeat(1500), "X-Longer": "z".repeat(1500) } });
  };

  it("little where it was taken: 128 bytes, and headers that fit into 376", async () => {
    const tenant = await makeTenant();
    const { deliveryId } = await unsent(tenant, newPath("flood"));
    await deliver(delivering(), deliveryId);
    const { status, attempts } = await stateOf(tenant, deliveryId);
    expect([status, attempts[0].response_body.length]).toEqual(["delivered", 128]);
    expect(attempts[0].response_headers).not.toEqual({});
    const row = await env.DB.prepare("SELECT body_is_cut, row_bytes FROM attempts WHERE delivery_id = ?").bind(deliveryId).first();
    expect(row).toEqual({ body_is_cut: 1, row_bytes: 0 });
  });

  it("of failed attempts 16 KiB of the latest, 1,024 characters of those before, and 2 KiB of headers of each", async () => {
    const tenant = await makeTenant();
    const { deliveryId } = await unsent(tenant);
    let now = Date.now();
    const fetch = responding("a".repeat(20_000), "short", new Uint8Array(20_000).fill(255), "d".repeat(16 * 1024));
    const bodies = async () => {
      await deliver(delivering({ fetch, now: () => now }), deliveryId);
      const { attempts, next_attempt_at } = await stateOf(tenant, deliveryId);
      now = Date.parse(next_attempt_at);
      return attempts.map(({ response_body }: { response_body: string }) => Buffer.byteLength(response_body));
    };
    expect(await bodies()).toEqual([16 * 1024]);
    expect(await bodies()).toEqual([1024, 5]);
    // What is no text takes three bytes for each.
    const [, , third] = await bodies();
    expect(third).toBeGreaterThan(16 * 1024 - 3);
    expect(third).toBeLessThanOrEqual(16 * 1024);
    expect(await bodies()).toEqual([1024, 5, 3 * 1024, 16 * 1024]);
    const { attempts } = await stateOf(tenant, deliveryId);
    for (const { response_headers } of attempts)
      expect(["x-long" in response_headers, "x-longer" in response_headers]).toEqual([true, false]);
    const { results } = await env.DB.prepare("SELECT body_is_cut FROM attempts WHERE delivery_id = ? ORDER BY id").bind(deliveryId).all();
    expect(results.map(({ body_is_cut }) => body_is_cut)).toEqual([1, 0, 1, 0]);
  });

  it("no NUL, at which D1 would take its text to end", async () => {
    const tenant = await makeTenant();
    const { deliveryId } = await unsent(tenant);
    await deliver(delivering({ fetch: responding(`a\0${"b".repeat(2000)}`) }), deliveryId);
    const { attempts } = await stateOf(tenant, deliveryId);
    expect(attempts[0].response_body).toBe(`a\ufffd${"b".repeat(2000)}`);
  });
});

it("A receiver that does not answer for 15 seconds has failed, and one that nobody runs at once", async () => {
  const tenant = await makeTenant();
  const hanging = await unsent(tenant, newPath("hang"));
  await deliver(delivering(), hanging.deliveryId);
  const [late] = (await stateOf(tenant, hanging.deliveryId)).attempts;
  expect(late).toMatchObject({ status: null, error: "timeout" });
  expect(late.duration_ms).toBeGreaterThan(14_000);
  await env.DB.prepare("UPDATE webhooks SET url = 'http://127.0.0.1:1/' WHERE account_id = ?").bind(tenant.accountId).run();
  const { deliveryId } = await unsent(await makeTenant());
  await env.DB.prepare("UPDATE webhooks SET url = 'http://127.0.0.1:1/' WHERE id = (SELECT webhook_id FROM deliveries WHERE id = ?)")
    .bind(deliveryId)
    .run();
  await deliver(delivering(), deliveryId);
  const row = await env.DB.prepare("SELECT error, advice FROM attempts WHERE delivery_id = ?").bind(deliveryId).first();
  expect(row).toEqual({ error: "unreachable", advice: expect.stringContaining("certificate") });
});

it("An attempt has the time at which it was begun, however long its receiver goes on answering", async () => {
  const { deliveryId } = await unsent(await makeTenant());
  const startedAt = Date.now();
  const pull = async (controller: ReadableStreamDefaultController) => {
    await new Promise((resolve) => setTimeout(resolve, 1500));
    controller.close();
  };
  await deliver(delivering({ fetch: async () => new Response(new ReadableStream({ pull })) }), deliveryId);
  const { at } = (await env.DB.prepare("SELECT at FROM attempts WHERE delivery_id = ?").bind(deliveryId).first<{ at: number }>()) ?? {
    at: 0,
  };
  expect(at).toBeGreaterThanOrEqual(startedAt);
  expect(at - startedAt).toBeLessThan(1000);
});

it("A URL that may no longer be called is refused at the attempt", async () => {
  const tenant = await makeTenant();
  const { deliveryId, path } = await unsent(tenant);
  await deliver(delivering({ urls: { isLocal: false, ownHosts: [] } }), deliveryId);
  expect((await stateOf(tenant, deliveryId)).attempts).toMatchObject([{ status: null, error: "refused_url" }]);
  expect(await receivedAt(path)).toEqual([]);
});

it("A webhook that leads to a host of the deployment is refused when it is saved and at the attempt, for every host that was called", async () => {
  const tenant = await makeTenant();
  for (const host of ["overview.acme.dev", "OVERVIEW.acme.dev", "overview.acme.workers.dev", "overview.acme.dev:444"]) {
    const answer = await call("POST", "/api/v1/webhooks", { key: tenant.key, body: { url: `https://${host}/x`, event_types: ["*"] } });
    expect([answer.status, answer.body.errors?.[0]], host).toMatchObject([422, { pointer: "/url", code: "refused_url" }]);
  }
  const { deliveryId, webhookId } = await unsent(tenant);
  await env.DB.prepare("UPDATE webhooks SET url = 'https://overview.acme.dev/x' WHERE id = ?").bind(webhookId).run();
  await env.DELIVERIES.send({ deliveryId });
  const { attempts } = await until(
    () => stateOf(tenant, deliveryId),
    (seen) => seen.attempts.length > 0,
  );
  expect(attempts).toMatchObject([{ status: null, error: "refused_url" }]);
});

it("The runtime keeps fetches to the operator's own zone from the zone's origin", () => {
  expect(Cloudflare.compatibilityFlags.global_fetch_strictly_public).toBe(true);
});

it("An attempt that fails while its webhook is disabled stays held, and enabling does not send it", async () => {
  const tenant = await makeTenant();
  const { deliveryId, webhookId } = await unsent(tenant, newPath("fail"));
  const patch = (body: object) => call("PATCH", `/api/v1/webhooks/${webhookId}`, { key: tenant.key, body });
  const meanwhile = async (input: RequestInfo | URL, init?: RequestInit) => {
    await patch({ status: "disabled" });
    return fetch(input, init);
  };
  await deliver(delivering({ fetch: meanwhile }), deliveryId);
  expect(await stateOf(tenant, deliveryId)).toMatchObject({ status: "held", next_attempt_at: null, attempts: [{ status: 500 }] });
  await patch({ status: "active" });
  await deliver(delivering({ now: () => Date.now() + dayMs }), deliveryId);
  expect((await stateOf(tenant, deliveryId)).attempts).toHaveLength(1);
});

it("A receiver that is gone is disabled though its webhook was changed meanwhile, but not where that leads elsewhere now", async () => {
  for (const [change, status] of [
    [{ description: "Changed" }, "disabled"],
    [{ url: "http://127.0.0.1:4000/elsewhere" }, "active"],
  ] as const) {
    const tenant = await makeTenant();
    const { deliveryId, webhookId } = await unsent(tenant, newPath("gone"));
    const path = `/api/v1/webhooks/${webhookId}`;
    const meanwhile = async (input: RequestInfo | URL, init?: RequestInit) => {
      await call("PATCH", path, { key: tenant.key, body: change });
      return fetch(input, init);
    };
    await deliver(delivering({ fetch: meanwhile }), deliveryId);
    expect((await call("GET", path, { key: tenant.key })).body.status).toBe(status);
    expect((await stateOf(tenant, deliveryId)).status).toBe(status === "active" ? "pending" : "failed");
  }
});

it("A success between the failures of five days keeps a webhook from being disabled", async () => {
  const tenant = await makeTenant();
  const { deliveryId, webhookId } = await unsent(tenant, newPath("fail"));
  const failingSince = (at: number | null) =>
    env.DB.prepare("UPDATE webhooks SET failing_since = ? WHERE account_id = ?").bind(at, tenant.accountId).run();
  await failingSince(Date.now() - 6 * dayMs);
  const meanwhile = async (input: RequestInfo | URL, init?: RequestInit) => {
    await failingSince(null);
    return fetch(input, init);
  };
  await deliver(delivering({ fetch: meanwhile }), deliveryId);
  expect((await call("GET", `/api/v1/webhooks/${webhookId}`, { key: tenant.key })).body.status).toBe("failing");
});

it("A delivery that the service itself cannot make waits behind the others, without an attempt", async () => {
  const tenant = await makeTenant();
  const { deliveryId } = await unsent(tenant);
  await expect(deliver(delivering({ encryption: [{ name: "z", secret: "another" }] }), deliveryId)).rejects.toThrow(
    "not among the secrets",
  );
  const { status, attempts_made, next_attempt_at } = await stateOf(tenant, deliveryId);
  expect([status, attempts_made]).toEqual(["pending", 0]);
  expect(Date.parse(next_attempt_at)).toBeGreaterThan(Date.now() + 4 * minuteMs);
});

it("An event that is past its keeping is not sent, nor redelivered", async () => {
  const tenant = await makeTenant();
  const { deliveryId, path } = await unsent(tenant);
  await env.DB.prepare("DELETE FROM events WHERE account_id = ? AND type = 'webhook.test'").bind(tenant.accountId).run();
  await deliver(delivering(), deliveryId);
  expect([await receivedAt(path), (await stateOf(tenant, deliveryId)).status]).toEqual([[], "failed"]);
  expect((await call("POST", `/api/v1/deliveries/${deliveryId}/redeliver`, { key: tenant.key })).status).toBe(404);
});

it("The sweep takes the webhooks in turn, so that one with a long queue holds up no other", async () => {
  // The sweep knows no account: what other tests left due would take turns too.
  await env.DB.prepare("DELETE FROM deliveries").run();
  const [crowd, quiet] = [await makeTenant(), await makeTenant()];
  const { webhookId } = await unsent(crowd);
  await env.DB.prepare(
    `INSERT INTO deliveries (id, account_id, webhook_id, event_id, event_type, status, attempts_made, next_attempt_at, claimed_until, created_at)
      SELECT 'dlv_' || printf('%032x', made.value), account_id, webhook_id, event_id, event_type, 'pending', 0, made.value, 0, 0
      FROM deliveries, json_each(?) AS made WHERE webhook_id = ?`,
  )
    .bind(JSON.stringify(Array.from({ length: 500 }, (_, index) => index)), webhookId)
    .run();
  const { deliveryId } = await unsent(quiet);
  const { sweepDeliveries } = await import("../../../src/webhooks/sweep.ts");
  const sent: { body: { deliveryId: string }; delaySeconds: number }[] = [];
  const queue = { sendBatch: async (messages: typeof sent) => void sent.push(...messages) } as unknown as Queue<{ deliveryId: string }>;
  const sweep = (cursor: string, limit: number) =>
    sweepDeliveries({ db, queue, deliver: async () => {} }, Date.now() + 10_000, cursor, limit);
  // Ten of a webhook, those that have been due longest, and what is cut off goes on with the next webhook.
  const first = await sweep("", 10);
  expect(first).toEqual({ done: 10, last: webhookId });
  expect(sent.map(({ body }) => body.deliveryId)).toEqual(
    Array.from({ length: 10 }, (_, index) => `dlv_${index.toString(16).padStart(32, "0")}`),
  );
  expect(await sweep(webhookId, 10)).toEqual({ done: 1, last: null });
  expect(sent.slice(10).map(({ body }) => body.deliveryId)).toEqual([deliveryId]);
  // What was enqueued is left alone, however slow the queue is.
  expect(await sweep("", 1000)).toEqual({ done: 0, last: null });
  await env.DB.prepare("DELETE FROM deliveries WHERE webhook_id = ?").bind(webhookId).run();
});
