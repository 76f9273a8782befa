import { describe, expect, it, vi } from "vitest";
import { hourMs, minuteMs, secondMs } from "../../../src/lib/time/clock.ts";
import { commitEvents } from "../../../src/outbox/write-events.ts";
import { call, db, makeTenant, type Tenant } from "../support/client.ts";
import {
  attemptDelivery,
  deliveriesOf,
  newPath,
  readDelivery,
  receivedAt,
  receiver,
  register,
  sampleEvent,
  sampleType,
  waitForRequest,
  waitForRequests,
} from "../support/receiver.ts";
import { insertSlots, markAnswered } from "../support/webhook-rows.ts";

let nextPort = 20_000;
/** Returns the origin of a host that no other test uses. The tests that use it replace `fetch`. */
const newHost = () => `http://127.0.0.1:${nextPort++}`;

const create = (key: string, url: string, eventTypes: string[] = [sampleType]) =>
  call("POST", "/api/v1/webhooks", { key, body: { url, event_types: eventTypes } });

/** Creates a webhook and `count` due deliveries that are not in the queue. */
async function makeDue({ key, accountId }: Tenant, url: string, count = 1) {
  const { body: webhook } = await create(key, url);
  await commitEvents(
    { db },
    Array.from({ length: count }, () => sampleEvent(accountId)),
  );
  const deliveries: { id: string }[] = await deliveriesOf({ key } as Tenant, webhook.id, "?limit=100");
  return { webhookId: webhook.id as string, deliveryIds: deliveries.map(({ id }) => id) };
}

/** Returns a `fetch` that responds with a status as soon as `released` resolves, and the number of requests that it got. */
function makeHost(status: number, released = Promise.resolve()) {
  const requests = { count: 0 };
  const fetch = async () => {
    requests.count++;
    await released;
    return new Response(null, { status });
  };
  return { requests, fetch };
}

describe("The URL of a webhook", () => {
  it("belongs to one webhook of an account, in all its spellings", async () => {
    const [{ key }, other] = [await makeTenant(), await makeTenant()];
    const host = `h${crypto.randomUUID()}.acme.dev`;
    const url = `https://${host}/hook`;
    expect((await create(key, url)).status).toBe(201);
    for (const same of [
      url,
      `https://${host.toUpperCase()}/hook`,
      `https://${host}:443/hook`,
      `${url}#part`,
      `https://${host}/a/../hook`,
    ]) {
      const { status, body } = await create(key, same);
      expect([same, status, body.code, body.errors?.[0]?.pointer]).toEqual([same, 409, "conflict", "/url"]);
    }
    for (const different of [`${url}/`, `${url}?a=1`, `https://${host}:8443/hook`]) expect((await create(key, different)).status).toBe(201);
    expect((await create(other.key, url)).status).toBe(201);
  });

  it("cannot be changed to the URL of another webhook of the account", async () => {
    const { key } = await makeTenant();
    const host = `https://h${crypto.randomUUID()}.acme.dev`;
    const [first, second] = [await create(key, `${host}/1`), await create(key, `${host}/2`)];
    const patch = (url: string) => call("PATCH", `/api/v1/webhooks/${second.body.id}`, { key, body: { url } });
    expect((await patch(`${host}/1#x`)).body.code).toBe("conflict");
    expect((await patch(`${host}/2#x`)).status).toBe(200);
    expect((await call("DELETE", `/api/v1/webhooks/${first.body.id}`, { key })).status).toBe(204);
    expect((await patch(`${host}/1`)).status).toBe(200);
    expect((await create(key, `${host}/1`)).status).toBe(409);
    expect((await create(key, `${host}/2`)).status).toBe(201);
  });

  it("belongs to one webhook even if it is created several times at once", async () => {
    const { key } = await makeTenant();
    const url = `https://h${crypto.randomUUID()}.acme.dev/hook`;
    const created = await Promise.all(Array.from({ length: 5 }, () => create(key, url)));
    expect(created.map(({ status }) => status).toSorted()).toEqual([201, 409, 409, 409, 409]);
  });
});

