import { env } from "cloudflare:workers";
import { drizzle } from "drizzle-orm/d1";
import { describe, expect, it } from "vitest";
import { operatorOn } from "../../../src/accounts/actor.ts";
import { idBound, newId } from "../../../src/ids/ids.ts";
import { dayMs, minuteMs } from "../../../src/time/clock.ts";
import { readEventsOfRequest } from "../../../src/webhooks/events-of-request.ts";
import { maxUnfinished } from "../../../src/webhooks/redeliver-many.ts";
import { makeRedeliveries } from "../../../src/webhooks/redelivery-pieces.ts";
import { paceMs } from "../../../src/webhooks/schedule.ts";
import { finishSettlements } from "../../../src/webhooks/settle.ts";
import { browse } from "../support/browse.ts";
import { call, db, makeKey, makeTenant } from "../support/client.ts";
import { invocations } from "../support/counted.ts";
import { newPath, receiver, register, until } from "../support/receiver.ts";

// A webhook may have hundreds of thousands of deliveries. What is done about them is done in pieces, and what is shown of them is counted as it changes.

/** Stores deliveries of a status, the last one made just now. */
async function makeDeliveries(accountId: string, webhookId: string, status: string, count: number): Promise<void> {
  const at = Date.now() - 1000;
  const ids = Array.from({ length: count }, (_, index) => [newId("dlv", at - count + index), newId("evt", at - count + index)]);
  await env.DB.prepare(
    `INSERT INTO deliveries (id, account_id, webhook_id, event_id, event_type, status, attempts_made, next_attempt_at, claimed_until, created_at)
      SELECT value ->> 0, ?1, ?2, value ->> 1, 'task.created', ?3, 1, iif(?3 = 'pending', ?5, NULL), 0, ?4 FROM json_each(?6)`,
  )
    .bind(accountId, webhookId, status, at, at + dayMs, JSON.stringify(ids))
    .run();
}

const statusesOf = async (webhookId: string): Promise<Record<string, number>> => {
  const { results } = await env.DB.prepare("SELECT status, count(*) AS count FROM deliveries WHERE webhook_id = ? GROUP BY status")
    .bind(webhookId)
    .all<{ status: string; count: number }>();
  return Object.fromEntries(results.map(({ status, count }) => [status, count]));
};

const backlogOf = (webhookId: string) =>
  env.DB.prepare("SELECT pending, held FROM webhook_backlogs WHERE webhook_id = ?").bind(webhookId).first();

async function webhookWith(deliveries: Record<string, number>) {
  const { key, accountId } = await makeTenant();
  const { id } = await register(key, { event_types: ["user.created"] }, newPath("fail"));
  for (const [status, count] of Object.entries(deliveries)) await makeDeliveries(accountId, id, status, count);
  return { key, accountId, id };
}

describe("Disabling a webhook", () => {
  it("holds the first 500 deliveries at once and the rest by a scheduled job", async () => {
    const { key, id } = await webhookWith({ pending: 1200, delivered: 3 });
    expect((await call("PATCH", `/api/v1/webhooks/${id}`, { key, body: { status: "disabled" } })).status).toBe(200);
    expect(await statusesOf(id)).toEqual({ pending: 700, held: 500, delivered: 3 });
    expect(await finishSettlements(db, 1)).toBe(1);
    expect(await statusesOf(id)).toEqual({ pending: 200, held: 1000, delivered: 3 });
    await finishSettlements(db, 10);
    expect(await statusesOf(id)).toEqual({ held: 1200, delivered: 3 });
    expect(await env.DB.prepare("SELECT * FROM webhook_settlements WHERE webhook_id = ?").bind(id).first()).toBeNull();
  });

  it("leaves alone what is not held yet when the webhook is enabled again", async () => {
    const { key, id } = await webhookWith({ pending: 600 });
    for (const status of ["disabled", "active"]) await call("PATCH", `/api/v1/webhooks/${id}`, { key, body: { status } });
    await finishSettlements(db, 10);
    expect(await statusesOf(id)).toEqual({ pending: 100, held: 500 });
  });
});

it("The rest of many webhooks of an account keeps that of another account's webhook waiting for a piece of each at most", async () => {
  const many = await webhookWith({ pending: 1 });
  const ids = [many.id, ...(await Promise.all([1, 2, 3].map(async () => (await register(many.key, {}, newPath("fail"))).id)))];
  const few = await webhookWith({ pending: 1100 });
  for (const id of ids) await makeDeliveries(many.accountId, id, "pending", 2000);
  for (const [key, id] of [...ids.map((id) => [many.key, id]), [few.key, few.id]] as [string, string][])
    await call("PATCH", `/api/v1/webhooks/${id}`, { key, body: { status: "disabled" } });
  // Each has held its first 500.
  expect((await statusesOf(few.id)).held).toBe(500);
  await finishSettlements(db, 10);
  expect(await statusesOf(few.id)).toEqual({ held: 1100 });
  await finishSettlements(db, 40);
  for (const id of ids) expect((await statusesOf(id)).pending).toBeUndefined();
});

