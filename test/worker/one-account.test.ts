/** @module-tag long */
import { env } from "cloudflare:workers";
import { expect, inject, it } from "vitest";
import { defaultQuotaBytes, reserveBytes } from "../../src/accounts/storage.ts";
import { call, makeKey, makeTenant } from "./support/client.ts";
import { invocation } from "./support/counted.ts";
import { operate } from "./support/operate.ts";
import { attemptDelivery, newPath, receivedAt, register, until } from "./support/receiver.ts";
import { readDatabaseSize, readStoredBytes } from "./support/storage-rows.ts";

// One account tries to fill the main database. The account uses many keys, the largest bodies that the API accepts, and many webhooks. The
// receivers of these webhooks respond with long errors. After the account has used up its quota, the account repeats every change that is
// still allowed. A second account sends ordinary requests at the same time.

const mib = 1024 * 1024;
/** The account's share of the memory for bodies has room for the largest tasks of 40 keys at once. Further ones would get 503. */
const attack = inject("isLong")
  ? { keys: 40, webhooks: 5, quota: defaultQuotaBytes / 4, attempts: 4000, tightenings: 500 }
  : { keys: 3, webhooks: 3, quota: 2 * mib, attempts: 40, tightenings: 3 };
/**
 * One change may exceed a quota by at most this number of bytes. One change can store the events of a hundred tasks, and the deliveries of
 * these events.
 */
const maxChangeBytes = 4 * mib;

/** Returns the largest task that the API accepts. */
const largestTask = (title: string) => {
  const labels = Array.from({ length: 20 }, () => "😀".repeat(50));
  return { title, description: "😀".repeat(10_000), labels };
};

/** Runs several loops at the same time. Each loop repeats `step` until `step` returns false. */
const inParallel = (workers: number, step: (worker: number) => Promise<boolean>) =>
  Promise.all(
    Array.from({ length: workers }, async (_, worker) => {
      while (await step(worker));
    }),
  );

/**
 * Sends ordinary requests until `isOver` returns true. Returns the methods and statuses of the responses, and the median latency in
 * milliseconds.
 */
