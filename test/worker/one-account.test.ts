/** @module-tag long */
import { env } from "cloudflare:workers";
import { expect, inject, it } from "vitest";
import { reserveBytes, usualQuotaBytes } from "../../src/storage/storage.ts";
import { deliver } from "../../src/webhooks/deliver.ts";
import { call, makeKey, makeTenant } from "./support/client.ts";
import { invocation } from "./support/counted.ts";
import { operate } from "./support/operate.ts";
import { deliveriesOf, delivering, newPath, receivedAt, register, until } from "./support/receiver.ts";

// One account does what it can to fill the main database. It has many keys, many webhooks whose receivers fail at length and the largest
// bodies. It repeats everything it may still do at its quota. Another account works beside it.

const mib = 1024 * 1024;
const attack = inject("isLong")
  ? { keys: 50, webhooks: 20, quota: usualQuotaBytes / 4, attempts: 4000, tightenings: 500 }
  : { keys: 3, webhooks: 3, quota: 2 * mib, attempts: 40, tightenings: 3 };
/** What one change may add beyond a bound that it was below: the events of a hundred tasks and the deliveries of them. */
const oneChange = 4 * mib;

const bytesOf = async (accountId: string) =>
  (await env.DB.prepare("SELECT bytes FROM account_storage WHERE account_id = ?").bind(accountId).first<number>("bytes")) ?? 0;
const fileSize = async () => (await env.DB.prepare("SELECT 1").run()).meta.size_after ?? 0;

/** The largest task that there may be. */
const largest = (title: string) => ({ title, description: "😀".repeat(10_000), labels: Array.from({ length: 20 }, () => "😀".repeat(50)) });

/** Runs a step of each worker again and again, until it returns false. */
const inParallel = (workers: number, step: (worker: number) => Promise<boolean>) =>
  Promise.all(
    Array.from({ length: workers }, async (_, worker) => {
      while (await step(worker));
    }),
  );

