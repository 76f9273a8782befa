import { env } from "cloudflare:workers";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { minuteMs } from "../../../src/lib/time/clock.ts";
import { paceMs } from "../../../src/webhooks/deliveries/schedule.ts";
import { finishSettlements } from "../../../src/webhooks/deliveries/settle.ts";
import { maxUnfinished } from "../../../src/webhooks/redeliveries/redeliver-many.ts";
import { continueRedeliveries } from "../../../src/webhooks/redeliveries/redelivery-pieces.ts";
import { browse, hidden } from "../support/browse.ts";
import { call, db, makeKey, makeTenant } from "../support/client.ts";
import { invocations } from "../support/counted.ts";
import { deliveryWait, newPath, receiver, register } from "../support/receiver.ts";
import {
  countDeliveriesByStatus,
  deleteDeliveries,
  insertDeliveries,
  readBacklog,
  readDeliveryRows,
  readSettlement,
} from "../support/webhook-rows.ts";

// A webhook can have hundreds of thousands of deliveries. Changes to many deliveries run in pieces, and D1 triggers count the waiting
// deliveries.

/** Creates an account with a webhook that has the given number of deliveries of each status. */
async function makeWebhook(deliveries: Record<string, number>) {
  const { key, accountId } = await makeTenant();
  const { id } = await register(key, { event_types: ["user.created"] }, newPath("fail"));
  // The queue has messages of these deliveries. Without their rows, the messages cost later tests no time.
  onTestFinished(async () => void (await deleteDeliveries(id)));
  for (const [status, count] of Object.entries(deliveries)) await insertDeliveries(accountId, id, status, count);
  return { key, accountId, id };
}

const setStatus = (key: string, webhookId: string, status: "active" | "disabled") =>
  call("PATCH", `/api/v1/webhooks/${webhookId}`, { key, body: { status } });

const redeliver = (key: string, webhookId: string, filter: object = {}) =>
  call("POST", `/api/v1/webhooks/${webhookId}/redeliver`, {
    key,
    body: { from: new Date(Date.now() - minuteMs).toISOString(), ...filter },
  });

const readRedelivery = async (key: string, redeliveryId: string) =>
  (await call("GET", `/api/v1/redeliveries/${redeliveryId}`, { key })).body;

/**
 * Runs the scheduled job that continues redeliveries. Creates at most `limit` pieces of 500 deliveries. Returns the number of created
 * pieces.
 */
const makePieces = (limit: number, now = Date.now()) => continueRedeliveries({ db, enqueue: () => {} }, now, limit);

/** Deletes `count` deliveries with the given status from a webhook. */
const deleteSomeDeliveries = (webhookId: string, status: string, count: number) =>
  env.DB.prepare("DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries WHERE webhook_id = ? AND status = ? LIMIT ?)")
    .bind(webhookId, status, count)
    .run();

/** Changes the status of `count` pending deliveries of a webhook to `delivered`. */
const markSomeDelivered = (webhookId: string, count: number) =>
  env.DB.prepare(
    `UPDATE deliveries SET status = 'delivered'
      WHERE id IN (SELECT id FROM deliveries WHERE webhook_id = ? AND status = 'pending' LIMIT ?)`,
  )
    .bind(webhookId, count)
    .run();

/** Returns the number of deliveries that a redelivery has created, and the number of different deliveries that they repeat. */
const countRedelivered = (redeliveryId: string) =>
  env.DB.prepare("SELECT count(*) AS rows, count(DISTINCT redelivery_of) AS repeated FROM deliveries WHERE redelivery_id = ?")
    .bind(redeliveryId)
    .first<{ rows: number; repeated: number }>();

/** Returns the stored number of deliveries that a redelivery has created. */
const readMade = (redeliveryId: string) =>
  env.DB.prepare("SELECT made FROM redeliveries WHERE id = ?").bind(redeliveryId).first<number>("made");

/**
 * Returns the number of a redelivery's deliveries that are due after the time `after`. `span` is the time from the first to the last of
 * these deliveries, in milliseconds.
 */
const readPace = async (redeliveryId: string, after: number) =>
  (await env.DB.prepare(
    `SELECT count(*) AS count, max(next_attempt_at) - min(next_attempt_at) AS span
      FROM deliveries WHERE redelivery_id = ? AND next_attempt_at > ?`,
  )
    .bind(redeliveryId, after)
    .first<{ count: number; span: number }>()) ?? { count: 0, span: 0 };