describe("A host that has never answered with 2xx", () => {
  it("gets one attempt at a time from all webhooks of all accounts, and the other deliveries are postponed without a claim", async () => {
    const host = newHost();
    const tenants = [await makeTenant(), await makeTenant()];
    const due = [];
    for (const tenant of tenants) for (const path of ["/1", "/2"]) due.push({ tenant, ...(await makeDue(tenant, host + path)) });
    const { promise, resolve } = Promise.withResolvers<void>();
    const { requests, fetch } = makeHost(500, promise);
    const attempts = due.map(({ deliveryIds: [id = ""] }) => attemptDelivery(id, { fetch }));
    await Promise.any(attempts);
    expect(requests.count).toBe(1);
    resolve();
    await Promise.all(attempts);
    expect(requests.count).toBe(1);
    const read = await Promise.all(due.map(({ tenant, deliveryIds: [id = ""] }) => readDelivery(tenant, id)));
    expect(read.map(({ attempts_made }) => attempts_made).toSorted()).toEqual([0, 0, 0, 1]);
    for (const { status, next_attempt_at } of read) expect([status, Date.parse(next_attempt_at) > Date.now()]).toEqual(["pending", true]);
  });

  it("gets at most 60 attempts in an hour, and one account leaves some of them to others", async () => {
    const host = newHost();
    const { requests, fetch } = makeHost(500);
    const startAt = Date.now() + minuteMs;
    const attemptAll = async (count: number, at: number) => {
      const tenant = await makeTenant();
      const { deliveryIds } = await makeDue(tenant, host, count);
      const before = requests.count;
      // A delivery that is not sent is postponed by up to a second for each waiting delivery.
      for (const id of deliveryIds) await attemptDelivery(id, { fetch, now: () => at });
      return { tenant, deliveryIds, sent: requests.count - before };
    };
    expect((await attemptAll(40, startAt)).sent).toBe(30);
    expect((await attemptAll(40, startAt + minuteMs)).sent).toBe(15);
    expect((await attemptAll(40, startAt + 2 * minuteMs)).sent).toBe(8);
    expect((await attemptAll(1, startAt + 3 * minuteMs)).sent).toBe(1);
    expect(requests.count).toBeLessThanOrEqual(60);
    expect((await attemptAll(10, startAt + hourMs + 4 * minuteMs)).sent).toBe(10);
  });

  it("gets no more attempts if an account varies ports and host names: the account has 120 an hour for all such hosts", async () => {
    const tenant = await makeTenant();
    const { requests, fetch } = makeHost(500);
    for (let index = 0; index < 7; index++) {
      const { deliveryIds } = await makeDue(tenant, newHost(), 20);
      for (const id of deliveryIds) await attemptDelivery(id, { fetch });
    }
    expect(requests.count).toBe(120);
  });

  it("counts attempts of a deleted webhook, of test events and of attempts that are made by hand", async () => {
    const tenant = await makeTenant();
    const host = newHost();
    const { requests, fetch } = makeHost(500);
    for (let index = 0; index < 3; index++) {
      const { webhookId, deliveryIds } = await makeDue(tenant, host, 15);
      for (const id of deliveryIds) await attemptDelivery(id, { fetch });
      await call("DELETE", `/api/v1/webhooks/${webhookId}`, { key: tenant.key });
    }
    expect(requests.count).toBe(30);
    const { webhookId, deliveryIds } = await makeDue(tenant, host);
    const tested = await call("POST", `/api/v1/webhooks/${webhookId}/test`, { key: tenant.key, body: {} });
    const byHand = await call("POST", `/api/v1/deliveries/${deliveryIds[0]}/attempt`, { key: tenant.key, body: {} });
    expect([tested.status, byHand.status]).toEqual([202, 202]);
    for (const id of [tested.body.delivery_id, byHand.body.id]) await attemptDelivery(id, { fetch });
    expect(requests.count).toBe(30);
  });

  it("gets the deliveries that waited for its first 2xx soon after it", async () => {
    const tenant = await makeTenant();
    const { deliveryIds } = await makeDue(tenant, newHost(), 60);
    const { promise, resolve } = Promise.withResolvers<void>();
    const { requests, fetch } = makeHost(200, promise);
    const attempts = deliveryIds.map((id) => attemptDelivery(id, { fetch }));
    await Promise.race([Promise.all(attempts), new Promise((done) => setTimeout(done, 500))]);
    expect(requests.count).toBe(1);
    resolve();
    await Promise.all(attempts);
    const read = await Promise.all(deliveryIds.map((id) => readDelivery(tenant, id)));
    const waiting = read.filter(({ status }) => status === "pending");
    expect(waiting.filter(({ next_attempt_at }) => Date.parse(next_attempt_at) > Date.now())).toEqual([]);
    expect(waiting.length).toBeGreaterThan(20);
  });

  it("gets a delivery whose attempt was interrupted soon after its first 2xx, too", async () => {
    const tenant = await makeTenant();
    const { deliveryIds } = await makeDue(tenant, newHost(), 2);
    const [interrupted = "", other = ""] = deliveryIds;
    const [interruption, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const early = makeHost(200, interruption.promise);
    const late = makeHost(200, answer.promise);
    const later = () => Date.now() + 2 * minuteMs;
    const attempt = attemptDelivery(interrupted, { fetch: early.fetch });
    await vi.waitUntil(() => early.requests.count === 1);
    const first = attemptDelivery(other, { fetch: late.fetch, now: later });
    await vi.waitUntil(() => late.requests.count === 1);
    await attemptDelivery(interrupted, { fetch: late.fetch, now: later });
    expect(Date.parse((await readDelivery(tenant, interrupted)).next_attempt_at)).toBeGreaterThan(later());
    answer.resolve();
    await first;
    const { status, next_attempt_at } = await readDelivery(tenant, interrupted);
    expect([status, Date.parse(next_attempt_at) <= Date.now()]).toEqual(["pending", true]);
    interruption.resolve();
    await attempt;
  });

  it("is an ordinary host after its first 2xx, for all accounts", async () => {
    const host = newHost();
    const [first, second] = [await makeTenant(), await makeTenant()];
    const { deliveryIds } = await makeDue(first, `${host}/1`, 2);
    const { requests, fetch } = makeHost(200);
    await attemptDelivery(deliveryIds[0] ?? "", { fetch });
    expect((await readDelivery(first, deliveryIds[0] ?? "")).status).toBe("delivered");
    const { promise, resolve } = Promise.withResolvers<void>();
    const hanging = makeHost(500, promise);
    const others = await makeDue(second, `${host}/2`, 10);
    const attempts = others.deliveryIds.map((id) => attemptDelivery(id, { fetch: hanging.fetch }));
    await Promise.race([Promise.all(attempts), new Promise((done) => setTimeout(done, 300))]);
    expect([requests.count, hanging.requests.count]).toEqual([1, 10]);
    resolve();
    await Promise.all(attempts);
  });
});

describe("A host that has answered with 2xx", () => {
  /** Makes a host that has answered, with attempts of other accounts, and 12 due deliveries of a new account to it. */
  async function makeBusy(slots: { count: number; startedAt: number; isOpen: boolean }) {
    const tenant = await makeTenant();
    const host = newHost();
    const { webhookId, deliveryIds } = await makeDue(tenant, host, 12);
    await markAnswered(webhookId);
    await insertSlots(new URL(host).host, { accountId: "acc_other", ...slots });
    return { tenant, deliveryIds };
  }

  /** Starts all deliveries at a time. Returns how many of them were sent. */
  async function countSent(deliveryIds: readonly string[], at: number): Promise<number> {
    const { requests, fetch } = makeHost(500);
    await Promise.all(deliveryIds.map((id) => attemptDelivery(id, { fetch, now: () => at })));
    return requests.count;
  }

  it("has at most 200 attempts in flight, and no account takes the last of them", async () => {
    const at = Date.now() + minuteMs;
    const { deliveryIds } = await makeBusy({ count: 190, startedAt: at - 5 * secondMs, isOpen: true });
    expect(await countSent(deliveryIds, at)).toBe(5);
    // The attempts of a Worker that crashed occupy their slots for 20 seconds.
    expect(await countSent(deliveryIds.slice(5), at + minuteMs)).toBe(7);
  });

  it("gets at most 200 attempts in a second", async () => {
    const at = Date.now() + minuteMs;
    const { tenant, deliveryIds } = await makeBusy({ count: 196, startedAt: at - 100, isOpen: false });
    expect(await countSent(deliveryIds, at)).toBe(2);
    const read = await Promise.all(deliveryIds.map((id) => readDelivery(tenant, id)));
    const postponed = read
      .filter(({ attempts_made }) => attempts_made === 0)
      .map(({ next_attempt_at }) => Date.parse(next_attempt_at) - at);
    expect(postponed.length).toBe(10);
    expect([Math.min(...postponed) >= 2 * secondMs, Math.max(...postponed) <= 3 * secondMs]).toEqual([true, true]);
  });
});

describe("Deliveries to other hosts", () => {
  it("do not wait for a host that has never answered, neither in the same account nor in others", async () => {
    const [flood, other] = [await makeTenant(), await makeTenant()];
    const path = newPath("fail");
    const unanswered = receiver.replace("127.0.0.1", "localhost");
    for (let index = 0; index < 18; index++) await create(flood.key, `${unanswered}${path}?${index}`, ["task.created"]);
    const [own, others] = await Promise.all([flood, other].map(({ key }) => register(key, { event_types: ["task.created"] })));
    for (let index = 0; index < 5; index++) await call("POST", "/api/v1/tasks", { key: flood.key, body: { title: "x" } });
    const createdAt = Date.now();
    await call("POST", "/api/v1/tasks", { key: other.key, body: { title: "x" } });
    expect((await waitForRequest(others?.path ?? "")).at - createdAt).toBeLessThan(secondMs);
    const ofFlood = await waitForRequests(own?.path ?? "", 5);
    expect((ofFlood.at(-1)?.at ?? 0) - createdAt).toBeLessThan(2 * secondMs);
    const atUnanswered = (await receivedAt(path)).length;
    expect([atUnanswered > 0, atUnanswered <= 30]).toEqual([true, true]);
  });
});