async function sendOrdinaryRequests(key: string, isOver: () => boolean) {
  const outcomes: string[] = [];
  const latencies: number[] = [];
  const send = async (method: string, path: string, body?: object) => {
    const startedAt = performance.now();
    const response = await call(method, `/api/v1${path}`, { key, ...(body && { body }) });
    latencies.push(performance.now() - startedAt);
    outcomes.push(`${method} ${response.status}`);
    return response.body;
  };
  while (!isOver()) {
    await send("GET", "/me");
    const task = await send("POST", "/tasks", { title: "Ordinary work" });
    await send("PATCH", `/tasks/${task.id}`, { status: "done" });
    await send("GET", "/tasks");
    await send("DELETE", `/tasks/${task.id}`);
    // The pause has only one purpose: it limits the rate of the requests.
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return { outcomes, medianMs: latencies.toSorted((a, b) => a - b)[Math.floor(latencies.length / 2)] };
}

/**
 * Makes up to 500 deliveries of an account due now. Selects only deliveries that are pending and not claimed, and starts with the most
 * attempts. Returns the ids of these deliveries.
 */
async function makeDeliveriesDue(accountId: string): Promise<string[]> {
  const { results } = await env.DB.prepare(
    `UPDATE deliveries SET next_attempt_at = 0 WHERE id IN
      (SELECT id FROM deliveries WHERE account_id = ? AND status = 'pending' AND claim IS NULL ORDER BY attempts_made DESC LIMIT 500)
      RETURNING id`,
  )
    .bind(accountId)
    .all<{ id: string }>();
  return results.map(({ id }) => id);
}

const countAttempts = async (accountId: string): Promise<number> =>
  (await env.DB.prepare("SELECT count(*) AS count FROM attempts WHERE delivery_id IN (SELECT id FROM deliveries WHERE account_id = ?)")
    .bind(accountId)
    .first<number>("count")) ?? 0;

/** Returns the pending deliveries of a webhook that were created at or before `createdUntil`, in milliseconds since the epoch, with their failed attempts. */
const pendingOf = async (webhookId: string, createdUntil: number): Promise<object[]> => {
  const { results } = await env.DB.prepare(
    `SELECT attempts_made, next_attempt_at, claimed_until, reserved_until, created_at, unixepoch() * 1000 AS now,
      (SELECT group_concat(error) FROM attempts WHERE delivery_id = deliveries.id) AS errors
      FROM deliveries WHERE webhook_id = ? AND status = 'pending' AND created_at <= ?`,
  )
    .bind(webhookId, createdUntil)
    .all();
  return results;
};

/** Makes about `maxAttempts` delivery attempts for an account. The attempts start immediately, and not at their scheduled times. */
async function attemptDeliveries(accountId: string, maxAttempts: number): Promise<void> {
  for (let attempts = 0; attempts < maxAttempts; ) {
    const ids = await makeDeliveriesDue(accountId);
    if (ids.length === 0) return;
    for (let from = 0; from < ids.length; from += 10)
      await Promise.all(ids.slice(from, from + 10).map((id) => invocation("a delivery", () => attemptDelivery(id))));
    attempts += ids.length;
  }
}

it("One account can neither fill the main database nor stop another account", async () => {
  const other = await makeTenant();
  const otherWebhook = await register(other.key);
  let rounds = 0;
  const before = await sendOrdinaryRequests(other.key, () => rounds++ >= 10);
  let isOver = false;
  const ordinaryRequests = sendOrdinaryRequests(other.key, () => isOver);

  const attacker = await makeTenant();
  const { accountId, key } = attacker;
  await operate("PUT", `/accounts/${accountId}/storage-quota`, { bytes: attack.quota });
  const keys = [key];
  const keyIds: string[] = [];
  while (keys.length < attack.keys) {
    const created = await makeKey(accountId);
    keys.push(created.key);
    keyIds.push(created.keyId);
  }
  for (let n = 0; n < attack.webhooks; n++) await register(key, {}, newPath("collapse"));
  const sizeBefore = await readDatabaseSize();
  const maxBytes = attack.quota + reserveBytes + maxChangeBytes;
  const expectBounded = async () => expect(await readStoredBytes(accountId)).toBeLessThanOrEqual(maxBytes);

  // With each key, the test creates tasks until three requests with this key have been rejected.
  const statuses = new Map<string, number>();
  const count = ({ status, body }: { status: number; body: { code?: string } | null }) => {
    const name = status < 400 ? String(status) : `${status} ${body?.code}`;
    statuses.set(name, (statuses.get(name) ?? 0) + 1);
  };
  const taskIds: string[] = [];
  const rejections = keys.map(() => 0);
  await inParallel(keys.length, async (worker) => {
    const response = await call("POST", "/api/v1/tasks", {
      key: keys[worker] ?? key,
      body: largestTask("x"),
      "Idempotency-Key": crypto.randomUUID(),
    });
    count(response);
    if (response.status === 201) taskIds.push(response.body.id);
    else rejections[worker] = (rejections[worker] ?? 0) + 1;
    return (rejections[worker] ?? 0) < 3;
  });
  const floodedAt = Date.now();
  expect([...statuses.keys()].toSorted()).toEqual(["201", "409 limit_reached"]);
  await expectBounded();

  // The test first checks that the events of the other account are delivered. The direct attempts come later, because direct attempts leave
  // messages for finished deliveries in the queue.
  await until(
    () => pendingOf(otherWebhook.id, floodedAt),
    (pending) => pending.length === 0,
    // Locally, one queue hands on the messages of both accounts in order. A busy machine takes longer for those of the flood.
    { timeout: 90_000, interval: 250 },
  );
  expect((await receivedAt(otherWebhook.path)).length).toBeGreaterThan(10);

  // The responses of receivers can fill the account's storage only up to the reserve, regardless of the number of attempts.
  await attemptDeliveries(accountId, attack.attempts);
  await expectBounded();
  // If the queue has already started all deliveries, the test itself cannot make any attempt. The test therefore waits for the attempts
  // that the queue has started.
  const attempts = await until(
    () => countAttempts(accountId),
    (stored) => stored > 0,
  );
  expect(attempts).toBeGreaterThan(0);

  // Every change that a client can repeat is rejected at some point. Some changes are rejected when the quota is used up, and others when
  // the reserve is used up.
  const [firstKeyId = ""] = keyIds;
  for (const [method, path, body] of [
    ["POST", "/keys", { name: "More" }],
    ["PATCH", `/keys/${firstKeyId}`, { name: "x".repeat(100) }],
    ["PATCH", `/tasks/${taskIds[0]}`, { title: "Another" }],
    ["POST", `/users`, { name: "Ada", email: "ada@example.com" }],
  ] as const)
    expect((await call(method, `/api/v1${path}`, { key, body })).body.code, `${method} ${path}`).toBe("limit_reached");
  for (let n = 0; n < attack.tightenings; n++)
    count(await call("PATCH", `/api/v1/keys/${firstKeyId}`, { key, body: { hourly_limit: 4999 - n } }));
  await expectBounded();
  await inParallel(5, async () => {
    const id = taskIds.pop();
    if (id !== undefined) count(await call("DELETE", `/api/v1/tasks/${id}`, { key }));
    return id !== undefined;
  });
  for (const id of keyIds) count(await call("DELETE", `/api/v1/keys/${id}`, { key }));
  await expectBounded();
  expect([...statuses.keys()].filter((status) => !/^(200|201|204|409 limit_reached)$/.test(status))).toEqual([]);
  expect((await readDatabaseSize()) - sizeBefore).toBeLessThan(1.5 * maxBytes);

  isOver = true;
  const { outcomes, medianMs } = await ordinaryRequests;
  expect([...new Set(outcomes)].toSorted()).toEqual(["DELETE 204", "GET 200", "PATCH 200", "POST 201"]);
  // At least two rounds of five requests.
  expect(outcomes.length).toBeGreaterThanOrEqual(10);
  // The queue still has messages of the flood. Tests that follow in this process would wait for them, so the last delivery shows that they are gone.
  await call("POST", "/api/v1/tasks", { key: other.key, body: { title: "The last one" } });
  await until(
    () => pendingOf(otherWebhook.id, Date.now()),
    (pending) => pending.length === 0,
    { timeout: 180_000, interval: 250 },
  );
  const storedMib = ((await readStoredBytes(accountId)) / mib).toFixed(1);
  console.info(
    `${outcomes.length} requests of the other account. ` +
      `Median before: ${before.medianMs?.toFixed(1)} ms, during the attack: ${medianMs?.toFixed(1)} ms. ` +
      `The attacker got ${JSON.stringify(Object.fromEntries(statuses))} and stores ${storedMib} MiB.`,
  );
}, 1_800_000);