/** An account at work, until it is told to stop. Returns what each of its requests was answered. */
async function work(key: string, isOver: () => boolean) {
  const answers: string[] = [];
  const took: number[] = [];
  const note = async (method: string, path: string, body?: object) => {
    const startedAt = performance.now();
    const answer = await call(method, `/api/v1${path}`, { key, ...(body && { body }) });
    took.push(performance.now() - startedAt);
    answers.push(`${method} ${answer.status}`);
    return answer.body;
  };
  while (!isOver()) {
    await note("GET", "/me");
    const task = await note("POST", "/tasks", { title: "Ordinary work" });
    await note("PATCH", `/tasks/${task.id}`, { status: "done" });
    await note("GET", "/tasks");
    await note("DELETE", `/tasks/${task.id}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return { answers, medianMs: took.toSorted((a, b) => a - b)[Math.floor(took.length / 2)] };
}

/** Makes attempts that are due, whenever they were to be made: as many as `atMost`. */
async function hurry(accountId: string, atMost: number): Promise<void> {
  let made = 0;
  while (made < atMost) {
    const { results } = await env.DB.prepare(
      `UPDATE deliveries SET next_attempt_at = 0 WHERE id IN (SELECT id FROM deliveries WHERE account_id = ? AND status = 'pending' AND claim IS NULL
        ORDER BY attempts_made DESC LIMIT 500) RETURNING id`,
    )
      .bind(accountId)
      .all<{ id: string }>();
    if (results.length === 0) return;
    for (let from = 0; from < results.length; from += 10)
      await Promise.all(results.slice(from, from + 10).map(({ id }) => invocation("a delivery", () => deliver(delivering(), id))));
    made += results.length;
  }
}

it("One account cannot fill the main database, nor stop another", async () => {
  const neighbour = await makeTenant();
  const theirs = await register(neighbour.key);
  let isOver = false;
  const before = await work(
    neighbour.key,
    (() => {
      let rounds = 0;
      return () => rounds++ >= 10;
    })(),
  );
  const working = work(neighbour.key, () => isOver);

  const attacker = await makeTenant();
  const { accountId, key } = attacker;
  await operate("PUT", `/accounts/${accountId}/storage-quota`, { bytes: attack.quota });
  const keys = [key];
  const keyIds: string[] = [];
  while (keys.length < attack.keys) {
    const made = await makeKey(accountId);
    keys.push(made.key);
    keyIds.push(made.keyId);
  }
  for (let n = 0; n < attack.webhooks; n++) await register(key, {}, newPath("collapse"));
  const sizeBefore = await fileSize();
  const mayHave = attack.quota + reserveBytes + oneChange;
  const expectBounded = async () => expect(await bytesOf(accountId)).toBeLessThanOrEqual(mayHave);

  // Until it is refused, then a while longer.
  const statuses = new Map<string, number>();
  const count = ({ status, body }: { status: number; body: { code?: string } | null }) => {
    const name = status < 400 ? String(status) : `${status} ${body?.code}`;
    statuses.set(name, (statuses.get(name) ?? 0) + 1);
  };
  const tasks: string[] = [];
  const refusals = keys.map(() => 0);
  await inParallel(keys.length, async (worker) => {
    const answer = await call("POST", "/api/v1/tasks", {
      key: keys[worker] ?? key,
      body: largest("x"),
      "Idempotency-Key": crypto.randomUUID(),
    });
    count(answer);
    if (answer.status === 201) tasks.push(answer.body.id);
    else refusals[worker] = (refusals[worker] ?? 0) + 1;
    return (refusals[worker] ?? 0) < 3;
  });
  const floodedAt = Date.now();
  expect([...statuses.keys()].toSorted()).toEqual(["201", "409 limit_reached"]);
  await expectBounded();

  // The events of the other account arrive. The test checks this before it makes attempts by itself: these leave the queue full of messages for
  // deliveries that are done.
  const due = await until(
    () => deliveriesOf(neighbour, theirs.id, `?status=pending&limit=100`),
    (seen) => seen.every(({ created_at }: { created_at: string }) => Date.parse(created_at) > floodedAt),
  );
  expect(due.filter(({ created_at }: { created_at: string }) => Date.parse(created_at) <= floodedAt)).toEqual([]);
  expect((await receivedAt(theirs.path)).length).toBeGreaterThan(10);

  // What its receivers answer is stored as far as its reserve goes, however often they are called.
  await hurry(accountId, attack.attempts);
  await expectBounded();
  // Where all of them were in flight, the test has made none by itself.
  const kept = await until(
    async () =>
      (await env.DB.prepare("SELECT count(*) AS count FROM attempts WHERE delivery_id IN (SELECT id FROM deliveries WHERE account_id = ?)")
        .bind(accountId)
        .first<number>("count")) ?? 0,
    (count) => count > 0,
  );
  expect(kept).toBeGreaterThan(0);

  // Every repeatable change ends at the quota or at the reserve.
  const [victim = ""] = keyIds;
  for (const [method, path, body] of [
    ["POST", "/keys", { name: "More" }],
    ["PATCH", `/keys/${victim}`, { name: "x".repeat(100) }],
    ["PATCH", `/tasks/${tasks[0]}`, { title: "Another" }],
    ["POST", `/users`, { name: "Ada", email: "ada@example.com" }],
  ] as const)
    expect((await call(method, `/api/v1${path}`, { key, body })).body.code, `${method} ${path}`).toBe("limit_reached");
  for (let n = 0; n < attack.tightenings; n++)
    count(await call("PATCH", `/api/v1/keys/${victim}`, { key, body: { hourly_limit: 4999 - n } }));
  await expectBounded();
  await inParallel(5, async () => {
    const id = tasks.pop();
    if (id !== undefined) count(await call("DELETE", `/api/v1/tasks/${id}`, { key }));
    return id !== undefined;
  });
  for (const id of keyIds) count(await call("DELETE", `/api/v1/keys/${id}`, { key }));
  await expectBounded();
  expect([...statuses.keys()].filter((status) => !/^(200|201|204|409 limit_reached)$/.test(status))).toEqual([]);
  expect((await fileSize()) - sizeBefore).toBeLessThan(1.5 * mayHave);

  isOver = true;
  const { answers, medianMs } = await working;
  expect([...new Set(answers)].toSorted()).toEqual(["DELETE 204", "GET 200", "PATCH 200", "POST 201"]);
  expect(answers.length).toBeGreaterThan(10);
  console.info(
    `${answers.length} requests of the other account: ${before.medianMs?.toFixed(1)} ms at the median before, ${medianMs?.toFixed(1)} ms during it; ${JSON.stringify(Object.fromEntries(statuses))}, ${((await bytesOf(accountId)) / mib).toFixed(1)} MiB`,
  );
}, 1_800_000);