/** Changes the event type of the oldest delivery of a webhook. */
const setTypeOfOldest = (webhookId: string, type: string) =>
  env.DB.prepare("UPDATE deliveries SET event_type = ? WHERE id = (SELECT min(id) FROM deliveries WHERE webhook_id = ?)")
    .bind(type, webhookId)
    .run();

describe("Disabling a webhook", () => {
  it("holds the first 500 deliveries at once and the rest by a scheduled job", async () => {
    const { key, id } = await makeWebhook({ pending: 1200, delivered: 3 });
    expect((await setStatus(key, id, "disabled")).status).toBe(200);
    expect(await countDeliveriesByStatus(id)).toEqual({ pending: 700, held: 500, delivered: 3 });
    expect(await finishSettlements(db, Date.now(), 1)).toBe(1);
    expect(await countDeliveriesByStatus(id)).toEqual({ pending: 200, held: 1000, delivered: 3 });
    await finishSettlements(db, Date.now(), 10);
    expect(await countDeliveriesByStatus(id)).toEqual({ held: 1200, delivered: 3 });
    expect(await readSettlement(id)).toBeNull();
  });

  it("takes turns, so that several webhooks of one account delay another account by at most one piece each", async () => {
    const many = await makeWebhook({ pending: 1 });
    const ids = [many.id, ...(await Promise.all([1, 2, 3].map(async () => (await register(many.key, {}, newPath("fail"))).id)))];
    const few = await makeWebhook({ pending: 1100 });
    for (const id of ids) await insertDeliveries(many.accountId, id, "pending", 2000);
    for (const id of ids) await setStatus(many.key, id, "disabled");
    await setStatus(few.key, few.id, "disabled");
    // Each request to disable a webhook has already changed the first 500 deliveries to `held`.
    expect((await countDeliveriesByStatus(few.id)).held).toBe(500);
    await finishSettlements(db, Date.now(), 10);
    expect(await countDeliveriesByStatus(few.id)).toEqual({ held: 1100 });
    await finishSettlements(db, Date.now(), 40);
    for (const id of ids) expect((await countDeliveriesByStatus(id)).pending).toBeUndefined();
  });
});

describe("Deleting a webhook", () => {
  it("fails the first 500 waiting deliveries at once and the rest by a scheduled job", async () => {
    const { key, id } = await makeWebhook({ pending: 400, held: 400, failed: 2, delivered: 3 });
    expect((await call("DELETE", `/api/v1/webhooks/${id}`, { key })).status).toBe(204);
    expect((await countDeliveriesByStatus(id)).failed).toBe(502);
    await finishSettlements(db, Date.now(), 10);
    expect(await countDeliveriesByStatus(id)).toEqual({ failed: 802, delivered: 3 });
  });
});

describe("The backlog of a webhook", () => {
  it("is counted by D1 itself for each insert, update and delete", async () => {
    const { key, id } = await makeWebhook({ pending: 30, held: 20, delivered: 10 });
    expect(await readBacklog(id)).toEqual({ pending: 30, held: 20 });
    await deleteSomeDeliveries(id, "held", 5);
    await markSomeDelivered(id, 10);
    expect(await readBacklog(id)).toEqual({ pending: 20, held: 15 });
    await setStatus(key, id, "disabled");
    expect(await readBacklog(id)).toEqual({ pending: 0, held: 35 });
  });
});