it("Deleting a webhook ends what is pending or held, the first 500 at once and the rest by a scheduled job", async () => {
  const { key, id } = await webhookWith({ pending: 400, held: 400, failed: 2, delivered: 3 });
  expect((await call("DELETE", `/api/v1/webhooks/${id}`, { key })).status).toBe(204);
  expect((await statusesOf(id)).failed).toBe(502);
  await finishSettlements(db, 10);
  expect(await statusesOf(id)).toEqual({ failed: 802, delivered: 3 });
});

describe("What waits for a webhook", () => {
  it("is counted as it changes, for every writer", async () => {
    const { key, id } = await webhookWith({ pending: 30, held: 20, delivered: 10 });
    expect(await backlogOf(id)).toEqual({ pending: 30, held: 20 });
    await env.DB.prepare("DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries WHERE webhook_id = ? AND status = 'held' LIMIT 5)")
      .bind(id)
      .run();
    await env.DB.prepare(
      "UPDATE deliveries SET status = 'delivered' WHERE id IN (SELECT id FROM deliveries WHERE webhook_id = ? AND status = 'pending' LIMIT 10)",
    )
      .bind(id)
      .run();
    expect(await backlogOf(id)).toEqual({ pending: 20, held: 15 });
    await call("PATCH", `/api/v1/webhooks/${id}`, { key, body: { status: "disabled" } });
    expect(await backlogOf(id)).toEqual({ pending: 0, held: 35 });
  });

  it("is shown without reading all deliveries", async () => {
    const { accountId, id } = await webhookWith({ delivered: 20_000, pending: 5 });
    const { text } = await browse(accountId).get(`/webhooks/${id}`);
    expect(text).toContain("5 deliveries");
    const { meta } = await env.DB.prepare(
      "SELECT created_at FROM deliveries WHERE webhook_id = ? AND status <> 'delivered' AND status = 'pending' AND +account_id = ? ORDER BY id LIMIT 1",
    )
      .bind(id, accountId)
      .run();
    expect(meta.rows_read).toBeLessThan(10);
  });
});

describe("A redelivery of many", () => {
  it("makes the first 500 at once, and the others before they are due, each once and at the pace", async () => {
    const { key, id } = await webhookWith({ failed: 1200 });
    const from = new Date(Date.now() - minuteMs).toISOString();
    const { status, body } = await call("POST", `/api/v1/webhooks/${id}/redeliver`, { key, body: { from } });
    expect([status, body.count]).toEqual([202, 1200]);
    const made = () =>
      env.DB.prepare("SELECT count(*) AS rows, count(DISTINCT redelivery_of) AS repeated FROM deliveries WHERE redelivery_id = ?")
        .bind(body.id)
        .first<{ rows: number; repeated: number }>();
    expect((await made())?.rows).toBe(500);
    const again = await call("POST", `/api/v1/webhooks/${id}/redeliver`, { key, body: { from, dry_run: true } });
    expect(again.body.count).toBe(700);
    const make = (at: number) => makeRedeliveries({ db, enqueue: () => {} }, at, 10);
    // The first 500 take 100 seconds: those after the next 500 are not due within three minutes.
    expect(await make(Date.now())).toBe(1);
    expect((await made())?.rows).toBe(1000);
    await make(Date.now() + 2 * minuteMs);
    expect(await made()).toMatchObject({ rows: 1200, repeated: 1200 });
    const paced = await env.DB.prepare(
      "SELECT count(*) AS count, max(next_attempt_at) - min(next_attempt_at) AS span FROM deliveries WHERE redelivery_id = ? AND next_attempt_at > ?",
    )
      .bind(body.id, Date.now() + minuteMs)
      .first<{ count: number; span: number }>();
    expect(paced?.count).toBeGreaterThan(600);
    expect(paced?.span).toBe(((paced?.count ?? 0) - 1) * paceMs);
    const progress = (await call("GET", `/api/v1/redeliveries/${body.id}`, { key })).body;
    expect(progress).toMatchObject({ count: 1200, status: "running" });
  });

  it("takes turns with those of other accounts, so that none waits for redeliveries that look at much and match nothing", async () => {
    const from = new Date(Date.now() - minuteMs).toISOString();
    const busy = await webhookWith({ delivered: 3000 });
    const nothing = { from, status: "delivered", event_types: ["user.deleted"] };
    for (let n = 0; n < 6; n++) await call("POST", `/api/v1/webhooks/${busy.id}/redeliver`, { key: busy.key, body: nothing });
    const { key, id } = await webhookWith({ failed: 1200 });
    const { body } = await call("POST", `/api/v1/webhooks/${id}/redeliver`, { key, body: { from } });
    const made = () => env.DB.prepare("SELECT made FROM redeliveries WHERE id = ?").bind(body.id).first("made");
    expect(await made()).toBe(500);
    await makeRedeliveries({ db, enqueue: () => {} }, Date.now(), 5);
    expect(await made()).toBe(1000);
  });

  it("is one of twenty at most that an account has with deliveries still to be made", async () => {
    const { key, id } = await webhookWith({ failed: 501 });
    const from = new Date(Date.now() - minuteMs).toISOString();
    await env.DB.prepare(
      "UPDATE deliveries SET event_type = 'task.deleted' WHERE id = (SELECT min(id) FROM deliveries WHERE webhook_id = ?)",
    )
      .bind(id)
      .run();
    const redeliver = (idempotencyKey?: string) =>
      call("POST", `/api/v1/webhooks/${id}/redeliver`, {
        key,
        body: { from, status: "failed", event_types: ["task.deleted"] },
        ...(idempotencyKey && { headers: { "Idempotency-Key": idempotencyKey } }),
      });
    for (let n = 0; n < maxUnfinished; n++) expect((await redeliver()).status).toBe(202);
    const refused = await redeliver("one-too-many");
    expect([refused.status, refused.body.code]).toEqual([409, "limit_reached"]);
    await makeRedeliveries({ db, enqueue: () => {} }, Date.now(), 100);
    expect((await redeliver("one-too-many")).status).toBe(202);
  });

  it("counts any number of deliveries in statements that each read a bounded number", async () => {
    const { key, id } = await webhookWith({ delivered: 25_000, failed: 7 });
    const from = new Date(Date.now() - minuteMs).toISOString();
    const count = async (status: string) =>
      (await call("POST", `/api/v1/webhooks/${id}/redeliver`, { key, body: { from, status, dry_run: true } })).body.count;
    expect([await count("delivered"), await count("failed")]).toEqual([25_000, 7]);
    expect(invocations("fetch POST").at(-2)?.counts.statements).toBeLessThan(15);
  });

  it("ends when its webhook is disabled, deleted or gone", async () => {
    const { key, id } = await webhookWith({ failed: 600 });
    const from = new Date(Date.now() - minuteMs).toISOString();
    const { body } = await call("POST", `/api/v1/webhooks/${id}/redeliver`, { key, body: { from } });
    await call("PATCH", `/api/v1/webhooks/${id}`, { key, body: { status: "disabled" } });
    await makeRedeliveries({ db, enqueue: () => {} }, Date.now(), 10);
    const progress = (await call("GET", `/api/v1/redeliveries/${body.id}`, { key })).body;
    expect([progress.status, progress.count]).toEqual(["done", 500]);
  });

  it("includes what is pending, and says how many that are", async () => {
    const { accountId, id } = await webhookWith({ pending: 36 });
    const browser = browse(accountId);
    expect((await browser.get(`/webhooks/${id}`)).text.replaceAll("<!-- -->", "")).toContain("36 are pending");
    const { text } = await browser.get(`/webhooks/${id}/redeliver`);
    expect(text).toContain("36 events match");
    expect(text).toContain("36 deliveries are pending");
    const nonce = /name="nonce" value="([^"]*)"/.exec(text)?.[1] ?? "";
    const sent = await browser.post(`/webhooks/${id}/redeliver`, { nonce });
    expect(sent.headers.get("Location")).toContain("redelivery=rdl_");
    // Each goes on as one new delivery, due now instead of in a day.
    const now = Date.now();
    const left = await until(
      async () => (await env.DB.prepare("SELECT * FROM deliveries WHERE webhook_id = ?").bind(id).all<Record<string, number>>()).results,
      (all) => all.length === 72,
    );
    const repeated = left.filter((each) => each.redelivery_id !== null);
    expect([left.length, repeated.length]).toEqual([72, 36]);
    expect(Math.max(...repeated.map(({ next_attempt_at }) => next_attempt_at ?? 0))).toBeLessThan(now + 30_000 + 6 * minuteMs);
    expect(left.filter((each) => each.redelivery_id === null).map(({ status }) => status)).toEqual(Array(36).fill("failed"));
  });
});