describe("A redelivery of many deliveries", () => {
  it("creates the first 500 at once and the rest before they are due, once each and 200 ms apart", async () => {
    const { key, id } = await makeWebhook({ failed: 1200 });
    const from = new Date(Date.now() - minuteMs).toISOString();
    const { status, body } = await redeliver(key, id, { from });
    expect([status, body.count]).toEqual([202, 1200]);
    expect((await countRedelivered(body.id))?.rows).toBe(500);
    const dryRun = await redeliver(key, id, { from, dry_run: true });
    expect(dryRun.body.count).toBe(700);
    // At one delivery per 200 ms, 500 deliveries take 100 seconds. The deliveries after the second piece are therefore not due within three
    // minutes.
    expect(await makePieces(10)).toBe(1);
    expect((await countRedelivered(body.id))?.rows).toBe(1000);
    await makePieces(10, Date.now() + 2 * minuteMs);
    expect(await countRedelivered(body.id)).toMatchObject({ rows: 1200, repeated: 1200 });
    const { count, span } = await readPace(body.id, Date.now() + minuteMs);
    expect(count).toBeGreaterThan(600);
    expect(span).toBe((count - 1) * paceMs);
    expect(await readRedelivery(key, body.id)).toMatchObject({ count: 1200, status: "running" });
  });

  it("takes turns, so that no account waits for redeliveries of another account that match nothing", async () => {
    const busy = await makeWebhook({ delivered: 3000 });
    for (let n = 0; n < 6; n++) await redeliver(busy.key, busy.id, { status: "delivered", event_types: ["user.deleted"] });
    const { key, id } = await makeWebhook({ failed: 1200 });
    const { body } = await redeliver(key, id);
    expect(await readMade(body.id)).toBe(500);
    await makePieces(5);
    expect(await readMade(body.id)).toBe(1000);
  });

  it("is denied while the account has 20 unfinished redeliveries", async () => {
    const { key, id } = await makeWebhook({ failed: 501 });
    await setTypeOfOldest(id, "task.deleted");
    const filter = { from: new Date(Date.now() - minuteMs).toISOString(), status: "failed", event_types: ["task.deleted"] };
    const redeliverWith = (headers: object) => call("POST", `/api/v1/webhooks/${id}/redeliver`, { key, body: filter, ...headers });
    for (let n = 0; n < maxUnfinished; n++) expect((await redeliverWith({})).status).toBe(202);
    const denied = await redeliverWith({ "Idempotency-Key": "one-too-many" });
    expect([denied.status, denied.body.code]).toEqual([409, "limit_reached"]);
    await makePieces(100);
    expect((await redeliverWith({ "Idempotency-Key": "one-too-many" })).status).toBe(202);
  });

  it("counts any number of deliveries with statements that each read a limited number of rows", async () => {
    const { key, id } = await makeWebhook({ delivered: 25_000, failed: 7 });
    const count = async (status: string) => (await redeliver(key, id, { status, dry_run: true })).body.count;
    expect([await count("delivered"), await count("failed")]).toEqual([25_000, 7]);
    expect(invocations("fetch POST").at(-2)?.counts.statements).toBeLessThan(15);
  });

  it("ends early if its webhook is disabled", async () => {
    const { key, id } = await makeWebhook({ failed: 600 });
    const { body } = await redeliver(key, id);
    await setStatus(key, id, "disabled");
    await makePieces(10);
    const { status, count } = await readRedelivery(key, body.id);
    expect([status, count]).toEqual(["done", 500]);
  });

  it("includes pending deliveries, and the page shows their number", async () => {
    const { accountId, id } = await makeWebhook({ pending: 36 });
    const browser = browse(accountId);
    expect((await browser.get(`/webhooks/${id}`)).text.replaceAll("<!-- -->", "")).toContain("36 deliveries are pending");
    const { text } = await browser.get(`/webhooks/${id}/redeliver`);
    expect(text).toContain("36 events match");
    expect(text).toContain("36 of these events wait for an attempt");
    const response = await browser.post(`/webhooks/${id}/redeliver`, { nonce: hidden(text, "nonce") });
    expect(response.headers.get("Location")).toContain("redelivery=rdl_");
    // One new delivery replaces each pending delivery. The new deliveries are due within minutes and not in a day.
    const now = Date.now();
    const deliveries = await vi.waitFor(async () => {
      const rows = await readDeliveryRows(id);
      expect(rows).toHaveLength(72);
      return rows;
    }, deliveryWait);
    const repetitions = deliveries.filter(({ redelivery_id }) => redelivery_id !== null);
    expect(repetitions).toHaveLength(36);
    const nextAttempts = repetitions.map(({ next_attempt_at }) => Number(next_attempt_at ?? 0));
    expect(Math.max(...nextAttempts)).toBeLessThan(now + 30_000 + 6 * minuteMs);
    const originals = deliveries.filter(({ redelivery_id }) => redelivery_id === null);
    expect(originals.map(({ status }) => status)).toEqual(Array(36).fill("failed"));
  });
});

it("A new URL for a webhook with more than 10,000 waiting deliveries requires the scopes of all event types", async () => {
  const { accountId, id } = await makeWebhook({ held: 9_990 });
  const { key } = await makeKey(accountId, { scopes: ["webhooks:read", "webhooks:write", "tasks:read", "users:read"] });
  const changeUrl = () => call("PATCH", `/api/v1/webhooks/${id}`, { key, body: { url: `${receiver}/${crypto.randomUUID()}` } });
  expect((await changeUrl()).status).toBe(200);
  await insertDeliveries(accountId, id, "held", 20);
  expect((await changeUrl()).body.code).toBe("forbidden");
});