it("A delivery that was repeated many times is repeated without a walk through all of its repetitions", async () => {
  const { key, accountId, id } = await webhookWith({ failed: 1001 });
  const chain = async () => {
    const oldest = await env.DB.prepare("SELECT min(id) AS id FROM deliveries WHERE webhook_id = ?").bind(id).first<string>("id");
    await env.DB.prepare(
      `UPDATE deliveries SET event_id = (SELECT event_id FROM deliveries WHERE id = ?1),
      superseded_by = (SELECT id FROM deliveries AS later WHERE later.webhook_id = ?2 AND later.id > deliveries.id ORDER BY id LIMIT 1) WHERE webhook_id = ?2`,
    )
      .bind(oldest, id)
      .run();
    const event = await env.DB.prepare("SELECT event_id FROM deliveries WHERE id = ?").bind(oldest).first<string>("event_id");
    await env.DB.prepare("INSERT INTO events (account_id, id, type, data, sequence, created_at) VALUES (?, ?, 'task.created', '{}', 1, ?)")
      .bind(accountId, event, Date.now())
      .run();
    return oldest;
  };
  let oldest = await chain();
  const again = () => call("POST", `/api/v1/deliveries/${oldest}/redeliver`, { key });
  const first = (await again()).body.id;
  const pointing = (to: string) =>
    env.DB.prepare("SELECT count(*) AS count FROM deliveries WHERE superseded_by = ?").bind(to).first("count");
  expect(await pointing(first)).toBe(1001);
  const second = (await again()).body.id;
  // The oldest and the first repetition: the thousand between them are passed over.
  expect([await pointing(first), await pointing(second)]).toEqual([1000, 2]);
  await env.DB.prepare("DELETE FROM deliveries WHERE webhook_id = ?").bind(id).run();
  await makeDeliveries(accountId, id, "failed", 2100);
  oldest = await chain();
  expect(await pointing((await again()).body.id)).toBe(2000);
});

it("Another URL of a webhook for which more than 10,000 deliveries wait takes a key that reads events of all types", async () => {
  const { accountId, id } = await webhookWith({ held: 9_990 });
  const { key } = await makeKey(accountId, { scopes: ["webhooks:read", "webhooks:write", "tasks:read", "users:read"] });
  const move = () => call("PATCH", `/api/v1/webhooks/${id}`, { key, body: { url: `${receiver}/${crypto.randomUUID()}` } });
  expect((await move()).status).toBe(200);
  await makeDeliveries(accountId, id, "held", 20);
  expect((await move()).body.code).toBe("forbidden");
});

it("The events of a request and their deliveries are found, among all others that the account has and makes meanwhile", async () => {
  const { key } = await makeTenant();
  const webhooks = [
    (await register(key, { event_types: ["user.created"] })).id,
    (await register(key, { event_types: ["user.created", "task.created"] })).id,
  ];
  const { headers } = await call("POST", "/api/v1/users", { key, body: { name: "Ada", email: "ada@example.com" } });
  const requestId = headers.get("X-Request-Id") ?? "";
  const { accountId, id } = (await env.DB.prepare("SELECT account_id AS accountId, id FROM events WHERE request_id = ?")
    .bind(requestId)
    .first<{ accountId: string; id: string }>()) ?? { accountId: "", id: "" };
  await makeDeliveries(accountId, webhooks[0] ?? "", "failed", 2000);
  const statements: [string, unknown[]][] = [];
  const noting = drizzle(env.DB, { logger: { logQuery: (query, values) => void statements.push([query, values]) } }) as typeof db;
  const caused = await readEventsOfRequest({ db: noting, actor: operatorOn(accountId), now: Date.now() }, requestId);
  expect(caused.map(({ event, deliveryIds }) => [event.id, deliveryIds.length])).toEqual([[id, 2]]);
  const rowsRead = async () => {
    let read = 0;
    for (const [query, values] of statements)
      read += (
        await env.DB.prepare(query)
          .bind(...values)
          .run()
      ).meta.rows_read;
    return read;
  };
  expect(await rowsRead()).toBeLessThan(20);
  await env.DB.prepare(
    `INSERT INTO events (account_id, id, type, data, sequence, created_at)
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000)
    SELECT ?1, ?2 || printf('%020d', i), 'task.created', '{}', 1000 + i, 1 FROM n`,
  )
    .bind(accountId, idBound("evt", Date.now() + 10))
    .run();
  statements.length = 0;
  expect(await readEventsOfRequest({ db: noting, actor: operatorOn(accountId), now: Date.now() }, requestId)).toHaveLength(1);
  expect(await rowsRead()).toBeLessThan(4000);
});
